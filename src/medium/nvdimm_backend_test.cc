// SPDX-License-Identifier: Apache-2.0
#include "medium/nvdimm_backend.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "medium/backend.h"
#include "medium/refuse_call.h"
#include "medium/testing.h"

namespace verbena::medium {
namespace {

constexpr size_t kNvdimmBlock = size_t{64} << 10;

class NvdimmBackendTest : public testing::Test {
 protected:
  void TearDown() override { ::unsetenv("PMEM2_FORCE_GRANULARITY"); }
  NvdimmOptions options() const {
    return {.files = {.folder = folder_.path(), .block_bytes = kNvdimmBlock, .capacity = 30}};
  }
  static std::unique_ptr<Backend> open(const NvdimmOptions& options) {
    auto backend = open_nvdimm_backend(options);
    EXPECT_TRUE(backend) << backend.error().what;
    return backend ? *std::move(backend) : nullptr;
  }

  TemporaryFolder folder_;
};

TEST_F(NvdimmBackendTest, WhatItIsFollowsFromTheMedium) {
  auto backend = open(options());
  static_cast<void>(*backend->allocate());
  EXPECT_EQ(backend->properties().name, "nvdimm (msync)");
  EXPECT_TRUE(backend->properties().persistent);
  EXPECT_FALSE(backend->properties().device_target);
  backend.reset();
  ::setenv("PMEM2_FORCE_GRANULARITY", "CACHE_LINE", 1);
  EXPECT_EQ(open(options())->properties().name, "nvdimm (cache lines)");
  EXPECT_TRUE(open(options())->properties().device_target);
  ::unsetenv("PMEM2_FORCE_GRANULARITY");
  NvdimmOptions built_in = options();
  built_in.built_in_device = true;
  EXPECT_TRUE(open(built_in)->properties().device_target);
}

TEST_F(NvdimmBackendTest, RangesAcrossBlocksAndFilesAreFenced) {
  const auto backend = open(options());
  std::vector<Block> blocks;
  for (int i = 0; i < 30; ++i) {
    blocks.push_back(*backend->allocate());
    fill_pattern(blocks.back().memory, kNvdimmBlock, static_cast<uint32_t>(i));
  }
  // Files begin at 0, 8 and 24. A single range in one, one that goes over two, several in one.
  backend->flush(blocks[3].memory + 64, 128);
  ASSERT_TRUE(backend->fence());
  backend->flush(blocks[7].memory, kNvdimmBlock);
  backend->flush(blocks[8].memory, kNvdimmBlock);
  ASSERT_TRUE(backend->fence());
  for (int i = 24; i < 30; i += 2)
    backend->flush(blocks[static_cast<size_t>(i)].memory, kNvdimmBlock);
  ASSERT_TRUE(backend->fence());
  ASSERT_TRUE(backend->fence());  // nothing to do
}

TEST_F(NvdimmBackendTest, FlushesGoOnWhileOthersFence) {
  const auto backend = open(options());
  std::vector<Block> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(*backend->allocate());
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      for (uint32_t round = 0; !stop; ++round) {
        fill_pattern(blocks[i].memory, 4096, round);
        backend->flush(blocks[i].memory, 4096);
        ASSERT_TRUE(backend->fence());
      }
    });
  }
  for (uint32_t round = 0; round < 200; ++round) {
    for (size_t at = 0; at < kNvdimmBlock; at += 8192) backend->flush(blocks[2].memory + at, 4096);
  }
  ASSERT_TRUE(backend->fence());
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(NvdimmBackendTest, ReadOnlyMapsWithoutWriting) {
  {
    const auto backend = open(options());
    const Block block = *backend->allocate();
    fill_pattern(block.memory, kNvdimmBlock, 7);
    backend->flush(block.memory, kNvdimmBlock);
    ASSERT_TRUE(backend->fence());
  }
  NvdimmOptions how = options();
  how.files.read_only = true;
  const auto backend = open(how);
  EXPECT_EQ(backend->allocate().error().code, Code::kBad);
  EXPECT_EQ(backend->claim(20).error().code, Code::kBad);  // it would have to be made
  const Block block = *backend->claim(0);
  EXPECT_TRUE(has_pattern(block.memory, kNvdimmBlock, 7));
  EXPECT_GE(in_child([&] {
              std::signal(SIGSEGV, SIG_DFL);
              *static_cast<volatile uint8_t*>(block.memory) = 1;
              return 0;
            }),
            128);  // a signal
}

TEST_F(NvdimmBackendTest, FilesAreRegisteredAsAWhole) {
  CountingRegistrar registrar;
  NvdimmOptions how = options();
  how.registrar = &registrar;
  auto backend = open(how);
  const Block block = *backend->allocate();
  EXPECT_TRUE(registrar.covers(block.memory, 8 * kNvdimmBlock));
  static_cast<void>(*backend->claim(8));
  EXPECT_EQ(registrar.count(), 2U);
  registrar.refuse = true;
  const auto refused = backend->claim(24);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().what, "the device refuses");
  registrar.refuse = false;
  EXPECT_EQ(backend->claim(24)->position, 24U);  // in the file that was made before
  EXPECT_EQ(registrar.count(), 3U);
  backend.reset();
  EXPECT_EQ(registrar.count(), 0U);
  registrar.refuse = true;
  const auto again = open_nvdimm_backend(how);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().what, "the device refuses");
}

// While the device gives up a mapping, others take and give blocks; when it has, the file is still
// there.
class PatientRegistrar final : public Registrar {
 public:
  Result<void> add(uint8_t* /*memory*/, size_t /*bytes*/) override { return {}; }
  void remove(uint8_t* memory, size_t /*bytes*/) override {
    if (!meanwhile) return;
    memory[0] = memory[0];  // it is mapped
    auto done = std::async(std::launch::async, meanwhile);
    EXPECT_EQ(done.wait_for(std::chrono::seconds(60)), std::future_status::ready);
    ++removed;
  }
  std::function<void()> meanwhile;
  int removed = 0;
};

TEST_F(NvdimmBackendTest, NobodyWaitsForAFileThatIsRemoved) {
  PatientRegistrar registrar;
  NvdimmOptions how = options();
  how.registrar = &registrar;
  const auto backend = open(how);
  const Block first = *backend->allocate();
  backend->release(*backend->claim(8));
  registrar.meanwhile = [&] {
    backend->release(*backend->allocate());
    backend->flush(first.memory, 4096);
    EXPECT_TRUE(backend->fence());
    EXPECT_EQ(backend->existing(), 8U);
  };
  EXPECT_EQ(*backend->trim(), 16U);
  EXPECT_EQ(registrar.removed, 1);
  registrar.meanwhile = nullptr;
  EXPECT_EQ(backend->claim(8)->position, 8U);  // in a new file
}

// A range alone is synced by msync, several by fdatasync. Of neither is it known what was written.
TEST_F(NvdimmBackendTest, AFenceThatFailedFailsEverAfter) {
  for (const auto& [call, ranges] : {std::pair{SYS_msync, 1}, std::pair{SYS_fdatasync, 2}}) {
    const int result = in_child([&] {
      const auto backend = open(options());
      const auto block = backend->allocate();
      if (!block || !backend->fence()) return 1;
      if (!refuse_call(call, EIO)) return kCannotRefuse;
      if (!backend->fence()) return 2;  // nothing was flushed
      for (int i = 0; i < ranges; ++i) backend->flush(block->memory + i * 8192, 4096);
      const auto failed = backend->fence();
      if (failed || failed.error().code != Code::kIo) return 3;
      return backend->fence() ? 4 : 0;
    });
    if (result == kCannotRefuse) GTEST_SKIP() << "no seccomp here";
    EXPECT_EQ(result, 0);
  }
}

TEST_F(NvdimmBackendTest, EveryFileIsSynced) {
  const int result = in_child([this] {
    const auto backend = open(options());
    const auto first = backend->claim(0);
    const auto last = backend->claim(24);  // in the third file
    if (!first || !last) return 1;
    if (!refuse_call(SYS_fdatasync, EIO)) return kCannotRefuse;
    backend->flush(first->memory, 4096);
    if (!backend->fence()) return 2;  // by msync
    backend->flush(first->memory, 4096);
    backend->flush(last->memory, 4096);
    backend->flush(last->memory + 8192, 4096);
    return backend->fence() ? 3 : 0;
  });
  if (result == kCannotRefuse) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(result, 0);
}

TEST_F(NvdimmBackendTest, AHostileFolderIsAnError) {
  { static_cast<void>(*open(options())->allocate()); }
  std::filesystem::resize_file(folder_.path() / "blocks.0of1.000", 4096);
  const auto backend = open_nvdimm_backend(options());
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().code, Code::kBad);
}

TEST_F(NvdimmBackendTest, PastThePageCacheWhereTheFileSystemCan) {
  const auto backend = open(options());
  const Block block = *backend->allocate();
  fill_pattern(block.memory, kNvdimmBlock, 3);
  backend->flush(block.memory, kNvdimmBlock);
  ASSERT_TRUE(backend->fence());
  std::vector<uint8_t> out(kNvdimmBlock);
  ASSERT_TRUE(backend->read_medium(block.position, 0, out));
  EXPECT_TRUE(has_pattern(out.data(), kNvdimmBlock, 3));
  NvdimmOptions in_memory = options();
  std::string folder = "/dev/shm/verbena-medium-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) GTEST_SKIP() << "there is no /dev/shm";
  in_memory.files.folder = folder;
  {
    const auto other = open(in_memory);
    static_cast<void>(*other->allocate());
    EXPECT_FALSE(other->reads_past_cache());
    EXPECT_TRUE(other->read_medium(0, 0, out));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace verbena::medium
