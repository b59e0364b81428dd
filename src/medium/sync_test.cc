// SPDX-License-Identifier: Apache-2.0
// Which files and directories are synced, and what was in them by then. The calls themselves are
// replaced for this whole test program, and go on to the kernel.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mutex.h"
#include "medium/backend.h"
#include "medium/block_files.h"
#include "medium/nvdimm_backend.h"
#include "medium/staged_backend.h"
#include "medium/testing.h"

namespace verbena::medium {
namespace {

struct SyncCall {
  std::filesystem::path path;
  std::vector<std::string> names;  // of a directory
};
Mutex g_sync_mutex;
// None: they are not noted.
std::optional<std::vector<SyncCall>> g_syncs VERBENA_GUARDED_BY(g_sync_mutex);

void note_sync(int fd) {
  const MutexLock lock(g_sync_mutex);
  if (!g_syncs) return;
  SyncCall call;
  std::error_code ignored;
  call.path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), ignored);
  if (std::filesystem::is_directory(call.path, ignored)) {
    for (const auto& entry : std::filesystem::directory_iterator(call.path, ignored)) {
      call.names.push_back(entry.path().filename());
    }
  }
  g_syncs->push_back(std::move(call));
}

}  // namespace
}  // namespace verbena::medium

extern "C" int fsync(int fd) {
  verbena::medium::note_sync(fd);
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
extern "C" int fdatasync(int fd) {
  verbena::medium::note_sync(fd);
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}

namespace verbena::medium {
namespace {

constexpr size_t kSyncBlock = size_t{64} << 10;

class SyncTest : public testing::Test {
 protected:
  void SetUp() override {
    const MutexLock lock(g_sync_mutex);
    g_syncs.emplace();
  }
  void TearDown() override {
    const MutexLock lock(g_sync_mutex);
    g_syncs.reset();
  }
  static void forget() {
    const MutexLock lock(g_sync_mutex);
    g_syncs->clear();
  }
  // Whether it was synced, if it is a directory with this name in it.
  static bool synced(const std::filesystem::path& path, const std::string& name = {}) {
    const MutexLock lock(g_sync_mutex);
    return std::ranges::any_of(*g_syncs, [&](const SyncCall& call) {
      return call.path == path &&
             (name.empty() || std::ranges::find(call.names, name) != call.names.end());
    });
  }
  [[nodiscard]] FileOptions files() const {
    return {.folder = folder_, .block_bytes = kSyncBlock, .capacity = 30};
  }
  // Blocks in the first and in the second file, and a fence over both.
  void fence_two_files(Backend& backend) {
    const Block first = *backend.claim(0);
    const Block second = *backend.claim(BlockFiles::kFirstBlocks);
    for (const Block& block : {first, second}) {
      fill_pattern(block.memory, kSyncBlock, 1);
      // Two ranges, for a single one is synced by msync where files are mapped.
      backend.flush(block.memory, 4096);
      backend.flush(block.memory + 8192, 4096);
    }
    forget();
    ASSERT_TRUE(backend.fence());
    EXPECT_TRUE(synced(folder_ / "blocks.0of1.000"));
    EXPECT_TRUE(synced(folder_ / "blocks.0of1.001"));
  }

  TemporaryFolder temporary_;
  std::filesystem::path folder_ = std::filesystem::canonical(temporary_.path()) / "a" / "b" / "c";
};

TEST_F(SyncTest, AStagedFenceSyncsEveryFile) {
  std::filesystem::create_directories(folder_);
  for (const bool uring : {true, false}) {
    const auto backend = open_staged_backend({.files = files(), .io_uring = uring});
    ASSERT_TRUE(backend) << backend.error().what;
    fence_two_files(**backend);
  }
}

TEST_F(SyncTest, AMappedFenceSyncsEveryFile) {
  std::filesystem::create_directories(folder_);
  const auto backend = open_nvdimm_backend({.files = files()});
  ASSERT_TRUE(backend) << backend.error().what;
  fence_two_files(**backend);
}

TEST_F(SyncTest, AFileIsDurableUnderItsName) {
  std::filesystem::create_directories(folder_);
  const auto blocks = BlockFiles::open(files());
  ASSERT_TRUE(blocks);
  for (const std::string name : {"blocks.0of1.000", "blocks.0of1.001", "blocks.0of1.002"}) {
    forget();
    ASSERT_TRUE((*blocks)->grow());
    EXPECT_TRUE(synced(folder_ / (name + ".new")));  // what is in it
    EXPECT_TRUE(synced(folder_, name)) << name;      // after it was renamed
  }
}

TEST_F(SyncTest, ANewStoresParentsAreDurable) {
  std::filesystem::create_directories(folder_);
  const auto blocks = BlockFiles::open(files());
  ASSERT_TRUE(blocks);
  ASSERT_TRUE((*blocks)->grow());
  EXPECT_TRUE(synced(folder_.parent_path(), "c"));
  EXPECT_TRUE(synced(folder_.parent_path().parent_path(), "b"));
  EXPECT_TRUE(synced(folder_.parent_path().parent_path().parent_path(), "a"));
  forget();
  ASSERT_TRUE((*blocks)->grow());
  EXPECT_FALSE(synced(folder_.parent_path()));
}

// Its maker may have been killed after the file was renamed.
TEST_F(SyncTest, WhoOpensForWritingMakesTheNamesDurable) {
  std::filesystem::create_directories(folder_);
  {
    const auto blocks = BlockFiles::open(files());
    ASSERT_TRUE(blocks && (*blocks)->grow());
  }
  FileOptions how = files();
  for (const bool read_only : {true, false}) {
    how.read_only = read_only;
    forget();
    ASSERT_TRUE(BlockFiles::open(how));
    EXPECT_EQ(synced(folder_, "blocks.0of1.000"), !read_only);
  }
}

}  // namespace
}  // namespace verbena::medium
