// SPDX-License-Identifier: Apache-2.0
#include "medium/staged_backend.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "medium/backend.h"
#include "medium/granules.h"
#include "medium/refuse_call.h"
#include "medium/testing.h"

namespace verbena::medium {
namespace {

constexpr size_t kStagedBlock = size_t{256} << 10;  // four granules

class StagedBackendTest : public testing::Test {
 protected:
  void SetUp() override { open(); }
  StagedOptions options() const {
    return {.files = {.folder = folder_.path(), .block_bytes = kStagedBlock, .capacity = 20}};
  }
  void open(const StagedOptions& how) {
    backend_.reset();
    auto backend = open_staged_backend(how);
    ASSERT_TRUE(backend) << backend.error().what;
    backend_ = *std::move(backend);
  }
  void open() { open(options()); }
  // One block on the medium, with this in it.
  void make(uint32_t seed) {
    const Block block = *backend_->allocate();
    ASSERT_EQ(block.position, 0U);
    fill_pattern(block.memory, kStagedBlock, seed);
    backend_->flush(block.memory, kStagedBlock);
    ASSERT_TRUE(backend_->fence());
    open();
  }

  TemporaryFolder folder_;
  std::unique_ptr<Backend> backend_;
};

TEST_F(StagedBackendTest, WhatItIs) {
  const Properties properties = backend_->properties();
  EXPECT_TRUE(properties.persistent);
  EXPECT_TRUE(properties.loaded_on_demand);
  EXPECT_TRUE(properties.device_target);
}

TEST_F(StagedBackendTest, OnlyWhatWasFlushedIsWritten) {
  make(1);
  const Block block = *backend_->claim(0);
  ASSERT_TRUE(backend_->load(block.memory, kStagedBlock));
  fill_pattern(block.memory, kStagedBlock, 2);
  backend_->flush(block.memory + 8192 + 64, 64);  // of which the whole page goes
  ASSERT_TRUE(backend_->fence());
  open();
  const Block again = *backend_->claim(0);
  ASSERT_TRUE(backend_->load(again.memory, kStagedBlock));
  for (size_t at = 0; at < kStagedBlock; ++at) {
    ASSERT_EQ(again.memory[at], pattern_at(at / 4096 == 2 ? 2 : 1, at)) << at;
  }
}

TEST_F(StagedBackendTest, GranulesAreLoadedOnceAndWhenAskedFor) {
  make(1);
  const Block block = *backend_->claim(0);
  EXPECT_EQ(block.memory[Granules::kBytes + 1], 0);
  ASSERT_TRUE(backend_->load(block.memory + Granules::kBytes + 100, 1));
  EXPECT_TRUE(std::memcmp(block.memory, std::vector<uint8_t>(Granules::kBytes).data(),
                          Granules::kBytes) == 0);
  for (size_t at = Granules::kBytes; at < 2 * Granules::kBytes; ++at) {
    ASSERT_EQ(block.memory[at], pattern_at(1, at));
  }
  block.memory[Granules::kBytes] = 99;
  ASSERT_TRUE(backend_->load(block.memory, kStagedBlock));
  EXPECT_EQ(block.memory[Granules::kBytes], 99);
  EXPECT_EQ(block.memory[0], pattern_at(1, 0));
  EXPECT_EQ(block.memory[kStagedBlock - 1], pattern_at(1, kStagedBlock - 1));
}

TEST_F(StagedBackendTest, AFreshBlockIsNeverLoaded) {
  make(1);
  const Block block = *backend_->allocate();
  ASSERT_EQ(block.position, 0U);
  fill_pattern(block.memory, 4096, 5);
  ASSERT_TRUE(backend_->load(block.memory, kStagedBlock));
  EXPECT_TRUE(has_pattern(block.memory, 4096, 5));
}

TEST_F(StagedBackendTest, ReleasedBeforeTheFenceIsNotWritten) {
  make(1);
  const Block block = *backend_->claim(0);
  const Block other = *backend_->allocate();
  ASSERT_TRUE(backend_->load(block.memory, kStagedBlock));
  fill_pattern(block.memory, kStagedBlock, 2);
  fill_pattern(other.memory, kStagedBlock, 3);
  backend_->flush(block.memory, kStagedBlock);
  backend_->flush(other.memory, kStagedBlock);
  backend_->release(block);
  ASSERT_TRUE(backend_->fence());
  std::vector<uint8_t> out(kStagedBlock);
  ASSERT_TRUE(backend_->read_medium(0, 0, out));
  EXPECT_TRUE(has_pattern(out.data(), kStagedBlock, 1));
  ASSERT_TRUE(backend_->read_medium(other.position, 0, out));
  EXPECT_TRUE(has_pattern(out.data(), kStagedBlock, 3));
}

TEST_F(StagedBackendTest, ThreadsLoadTheSameBlockWhileOthersWriteIntoIt) {
  make(1);
  const Block block = *backend_->claim(0);
  std::vector<std::thread> threads;
  std::atomic<uint32_t> wrong = 0;
  constexpr size_t kThreads = 4;
  for (size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      // Each has its own chunks of every granule.
      for (size_t at = thread * 4096; at < kStagedBlock; at += kThreads * 4096) {
        if (!backend_->load(block.memory + at, 4096)) ++wrong;
        for (size_t i = at; i < at + 4096; ++i) {
          if (block.memory[i] != pattern_at(1, i)) ++wrong;
          block.memory[i] = pattern_at(2, i);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0U);
  EXPECT_TRUE(has_pattern(block.memory, kStagedBlock, 2));
}

TEST_F(StagedBackendTest, MemoryIsRegistered) {
  CountingRegistrar registrar;
  StagedOptions how = options();
  how.memory.registrar = &registrar;
  how.memory.group_bytes = 2 * kStagedBlock;
  open(how);
  const Block block = *backend_->allocate();
  EXPECT_TRUE(registrar.covers(block.memory, kStagedBlock));
  EXPECT_EQ(registrar.count(), 1U);
  backend_.reset();
  EXPECT_EQ(registrar.count(), 0U);
}

TEST_F(StagedBackendTest, ReadOnly) {
  make(4);
  StagedOptions how = options();
  how.files.read_only = true;
  open(how);
  EXPECT_EQ(backend_->allocate().error().code, Code::kBad);
  const Block block = *backend_->claim(0);
  ASSERT_TRUE(backend_->load(block.memory, kStagedBlock));
  EXPECT_TRUE(has_pattern(block.memory, kStagedBlock, 4));
  ASSERT_TRUE(backend_->fence());
}

TEST_F(StagedBackendTest, AFenceThatFailedFailsEverAfter) {
  const Block block = *backend_->allocate();
  fill_pattern(block.memory, kStagedBlock, 1);
  backend_->flush(block.memory, kStagedBlock);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit low{.rlim_cur = 4096, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  const auto first = backend_->fence();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, old);
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, Code::kIo);
  const auto second = backend_->fence();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().what, first.error().what);
}

TEST_F(StagedBackendTest, WithoutIoUringItWritesPlainly) {
  backend_.reset();
  const int result = in_child([this] {
    if (!refuse_call(SYS_io_uring_setup, EPERM)) return kCannotRefuse;
    open();
    if (!backend_ || backend_->properties().name != "staged (pwrite)") return 1;
    const auto block = backend_->allocate();
    if (!block) return 2;
    fill_pattern(block->memory, kStagedBlock, 6);
    backend_->flush(block->memory, kStagedBlock);
    return backend_->fence() ? 0 : 3;
  });
  if (result == kCannotRefuse) GTEST_SKIP() << "no seccomp here";
  ASSERT_EQ(result, 0);
  open();
  const Block block = *backend_->claim(0);
  ASSERT_TRUE(backend_->load(block.memory, kStagedBlock));
  EXPECT_TRUE(has_pattern(block.memory, kStagedBlock, 6));
}

TEST_F(StagedBackendTest, AFailedSyncIsTold) {
  backend_.reset();
  const int result = in_child([this] {
    open();
    const auto block = backend_->allocate();
    if (!block) return 1;
    if (!refuse_call(SYS_fdatasync, EIO)) return kCannotRefuse;
    backend_->flush(block->memory, kStagedBlock);
    const auto failed = backend_->fence();
    return !failed && failed.error().code == Code::kIo && !backend_->fence() ? 0 : 2;
  });
  if (result == kCannotRefuse) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace verbena::medium
