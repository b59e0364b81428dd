// SPDX-License-Identifier: Apache-2.0
// A file that is cut off while it is mapped gives SIGBUS exactly as a sector that cannot be read.
#include "medium/mapped_guard.h"

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "medium/backend.h"
#include "medium/nvdimm_backend.h"
#include "medium/refuse_call.h"
#include "medium/staged_backend.h"
#include "medium/testing.h"

namespace verbena::medium {
namespace {

constexpr size_t kGuardBlock = size_t{64} << 10;

class MappedGuardTest : public testing::Test {
 protected:
  void SetUp() override {
    backend_ = open();
    ASSERT_TRUE(backend_);
    block_ = *backend_->claim(0);
    fill_pattern(block_.memory, kGuardBlock, 1);
    backend_->flush(block_.memory, kGuardBlock);
    ASSERT_TRUE(backend_->fence());
    all_ = std::filesystem::file_size(file_);
  }
  [[nodiscard]] std::unique_ptr<Backend> open() const {
    auto backend = open_nvdimm_backend(
        {.files = {.folder = folder_.path(), .block_bytes = kGuardBlock, .capacity = 20}});
    EXPECT_TRUE(backend);
    return backend ? *std::move(backend) : nullptr;
  }
  // Leaves the first page.
  void cut() const { std::filesystem::resize_file(file_, 4096); }
  // Until the block's pages from the second on were found unreadable; then it can be written again.
  void lose() const {
    cut();
    for (size_t at = 4096; at < kGuardBlock; at += 4096) EXPECT_EQ(byte(at), 0);
    std::filesystem::resize_file(file_, all_);
  }
  [[nodiscard]] uint8_t byte(size_t at) const {
    return *static_cast<volatile uint8_t*>(block_.memory + at);
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "blocks.0of1.000";
  std::unique_ptr<Backend> backend_;
  Block block_;
  size_t all_ = 0;
};

TEST_F(MappedGuardTest, WhatCannotBeReadIsZerosAndKnown) {
  EXPECT_FALSE(backend_->unreadable(block_.memory, kGuardBlock));
  cut();
  EXPECT_TRUE(has_pattern(block_.memory, 4096, 1));
  EXPECT_EQ(byte(8192 + 7), 0);
  EXPECT_EQ(byte(8192 + 4095), 0);
  EXPECT_TRUE(backend_->unreadable(block_.memory + 8192, 4096));
  EXPECT_TRUE(backend_->unreadable(block_.memory, kGuardBlock));
  EXPECT_FALSE(backend_->unreadable(block_.memory, 8192));  // nobody has looked at the second page
  EXPECT_TRUE(has_pattern(block_.memory, 4096, 1));
}

TEST_F(MappedGuardTest, WhatIsWrittenThereIsNotSaidToBeDurable) {
  cut();
  fill_pattern(block_.memory, kGuardBlock, 2);
  backend_->flush(block_.memory, 4096);
  ASSERT_TRUE(backend_->fence());
  backend_->flush(block_.memory + 8192, 4096);
  const auto fenced = backend_->fence();
  ASSERT_FALSE(fenced);
  EXPECT_EQ(fenced.error().code, Code::kIo);
  EXPECT_NE(fenced.error().what.find("was cut off"), std::string::npos) << fenced.error().what;
  EXPECT_EQ(std::filesystem::file_size(file_), 4096U);
}

TEST_F(MappedGuardTest, AWholePageCanBeWrittenWhereItCouldNotBeRead) {
  lose();
  fill_pattern(block_.memory, kGuardBlock, 2);
  backend_->flush(block_.memory + 8192, 4096);
  ASSERT_TRUE(backend_->fence());
  backend_.reset();
  backend_ = open();
  block_ = *backend_->claim(0);
  for (size_t at = 4096; at < 16'384; ++at) {
    // What was not flushed is not written: its neighbours may be somebody's.
    ASSERT_EQ(byte(at), at / 4096 == 2 ? pattern_at(2, at) : 0) << at;
  }
}

TEST_F(MappedGuardTest, AlsoOnAMediumThatIsFlushedByCacheLines) {
  backend_.reset();
  ::setenv("PMEM2_FORCE_GRANULARITY", "CACHE_LINE", 1);
  backend_ = open();
  ::unsetenv("PMEM2_FORCE_GRANULARITY");
  ASSERT_TRUE(backend_ && backend_->properties().name == "nvdimm (cache lines)");
  block_ = *backend_->claim(0);
  lose();
  fill_pattern(block_.memory, kGuardBlock, 2);
  backend_->flush(block_.memory + 8192, 4096);
  ASSERT_TRUE(backend_->fence());
  std::vector<uint8_t> there(4096);
  const UniqueFd fd(::open(file_.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::pread(fd.get(), there.data(), there.size(), 8192), 4096);
  EXPECT_EQ(there[5], pattern_at(2, 8192 + 5));
}

// None may lose what another has written to the page that replaces the lost one.
TEST_F(MappedGuardTest, ThreadsThatFindTheSamePage) {
  for (uint32_t round = 0; round < 20; ++round) {
    cut();
    std::atomic<int> ready = 0;
    std::vector<std::thread> threads;
    for (size_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        ++ready;
        while (ready < 4) std::this_thread::yield();
        for (size_t at = 4096 + thread; at < kGuardBlock; at += 4) block_.memory[at] = 9;
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t at = 4096; at < kGuardBlock; ++at) ASSERT_EQ(byte(at), 9) << at;
    std::filesystem::resize_file(file_, all_);
    backend_.reset();
    backend_ = open();
    block_ = *backend_->claim(0);
  }
}

// By a signal, or by the handler of a sanitizer, which was there before.
TEST_F(MappedGuardTest, WhatIsNotOursEndsTheProcessAsBefore) {
  constexpr int kSurvived = 42;
  constexpr int kNotTried = 43;
  const int by_access = in_child([&] {
    const UniqueFd fd(::open((folder_.path() / "x").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (::ftruncate(fd.get(), 4096) != 0) return kNotTried;
    void* const memory = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (memory == MAP_FAILED || ::ftruncate(fd.get(), 0) != 0) return kNotTried;
    static_cast<void>(*static_cast<volatile uint8_t*>(memory));
    return kSurvived;
  });
  EXPECT_NE(by_access, kSurvived);
  EXPECT_NE(by_access, kNotTried);
  const int by_raise = in_child([] {
    static_cast<void>(std::raise(SIGBUS));
    return kSurvived;
  });
  EXPECT_NE(by_raise, kSurvived);
}

TEST(StagedUnreadableTest, OnlyThePagesThatAreGone) {
  const TemporaryFolder folder;
  const StagedOptions options{
      .files = {.folder = folder.path(), .block_bytes = kGuardBlock, .capacity = 20}};
  {
    const auto backend = open_staged_backend(options);
    const Block block = *(*backend)->claim(0);
    fill_pattern(block.memory, kGuardBlock, 1);
    (*backend)->flush(block.memory, kGuardBlock);
    ASSERT_TRUE((*backend)->fence());
  }
  const auto backend = open_staged_backend(options);
  ASSERT_TRUE(backend);
  const Block block = *(*backend)->claim(0);
  std::filesystem::resize_file(folder.path() / "blocks.0of1.000", 12'288);
  ASSERT_TRUE((*backend)->load(block.memory, 4096));
  EXPECT_TRUE(has_pattern(block.memory, 12'288, 1));
  EXPECT_FALSE((*backend)->unreadable(block.memory, 12'288));
  EXPECT_TRUE((*backend)->unreadable(block.memory + 12'288, 4096));
  EXPECT_EQ(block.memory[12'288], 0);
}

}  // namespace
}  // namespace verbena::medium
