// SPDX-License-Identifier: Apache-2.0
// An update that ends at any of its system calls, because the process is killed or the call fails,
// leaves the old or the new version, each with its sums. What a power failure leaves is decided by
// what is durable when: the order of syncs is checked.
#include <functional>
#include <set>

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/directory_testing.h"
#include "backend/faulty_files.h"

namespace verbena::backend {
namespace {

const Key kObject{"folder/object", {5, 6}};
const State kOld{.version = 1, .size = 5 * kPartBytes + 10, .modified_ns = 1000};
// The same size and time: only the version tells.
const State kNew{.version = 2, .size = kOld.size, .modified_ns = 1000};

Bytes old_content() { return Bytes(kOld.size, 'o'); }
Bytes new_content() {
  Bytes bytes = old_content();
  std::fill(bytes.begin() + kPartBytes, bytes.begin() + 3 * kPartBytes, uint8_t{'n'});
  std::fill(bytes.begin() + 3 * kPartBytes, bytes.begin() + 4 * kPartBytes, uint8_t{0});
  return bytes;
}

enum class Change : uint8_t { kMake, kReplace, kReplaceClone, kRemove };
constexpr Change kChanges[] = {Change::kMake, Change::kReplace, Change::kReplaceClone,
                               Change::kRemove};

Result<void> change_object(Tier& tier, Change change) {
  if (change == Change::kRemove) return tier.remove(kObject, kOld.version);
  NewState wanted{.base = kOld.version, .state = kNew};
  if (change == Change::kMake) wanted.base.reset();
  auto update = tier.update(kObject, wanted);
  if (!update) return fail(update.error());
  const Bytes bytes = new_content();
  const bool whole = change == Change::kMake;
  auto put = whole ? put_parts(**update, bytes, 0, 3) : put_parts(**update, bytes, 1, 2);
  if (put) put = (*update)->hole(3, 1);
  if (put && whole) put = put_parts(**update, bytes, 4, 2);
  if (!put) return put;
  return (*update)->commit();
}

class DirectoryCrashTest : public ::testing::Test {
 protected:
  // The directory as it is before the change.
  void begin(Change change) {
    std::filesystem::remove_all(path());
    std::filesystem::create_directory(path());
    FaultyFiles files;
    files.syncs = false;  // nothing here ends the machine
    auto tier = open_tier(path(), files);
    if (change != Change::kMake) {
      ASSERT_TRUE(write_object(*tier, kObject, {std::nullopt, kOld}, old_content()));
    }
    ASSERT_TRUE(write_object(*tier, {"other", {}}, {std::nullopt, kOld}, old_content()));
  }
  // What there is: true if the change has happened.
  static bool look(Tier& tier, Change change) {
    const auto other = read_object(tier, {"other", {}});
    EXPECT_TRUE(other && *other == old_content());
    const auto state = tier.state(kObject);
    if (!state) {
      EXPECT_EQ(state.error().code, Code::kNotFound) << state.error().what;
      EXPECT_TRUE(change == Change::kMake || change == Change::kRemove);
      return change == Change::kRemove;
    }
    const auto bytes = read_object(tier, kObject);
    EXPECT_TRUE(bytes.has_value()) << bytes.error().what;
    if (*state == kNew) {
      EXPECT_TRUE(bytes && *bytes == new_content());
      EXPECT_NE(change, Change::kRemove);
      return true;
    }
    EXPECT_EQ(*state, kOld);
    EXPECT_TRUE(bytes && *bytes == old_content());
    EXPECT_NE(change, Change::kMake);
    return false;
  }
  void expect_nothing_left(Tier& tier) {
    EXPECT_TRUE(files_below(path() + "/.verbena/tmp").empty());
    const size_t objects = tier.state(kObject) ? 2 : 1;
    EXPECT_EQ(files_below(path() + "/.verbena/sums").size(), objects);
    EXPECT_EQ(static_cast<DirectoryTier&>(tier).counters().adopted, 0u);
  }
  [[nodiscard]] std::string path() const { return folder_.at("objects"); }

  TemporaryFolder folder_;
};

TEST_F(DirectoryCrashTest, KilledAtAnyCall) {
  constexpr int kDone = 3;
  constexpr int kKilled = 4;
  for (const Change change : kChanges) {
    int happened = 0;
    int calls = 1;
    for (bool done = false; !done; ++calls) {
      ASSERT_LT(calls, 100);
      begin(change);
      const int child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        FaultyFiles files;
        files.syncs = false;
        files.clones = change == Change::kReplaceClone;
        auto tier = DirectoryTier::open(path(), files);
        int left = calls;
        files.before = [&](const FaultyFiles::Call& call) {
          if (call.call != FileCall::kRead && --left == 0) _exit(kKilled);
          return 0;
        };
        const bool good = tier && change_object(**tier, change);
        _exit(good ? kDone : 1);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status));
      done = WEXITSTATUS(status) == kDone;
      ASSERT_TRUE(done || WEXITSTATUS(status) == kKilled) << WEXITSTATUS(status);
      auto tier = open_tier(path());
      const bool is_new = look(*tier, change);
      expect_nothing_left(*tier);
      EXPECT_TRUE(is_new || !done);
      happened += is_new && !done ? 1 : 0;
      // It can be done, or is done.
      EXPECT_TRUE(is_new || change_object(*tier, change));
    }
    EXPECT_GT(calls, change == Change::kRemove ? 4 : 12);
    EXPECT_GT(happened, 0);  // before the last call, too
  }
}

TEST_F(DirectoryCrashTest, AnyCallFails) {
  for (const Change change : kChanges) {
    for (const int error : {EIO, ENOSPC}) {
      bool reached = true;
      for (int calls = 1; reached; ++calls) {
        ASSERT_LT(calls, 200);
        begin(change);
        FaultyFiles files;
        files.syncs = false;
        files.clones = change == Change::kReplaceClone;
        {
          auto tier = open_tier(path(), files);
          int left = calls;
          FileCall failed{};
          files.before = [&](const FaultyFiles::Call& call) {
            if (--left != 0) return 0;
            failed = call.call;
            return -error;
          };
          const auto done = change_object(*tier, change);
          reached = left <= 0;
          files.before = nullptr;
          const bool is_new = look(*tier, change);
          EXPECT_TRUE(is_new || !done);
          if (!done) {
            EXPECT_EQ(done.error().code, error == EIO ? Code::kIo : Code::kFull)
                << done.error().what;
          }
          // A sync that has failed is not an update that has happened, but for the last one.
          if (failed == FileCall::kUnlink || failed == FileCall::kRemoveFolder) continue;
          EXPECT_TRUE(files_below(path() + "/.verbena/tmp").empty());
          if (!is_new) {
            const auto again = change_object(*tier, change);
            EXPECT_TRUE(again.has_value()) << again.error().what;
          }
        }
        auto tier = open_tier(path());
        EXPECT_TRUE(look(*tier, change));
        expect_nothing_left(*tier);
      }
    }
  }
}

// Follows what is not durable, and says what is done too early.
class SyncOrder {
 public:
  explicit SyncOrder(const std::string& path)
      : temporary_(file_status(path + "/.verbena/tmp").st_ino),
        object_folder_(file_status(path + "/folder").st_ino) {}

  int see(const FaultyFiles::Call& call) {
    struct stat status{};
    EXPECT_EQ(fstat(call.fd, &status), 0);
    const ino_t inode = status.st_ino;
    switch (call.call) {
      case FileCall::kRead:   break;
      case FileCall::kSync:   dirty_.erase(inode); break;
      case FileCall::kRename: {
        struct stat file{};
        EXPECT_EQ(fstatat(call.from_fd, call.from_name.c_str(), &file, 0), 0);
        EXPECT_FALSE(dirty_.contains(file.st_ino)) << "renamed before it is durable";
        // The file comes after its sums.
        EXPECT_TRUE(inode != object_folder_ || dirty_.empty());
        placed_ += inode == object_folder_ ? 1 : 0;
        dirty_.insert(inode);
        break;
      }
      case FileCall::kUnlink:
        // The sums of a version that a crash could bring back.
        if (inode != temporary_ && inode != object_folder_) {
          EXPECT_FALSE(dirty_.contains(object_folder_)) << "sums removed too early";
          ++unlinked_;
        } else {
          dirty_.insert(inode);
        }
        break;
      default:
        if (inode != temporary_) dirty_.insert(inode);
        break;
    }
    return 0;
  }
  void expect_all(int placed, int unlinked) const {
    EXPECT_TRUE(dirty_.empty());
    EXPECT_EQ(placed_, placed);
    EXPECT_EQ(unlinked_, unlinked);
  }

 private:
  const ino_t temporary_;
  const ino_t object_folder_;
  std::set<ino_t> dirty_;
  int placed_ = 0;
  int unlinked_ = 0;
};

TEST_F(DirectoryCrashTest, EachStepIsDurableBeforeTheNext) {
  for (const Change change : {Change::kReplace, Change::kReplaceClone}) {
    begin(change);
    FaultyFiles files;
    files.clones = change == Change::kReplaceClone;
    auto tier = open_tier(path(), files);
    SyncOrder order(path());
    files.before = [&](const FaultyFiles::Call& call) { return order.see(call); };
    ASSERT_TRUE(change_object(*tier, change));
    order.expect_all(1, 1);
    files.before = nullptr;
  }
  begin(Change::kMake);
  std::filesystem::create_directory(path() + "/folder");
  FaultyFiles files;
  auto tier = open_tier(path(), files);
  SyncOrder order(path());
  files.before = [&](const FaultyFiles::Call& call) { return order.see(call); };
  ASSERT_TRUE(change_object(*tier, Change::kMake));
  order.expect_all(1, 0);
  files.before = nullptr;
}

// A file that grows while it is read, or changes: nothing of it is taken for the version asked for.
TEST_F(DirectoryCrashTest, AFileThatChangesWhileItIsRead) {
  begin(Change::kReplace);
  FaultyFiles files;
  auto tier = open_tier(path(), files);
  write_file(path() + "/foreign", Bytes(3 * kPartBytes, 'a'));
  const auto state = tier->state({"foreign", {}});
  ASSERT_TRUE(state.has_value());
  Bytes memory(3 * kPartBytes);
  std::vector<PartToLoad> parts{{memory.data(), 0}, {memory.data() + kPartBytes, 0}};
  int reads = 0;
  files.most_bytes = [] { return kPartBytes; };
  files.before = [&](const FaultyFiles::Call& call) {
    if (call.call == FileCall::kRead && ++reads == 2) {
      write_file(path() + "/foreign", Bytes(3 * kPartBytes, 'b'));
    }
    return 0;
  };
  const auto loaded = tier->load({"foreign", {}}, state->version, 0, parts);
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, Code::kConflict);
  EXPECT_EQ(reads, 2);
}

// Root of a name space of its own, who may mount there.
bool become_root_of_name_space() {
  const auto put = [](const char* path, const std::string& text) {
    std::ofstream file(path);
    file << text << std::flush;
    return file.good();
  };
  const std::string user = "0 " + std::to_string(geteuid()) + " 1";
  const std::string group = "0 " + std::to_string(getegid()) + " 1";
  return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && put("/proc/self/setgroups", "deny") &&
         put("/proc/self/uid_map", user) && put("/proc/self/gid_map", group);
}

// On a file system that is full indeed. Needs a name space for mounts, which some places forbid.
TEST_F(DirectoryCrashTest, AFullFileSystem) {
  constexpr int kSkipped = 5;
  const int child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string small = folder_.at("small");
    std::filesystem::create_directory(small);
    if (!become_root_of_name_space() ||
        mount("tmpfs", small.c_str(), "tmpfs", 0, "size=256k") != 0) {
      _exit(kSkipped);
    }
    auto tier = DirectoryTier::open(small);
    const Bytes bytes(100'000, 'x');
    const State state{.version = 1, .size = bytes.size(), .modified_ns = 1};
    if (!tier || !write_object(**tier, kObject, {std::nullopt, state}, bytes)) _exit(10);
    const Bytes more(400'000, 'y');
    const auto full = write_object(**tier, kObject, {1, {2, more.size(), 2}}, more);
    if (full || full.error().code != Code::kFull) _exit(11);
    if (!files_below(small + "/.verbena/tmp").empty()) _exit(12);
    const auto still = read_object(**tier, kObject);
    if (!still || *still != bytes) _exit(13);
    // There is room again.
    const Bytes fits(90'000, 'z');
    if (!write_object(**tier, kObject, {1, {3, fits.size(), 3}}, fits)) _exit(14);
    const auto now = read_object(**tier, kObject);
    _exit(now && *now == fits ? 0 : 15);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kSkipped) GTEST_SKIP() << "no name space for mounts";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace verbena::backend
