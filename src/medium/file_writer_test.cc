// SPDX-License-Identifier: Apache-2.0
#include "medium/file_writer.h"

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "medium/refuse_call.h"
#include "medium/testing.h"

namespace verbena::medium {
namespace {

class FileWriterTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    writer_ = GetParam() ? make_uring_writer() : make_plain_writer();
    if (!writer_) GTEST_SKIP() << "io_uring is not allowed here";
    file_.reset(::open((folder_.path() / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_TRUE(file_.valid());
  }
  [[nodiscard]] std::vector<uint8_t> content(size_t bytes) const {
    std::vector<uint8_t> all(bytes);
    EXPECT_EQ(::pread(file_.get(), all.data(), bytes, 0), static_cast<ssize_t>(bytes));
    return all;
  }

  TemporaryFolder folder_;
  std::unique_ptr<FileWriter> writer_;
  UniqueFd file_;
};

TEST_P(FileWriterTest, NothingIsQuick) { EXPECT_EQ(writer_->write({}), 0); }

TEST_P(FileWriterTest, ManyMoreThanFitTheQueue) {
  constexpr size_t kPiece = 4096;
  std::vector<uint8_t> memory(500 * kPiece);
  fill_pattern(memory.data(), memory.size(), 1);
  std::vector<FileWrite> writes;
  for (size_t i = 500; i-- > 0;) {
    writes.push_back({file_.get(), i * kPiece, memory.data() + i * kPiece, kPiece});
  }
  ASSERT_EQ(writer_->write(writes), 0);
  EXPECT_EQ(content(memory.size()), memory);
}

TEST_P(FileWriterTest, OneThatIsManyPieces) {
  std::vector<uint8_t> memory((size_t{37} << 20) + 12'345);
  fill_pattern(memory.data(), memory.size(), 2);
  const std::vector<FileWrite> writes = {{file_.get(), 0, memory.data(), memory.size()}};
  ASSERT_EQ(writer_->write(writes), 0);
  EXPECT_EQ(content(memory.size()), memory);
}

TEST_P(FileWriterTest, AShortWriteGoesOnUntilItFails) {
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit low{.rlim_cur = 10'000, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  std::vector<uint8_t> memory(20'000);
  fill_pattern(memory.data(), memory.size(), 3);
  const std::vector<FileWrite> writes = {{file_.get(), 0, memory.data(), memory.size()}};
  const int error = writer_->write(writes);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, old);
  EXPECT_EQ(error, EFBIG);
  struct stat facts{};
  ASSERT_EQ(::fstat(file_.get(), &facts), 0);
  EXPECT_EQ(facts.st_size, 10'000);
  // It is as good as before.
  ASSERT_EQ(writer_->write(writes), 0);
  EXPECT_EQ(content(memory.size()), memory);
}

TEST_P(FileWriterTest, TheErrorOfAnyIsTold) {
  std::vector<uint8_t> memory(4096);
  std::vector<FileWrite> writes;
  for (size_t i = 0; i < 100; ++i) writes.push_back({file_.get(), i * 4096, memory.data(), 4096});
  writes[60].fd = -1;
  EXPECT_EQ(writer_->write(writes), EBADF);
  EXPECT_EQ(writer_->write(std::span(writes).first(60)), 0);
}

// As in a sandbox that is entered after the writer was made.
TEST_P(FileWriterTest, WritesThoughTheKernelRefusesToSubmit) {
  std::vector<uint8_t> memory(100 * 4096);
  fill_pattern(memory.data(), memory.size(), 4);
  const int result = in_child([&] {
    if (!refuse_call(SYS_io_uring_enter, EIO)) return kCannotRefuse;
    std::vector<FileWrite> writes;
    for (size_t i = 0; i < 100; ++i) {
      writes.push_back({file_.get(), i * 4096, memory.data() + i * 4096, 4096});
    }
    if (writer_->write(writes) != 0) return 1;
    return writer_->write(std::span(writes).first(1)) == 0 ? 0 : 2;
  });
  if (result == kCannotRefuse) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(result, 0);
  EXPECT_EQ(content(memory.size()), memory);
}

INSTANTIATE_TEST_SUITE_P(Both, FileWriterTest, testing::Bool(), [](const auto& kind) {
  return std::string(kind.param ? "uring" : "plain");
});

}  // namespace
}  // namespace verbena::medium
