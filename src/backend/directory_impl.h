// SPDX-License-Identifier: Apache-2.0
// The inside of DirectoryTier: what its parts have in common. directory_find.cc finds a file and
// its sums, directory_tier.cc answers, directory_update.cc writes, directory_walk.cc goes through
// all of them.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "backend/directory_tier.h"
#include "backend/object_path.h"
#include "backend/sums.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "store/folder_lock.h"

namespace verbena::backend {

// A file and the state of the object in it, as they were when it was opened.
struct FoundFile {
  Key key;
  std::string path;  // in the directory
  UniqueFd file;
  struct stat status{};
  State state;
  // Of a file that is not adopted.
  bool adopted = true;
  std::string sums_path;
  UniqueFd sums;
  SumsPage first_page{};
};

[[nodiscard]] int64_t modified_ns_of(const struct stat& status);
// Nobody has changed it meanwhile, nor put another one in its place.
[[nodiscard]] bool same_content(const struct stat& a, const struct stat& b);

class DirectoryImpl final : public DirectoryTier {
 public:
  DirectoryImpl(std::string path, UniqueFd root, store::FolderLock lock, Files& files)
      : files_(files), path_(std::move(path)), root_(std::move(root)), lock_(std::move(lock)) {}
  ~DirectoryImpl() override;

  [[nodiscard]] std::string describe() const override { return "directory " + path_; }
  [[nodiscard]] const DirectoryCounters& counters() const override { return counters_; }
  [[nodiscard]] Result<State> state(const Key& key) override;
  [[nodiscard]] Result<void> list(const Each& each) override;
  [[nodiscard]] Result<void> load(const Key& key, uint64_t version, uint64_t first,
                                  std::span<PartToLoad> parts) override;
  [[nodiscard]] Result<std::unique_ptr<Update>> update(const Key& key,
                                                       const NewState& wanted) override;
  [[nodiscard]] Result<void> remove(const Key& key, uint64_t version) override;

  // When it is opened: the folders in .verbena/, and what a crash has left there.
  [[nodiscard]] Result<void> prepare();

 private:
  friend class DirectoryUpdate;

  // --- directory_find.cc
  // An error with the path in it; `error` is negative, as Files returns it.
  [[nodiscard]] Error failed(std::string_view what, std::string_view path, int error) const;
  [[nodiscard]] Error damaged(const Key& key, uint64_t offset, std::string field,
                              std::string what) const;
  // A folder, component by component, without following links: its descriptor or -errno.
  [[nodiscard]] int open_folder(std::string_view path);
  [[nodiscard]] int open_file(std::string_view path, int flags);
  [[nodiscard]] int status_of(std::string_view path, struct stat& status);
  [[nodiscard]] Result<FoundFile> find(const Key& key);
  // kNotFound: there is no ordinary file of this path.
  [[nodiscard]] Result<FoundFile> open_object(const Key& key, const std::string& path);
  // Fills in state and sums. False: the file was replaced meanwhile.
  [[nodiscard]] Result<bool> find_sums(FoundFile& found);
  void count_adopted(const FoundFile& found);
  [[nodiscard]] Result<void> read_page(int fd, const std::string& path, uint64_t index,
                                       SumsPage& page);
  // All of it, unless the file ends before: how many bytes.
  [[nodiscard]] Result<size_t> read_all(int fd, std::string_view path, std::vector<iovec>& to,
                                        uint64_t offset);
  [[nodiscard]] Result<void> write_all(int fd, std::string_view path, std::vector<iovec>& from,
                                       uint64_t offset);

  // --- directory_walk.cc
  struct Names {
    std::vector<std::string> files;
    std::vector<std::string> folders;
    uint64_t others = 0;
  };
  // Of a folder that is gone: none.
  [[nodiscard]] Result<Names> names_in(const std::string& path);
  // All files below a folder, `path` relative to the directory; false to stop.
  using EachFile = std::function<Result<bool>(const std::string& path)>;
  [[nodiscard]] Result<bool> walk(const std::string& folder, const EachFile& each);
  [[nodiscard]] Result<bool> list_one(const Key& key, const std::string& path, const Each& each);
  [[nodiscard]] Result<void> check_format();
  [[nodiscard]] Result<void> remove_left_over();
  [[nodiscard]] Result<void> remove_sums_of_nobody(const std::string& path);

  // 0 or -errno; adds the folders in which one was made.
  [[nodiscard]] int make_folders(std::string_view path, std::vector<UniqueFd>& to_sync);
  [[nodiscard]] Result<void> sync(int fd, std::string_view path);
  // Whether who loads these parts reads in order: from the beginning, or where another load ended.
  [[nodiscard]] bool goes_on(uint64_t version, uint64_t first, uint64_t count);
  void remove_hidden(const FoundFile& found);
  // Where it fails, the next opening looks for it.
  void remove_quietly(std::string_view path);
  void remove_empty_folders(std::string path) VERBENA_REQUIRES(names_);

  Files& files_;
  const std::string path_;
  const UniqueFd root_;
  store::FolderLock lock_;
  DirectoryCounters counters_;
  std::atomic<uint64_t> next_temporary_ = 1;  // relaxed: only different numbers matter
  // Something is left that the next opening should look for. Relaxed: read when nobody else is
  // left.
  std::atomic<bool> left_over_ = false;

  // Whether a name is free, and giving it away, is one step with it; so is making a folder for a
  // file, or removing one that is empty.
  Mutex names_;
  Mutex adopted_mutex_;
  std::unordered_set<uint64_t> adopted_ VERBENA_GUARDED_BY(adopted_mutex_);  // versions, counted
  Mutex ends_mutex_;
  // Where the last large loads have ended.
  struct End {
    uint64_t version = 0;
    uint64_t part = 0;
    bool operator==(const End&) const = default;
  };
  std::array<End, 64> ends_ VERBENA_GUARDED_BY(ends_mutex_){};
  size_t oldest_end_ VERBENA_GUARDED_BY(ends_mutex_) = 0;
};

}  // namespace verbena::backend
