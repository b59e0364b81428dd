// SPDX-License-Identifier: Apache-2.0
// Files as they are made, found again after a crash, and as somebody hostile would leave them.
#include "medium/block_files.h"

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "medium/backend.h"
#include "medium/refuse_call.h"
#include "medium/testing.h"

namespace verbena::medium {
namespace {

namespace fs = std::filesystem;
constexpr size_t kFileBlock = size_t{64} << 10;

class BlockFilesTest : public testing::Test {
 protected:
  FileOptions options(uint32_t capacity = 1000) const {
    return {.folder = folder_.path(), .block_bytes = kFileBlock, .capacity = capacity};
  }
  static std::unique_ptr<BlockFiles> open(const FileOptions& options) {
    auto files = BlockFiles::open(options);
    EXPECT_TRUE(files) << files.error().what;
    return files ? *std::move(files) : nullptr;
  }
  // A medium of 8 + 16 blocks.
  void make_two() const { ASSERT_TRUE(open(options())->grow_to(8)); }
  [[nodiscard]] fs::path path(const std::string& name) const { return folder_.path() / name; }
  void expect_bad(const FileOptions& how, const std::string& word, Code code = Code::kBad) const {
    const auto files = BlockFiles::open(how);
    ASSERT_FALSE(files);
    EXPECT_EQ(files.error().code, code) << files.error().what;
    EXPECT_NE(files.error().what.find(word), std::string::npos) << files.error().what;
  }

  TemporaryFolder folder_;
};

uint64_t allocated_bytes(const fs::path& path) {
  struct stat facts{};
  EXPECT_EQ(::stat(path.c_str(), &facts), 0);
  return static_cast<uint64_t>(facts.st_blocks) * 512;
}

TEST_F(BlockFilesTest, EachIsTwiceTheLastAndNoneIsSparse) {
  const auto files = open(options(8 + 16 + 32 + 5));
  EXPECT_EQ(files->existing(), 0U);
  ASSERT_TRUE(files->grow_to(60));
  ASSERT_EQ(files->count(), 4U);
  const std::vector<uint32_t> sizes = {8, 16, 32, 5};  // the last is cut to the capacity
  for (uint32_t i = 0; i < 4; ++i) {
    const BlockFile& file = files->file(i);
    EXPECT_EQ(file.name, "blocks.0of1.00" + std::to_string(i));
    EXPECT_EQ(file.blocks, sizes[i]);
    EXPECT_EQ(fs::file_size(path(file.name)), sizes[i] * kFileBlock);
    EXPECT_GE(allocated_bytes(path(file.name)), sizes[i] * kFileBlock);
  }
  EXPECT_EQ(files->grow().error().code, Code::kFull);
  for (uint32_t position = 0; position < 61; ++position) {
    const BlockFile& file = files->file(files->index_of(position));
    EXPECT_TRUE(position >= file.first && position < file.first + file.blocks);
  }
}

TEST_F(BlockFilesTest, NoneIsLargerThanTheLargest) {
  FileOptions how = options(40);
  how.max_file_bytes = 12 * kFileBlock;
  const auto files = open(how);
  ASSERT_TRUE(files->grow_to(39));
  EXPECT_EQ(files->file(1).blocks, 12U);
  EXPECT_EQ(files->file(2).blocks, 12U);
}

TEST_F(BlockFilesTest, OpenedAgainAllIsThere) {
  make_two();
  const auto files = open(options(10));  // less than it has: what it has, counts
  EXPECT_EQ(files->existing(), 24U);
  EXPECT_EQ(files->capacity(), 24U);
}

TEST_F(BlockFilesTest, RangesAreCutWhereFilesEnd) {
  const auto files = open(options());
  ASSERT_TRUE(files->grow_to(8));
  const std::vector<FlushQueue::Range> ranges = {{kFileBlock, 2 * kFileBlock},
                                                 {7 * kFileBlock, 9 * kFileBlock}};
  const auto pieces = files->split(ranges);
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[1].file, 0U);
  EXPECT_EQ(pieces[1].end, 8 * kFileBlock);
  EXPECT_EQ(pieces[2].file, 1U);
  EXPECT_EQ(pieces[2].begin, 8 * kFileBlock);
  EXPECT_EQ(pieces[2].end, 9 * kFileBlock);
}

TEST_F(BlockFilesTest, HalfMadeFilesOfACrashAreRemoved) {
  make_two();
  std::ofstream(path("blocks.0of1.002.new")) << "half";
  std::ofstream(path("blocks.0of1.000.txt")) << "not ours";
  FileOptions reading = options();
  reading.read_only = true;
  EXPECT_EQ(open(reading)->existing(), 24U);
  EXPECT_TRUE(fs::exists(path("blocks.0of1.002.new")));  // not when only reading
  EXPECT_EQ(open(options())->existing(), 24U);
  EXPECT_FALSE(fs::exists(path("blocks.0of1.002.new")));
  EXPECT_TRUE(fs::exists(path("blocks.0of1.000.txt")));
}

TEST_F(BlockFilesTest, AFolderIsMadeUnlessReading) {
  FileOptions how = options();
  how.folder += "/new";
  how.read_only = true;
  expect_bad(how, "new");
  how.read_only = false;
  EXPECT_EQ(open(how)->existing(), 0U);
  EXPECT_TRUE(fs::is_directory(path("new")));
}

TEST_F(BlockFilesTest, ReadingOnlyMakesNothing) {
  make_two();
  FileOptions how = options();
  how.read_only = true;
  const auto files = open(how);
  EXPECT_EQ(files->grow().error().code, Code::kBad);
  std::vector<uint8_t> out(4096, 1);
  ASSERT_TRUE(files->read(23, kFileBlock - 4096, out));
  EXPECT_EQ(out, std::vector<uint8_t>(4096, 0));
}

TEST_F(BlockFilesTest, FewDescriptors) {
  const auto count = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = count();
  {
    const auto files = open(options(8 + 16 + 32));
    ASSERT_TRUE(files->grow_to(50));
    EXPECT_LE(count() - before, 1 + 2 * 3);
  }
  EXPECT_EQ(count(), before);
}

TEST_F(BlockFilesTest, AFileOfAnotherSizeIsRefused) {
  make_two();
  fs::resize_file(path("blocks.0of1.001"), 16 * kFileBlock - 1);
  expect_bad(options(), "blocks.0of1.001");
  fs::resize_file(path("blocks.0of1.001"), 0);
  expect_bad(options(), "blocks.0of1.001");
  fs::resize_file(path("blocks.0of1.001"), kFileBlock);  // whole blocks, but it must not be sparse
  EXPECT_EQ(open(options())->existing(), 9U);
  EXPECT_GE(allocated_bytes(path("blocks.0of1.001")), kFileBlock);
}

TEST_F(BlockFilesTest, OtherBlocksAreRefused) {
  make_two();
  FileOptions how = options();
  how.block_bytes = 3 * kFileBlock;
  expect_bad(how, "another block size");
}

TEST_F(BlockFilesTest, HolesAreFilledSoThatWritingCannotFail) {
  make_two();
  fs::resize_file(path("blocks.0of1.000"), 0);
  fs::resize_file(path("blocks.0of1.000"), 8 * kFileBlock);
  ASSERT_LT(allocated_bytes(path("blocks.0of1.000")), kFileBlock);
  EXPECT_EQ(open(options())->existing(), 24U);
  EXPECT_GE(allocated_bytes(path("blocks.0of1.000")), 8 * kFileBlock);
}

TEST_F(BlockFilesTest, HolesThatCannotBeFilledAreRefused) {
  make_two();
  const fs::path file = path("blocks.0of1.001");
  fs::resize_file(file, 0);
  fs::resize_file(file, (uint64_t{1} << 43) / kFileBlock * kFileBlock);  // 8 TiB of nothing
  expect_bad(options(), "no space to fill", Code::kFull);
  EXPECT_LT(allocated_bytes(file), kFileBlock);
}

TEST_F(BlockFilesTest, AMissingFileIsNoticed) {
  make_two();
  fs::remove(path("blocks.0of1.000"));
  expect_bad(options(), "blocks.0of1.000 is missing");
}

TEST_F(BlockFilesTest, AroundAMissingFileTheOthersAreRead) {
  {
    auto files = open(options());
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(files->grow());
  }
  const uint32_t begin[] = {0, 8, 24};
  fs::remove(path("blocks.0of1.001"));
  FileOptions reading = options();
  reading.read_only = true;
  expect_bad(reading, "blocks.0of1.001 is missing");
  // Told where the file behind it belongs, and not told: each is twice as large as the last.
  for (const std::optional<uint32_t> told :
       {std::optional<uint32_t>(begin[2]), std::optional<uint32_t>()}) {
    reading.position_of = [&](int) { return told; };
    const auto files = open(reading);
    EXPECT_TRUE(files->has(7));
    EXPECT_FALSE(files->has(8));
    EXPECT_FALSE(files->has(23));
    EXPECT_TRUE(files->has(24));
    std::vector<uint8_t> bytes(kFileBlock, 1);
    EXPECT_TRUE(files->read(8, 0, bytes));
    EXPECT_EQ(bytes, std::vector<uint8_t>(kFileBlock));
  }
}

TEST_F(BlockFilesTest, OfAFileThatWasCutTheRestIsRead) {
  make_two();
  fs::resize_file(path("blocks.0of1.000"), 5 * kFileBlock + 4096 + 1);
  FileOptions reading = options();
  reading.read_only = true;
  reading.position_of = [](int) { return 8; };
  const auto files = open(reading);
  EXPECT_EQ(files->existing(), 24U);
  EXPECT_TRUE(files->has(5));
  EXPECT_FALSE(files->has(6));
  EXPECT_TRUE(files->has(8));
  std::vector<uint8_t> bytes(8192, 1);
  EXPECT_TRUE(files->read(5, 4096, bytes));
  EXPECT_EQ(bytes, std::vector<uint8_t>(8192));
}

TEST_F(BlockFilesTest, OtherMediaOfOneFolderAreLeftAlone) {
  FileOptions how = options();
  how.media = 2;
  ASSERT_TRUE(open(how)->grow());
  how.medium = 1;
  EXPECT_EQ(open(how)->existing(), 0U);
  expect_bad(options(), "2 directories");
}

TEST_F(BlockFilesTest, LinksAndWhatIsNoFileAreRefused) {
  make_two();
  const fs::path last = path("blocks.0of1.001");
  const fs::path other = path("victim");
  fs::rename(last, other);
  fs::create_symlink(other, last);
  expect_bad(options(), "blocks.0of1.001");
  fs::remove(last);
  fs::create_hard_link(other, last);
  expect_bad(options(), "hard link", Code::kIo);
  FileOptions reading = options();
  reading.read_only = true;
  EXPECT_EQ(open(reading)->existing(), 24U);
  fs::remove(last);
  fs::create_directory(last);
  expect_bad(options(), "blocks.0of1.001");
  fs::remove(last);
  ASSERT_EQ(::mkfifo(last.c_str(), 0600), 0);
  expect_bad(options(), "not a regular file");
}

TEST_F(BlockFilesTest, NamesThatAreNearlyOurs) {
  for (const char* name :
       {"blocks.0of1.0000", "blocks.0of1.00", "blocks.0of1.-01", "blocks.0of1.", "blocks.of1.000",
        "blocks.0of.000", "xblocks.0of1.000", "blocks.99999999999of1.000", "blocks.0of1.00x",
        "blocks.0of1.000.new.new"}) {
    std::ofstream(path(name)) << "x";
  }
  EXPECT_EQ(open(options())->existing(), 0U);
}

TEST_F(BlockFilesTest, WithLittleRoomFilesAreSmaller) {
  // A file of 8 blocks does not fit a limit of 3; one of 2 does.
  const int result = in_child([this] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 3 * kFileBlock, .rlim_max = 3 * kFileBlock};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    const auto files = BlockFiles::open(options());
    if (!files || !(*files)->grow()) return 2;
    return (*files)->file(0).blocks == 2 ? 0 : 3;
  });
  EXPECT_EQ(result, 0);
  EXPECT_EQ(open(options())->existing(), 2U);
}

TEST_F(BlockFilesTest, WithNoRoomItSaysSo) {
  const int result = in_child([this] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = kFileBlock - 1, .rlim_max = kFileBlock - 1};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    const auto files = BlockFiles::open(options());
    if (!files) return 2;
    const auto grown = (*files)->grow();
    if (grown || grown.error().code != Code::kFull) return 3;
    return grown.error().what.find("free some space") != std::string::npos ? 0 : 4;
  });
  EXPECT_EQ(result, 0);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(BlockFilesTest, AFullDiskIsUsedToItsLastBlockAndGoesOnWhenThereIsRoom) {
  const int result = in_child([this]() -> int {
    const uid_t user = ::geteuid();
    const gid_t group = ::getegid();
    if (::unshare(user == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0) return kCannotRefuse;
    if (user != 0) {
      std::ofstream("/proc/self/setgroups") << "deny";
      std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
      std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
    }
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kCannotRefuse;
    const std::string size = "size=" + std::to_string(21 * kFileBlock);
    if (::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, size.c_str()) != 0)
      return kCannotRefuse;
    if (!(std::ofstream(path("other")) << std::string(5 * kFileBlock, 'x')).flush())
      return kCannotRefuse;
    const auto files = BlockFiles::open(options());
    if (!files) return 1;
    Result<void> grown;
    while (grown) grown = (*files)->grow();
    if (grown.error().code != Code::kFull || (*files)->existing() != 16) return 2;  // 8, 8
    fs::remove(path("other"));
    if (!(*files)->grow() || (*files)->existing() < 20) return 3;
    if ((*files)->past_cache()) return 4;  // tmpfs has nothing behind it
    return 0;
  });
  if (result == kCannotRefuse) GTEST_SKIP() << "this process may not mount a small file system";
  EXPECT_EQ(result, 0);
}

TEST_F(BlockFilesTest, WhereNothingCanBePreallocatedZerosAreWritten) {
  const int result = in_child([this] {
    if (!refuse_call(SYS_fallocate, EOPNOTSUPP)) return kCannotRefuse;
    const auto files = BlockFiles::open(options());
    return files && (*files)->grow_to(8) ? 0 : 1;
  });
  if (result == kCannotRefuse) GTEST_SKIP() << "no seccomp here";
  ASSERT_EQ(result, 0);
  for (const char* name : {"blocks.0of1.000", "blocks.0of1.001"}) {
    EXPECT_GE(allocated_bytes(path(name)), fs::file_size(path(name)));
  }
  EXPECT_EQ(open(options())->existing(), 24U);
}

TEST_F(BlockFilesTest, WhereHolesCannotBeFilledTheyAreRefused) {
  make_two();
  fs::resize_file(path("blocks.0of1.001"), 0);
  fs::resize_file(path("blocks.0of1.001"), 16 * kFileBlock);
  const int result = in_child([this] {
    if (!refuse_call(SYS_fallocate, EOPNOTSUPP)) return kCannotRefuse;
    const auto files = BlockFiles::open(options());
    return !files && files.error().code == Code::kIo ? 0 : 1;
  });
  if (result == kCannotRefuse) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(result, 0);
}

// As at a crash between making a file and naming it.
TEST_F(BlockFilesTest, AFileWithoutItsNameIsNotThere) {
  const int result = in_child([this] {
    const auto files = BlockFiles::open(options());
    if (!files || !(*files)->grow()) return 1;
    if (!refuse_call(SYS_renameat, EIO)) return kCannotRefuse;
    const auto grown = (*files)->grow();
    if (grown || grown.error().code != Code::kIo) return 2;
    return (*files)->existing() == 8 ? 0 : 3;
  });
  if (result == kCannotRefuse) GTEST_SKIP() << "no seccomp here";
  ASSERT_EQ(result, 0);
  EXPECT_TRUE(fs::exists(path("blocks.0of1.001.new")));
  const auto files = open(options());
  EXPECT_FALSE(fs::exists(path("blocks.0of1.001.new")));
  EXPECT_EQ(files->existing(), 8U);
  ASSERT_TRUE(files->grow());
  EXPECT_EQ(files->existing(), 24U);
}

TEST_F(BlockFilesTest, AFileThatCannotBeSyncedIsNotUsed) {
  const int result = in_child([this] {
    const auto files = BlockFiles::open(options());
    if (!files) return 1;
    if (!refuse_call(SYS_fsync, EIO)) return kCannotRefuse;
    const auto grown = (*files)->grow();
    return !grown && grown.error().code == Code::kIo && (*files)->existing() == 0 ? 0 : 2;
  });
  if (result == kCannotRefuse) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(result, 0);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

}  // namespace
}  // namespace verbena::medium
