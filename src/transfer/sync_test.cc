// SPDX-License-Identifier: Apache-2.0
// With --sync, a file's data and its name are on the disk before its sender is told, also where the
// file system cannot rename without replacing. This program's own renameat2() and fsync() are found
// before those of the C library.
#include <atomic>
#include <cerrno>
#include <filesystem>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "transfer/sink.h"

namespace {

std::atomic<bool> cannot_rename{false};
std::atomic<int> synced_folders{0};
std::atomic<int> synced_files{0};

}  // namespace

extern "C" int renameat2(int from, const char* old_name, int to, const char* name,
                         unsigned flags) noexcept {
  if (cannot_rename && flags != 0) {
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(syscall(SYS_renameat2, from, old_name, to, name, flags));
}

extern "C" int fsync(int fd) {
  struct stat status{};
  if (fstat(fd, &status) == 0) ++(S_ISDIR(status.st_mode) ? synced_folders : synced_files);
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace verbena::transfer {
namespace {

TEST(Sync, NamesAndDataAreOnTheDisk) {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / ("verbena-sync-" + std::to_string(getpid()));
  fs::create_directories(root);
  for (const bool fallback : {false, true}) {
    SCOPED_TRACE(fallback);
    cannot_rename = fallback;
    synced_files = synced_folders = 0;
    const auto sink = Sink::open(root, {.sync = true});
    ASSERT_TRUE(sink) << sink.error();
    const std::string path = fallback ? "two/b" : "one/a";
    const JobResult result = (*sink)->store_small({.path = path, .crc = crc_of({})});
    EXPECT_EQ(result.verdict, Verdict::kStored) << result.text;
    EXPECT_TRUE(fs::exists(root / path));
    EXPECT_EQ(synced_files, 1);
    EXPECT_EQ(synced_folders, 2);  // the one with the new folder, and the one with the file
    EXPECT_EQ((*sink)->store_small({.path = path, .crc = crc_of({})}).verdict, Verdict::kExists);
  }
  cannot_rename = false;
  fs::remove_all(root);
}

}  // namespace
}  // namespace verbena::transfer
