// SPDX-License-Identifier: Apache-2.0
// A new version of an object in a directory: a temporary file that takes the object's place when it
// is complete. directory_update.cc fills it, directory_commit.cc completes it and puts it in place.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/directory_impl.h"
#include "backend/part_ranges.h"
#include "backend/sums_draft.h"
#include "base/mutex.h"

namespace verbena::backend {

// A file in .verbena/tmp that is removed unless it is renamed.
struct TemporaryFile {
  std::string path;
  UniqueFd fd;
  bool named = false;
};

class DirectoryUpdate final : public Update {
 public:
  DirectoryUpdate(DirectoryImpl& tier, Key key, const NewState& wanted)
      : tier_(tier), key_(std::move(key)), wanted_(wanted) {}
  ~DirectoryUpdate() override;
  [[nodiscard]] Result<void> begin();
  [[nodiscard]] Result<void> put(uint64_t first, std::span<const PartToPut> parts) override;
  [[nodiscard]] Result<void> hole(uint64_t first, uint64_t count) override;
  [[nodiscard]] Result<void> commit() override;

 private:
  [[nodiscard]] uint64_t size() const { return wanted_.state.size; }
  // How much of what it begins from there can be in the new version.
  [[nodiscard]] uint64_t common_bytes() const {
    return from_ != nullptr ? std::min(from_->state.size, size()) : 0;
  }
  [[nodiscard]] Error conflict(std::string_view path) const;
  // The file of this version; none: there is no object.
  [[nodiscard]] Result<std::optional<FoundFile>> find_version(const Key& key,
                                                              std::optional<uint64_t> version);
  [[nodiscard]] Result<void> make(TemporaryFile& file, mode_t mode);
  [[nodiscard]] Result<void> claim(uint64_t first, uint64_t count);
  [[nodiscard]] Result<void> write_parts(uint64_t first, std::span<const PartToPut> parts);
  [[nodiscard]] Result<void> zero(const TemporaryFile& file, uint64_t begin, uint64_t end);
  // Holes stay holes. The source may end before.
  [[nodiscard]] Result<void> copy(int from, const TemporaryFile& to, uint64_t begin, uint64_t end);
  [[nodiscard]] Result<void> copy_data(int from, const TemporaryFile& to, uint64_t begin,
                                       uint64_t end);
  // Remembers an error: commit() is then refused.
  [[nodiscard]] Result<void> noted(Result<void> result);

  // --- directory_commit.cc, in this order
  [[nodiscard]] Result<void> keep_parts();
  [[nodiscard]] Result<void> check_same(const FoundFile& found, const struct stat& now) const;
  [[nodiscard]] Result<void> cut_last_part();
  [[nodiscard]] Result<void> sum_kept_parts();
  [[nodiscard]] Result<void> sum_parts(PartRange parts);
  [[nodiscard]] Result<void> set_attributes();
  [[nodiscard]] Result<void> set_time();
  [[nodiscard]] Result<void> write_sums();
  [[nodiscard]] Result<void> write_pages() VERBENA_REQUIRES(mutex_);
  [[nodiscard]] Result<void> place_sums();
  [[nodiscard]] Result<void> place_file();
  [[nodiscard]] Result<void> replace_base(std::vector<UniqueFd>& to_sync)
      VERBENA_REQUIRES(tier_.names_);
  [[nodiscard]] Result<void> place_new(std::vector<UniqueFd>& to_sync)
      VERBENA_REQUIRES(tier_.names_);
  // 0, or -errno: -EEXIST if the name is taken.
  [[nodiscard]] int rename_to(const std::string& path, std::vector<UniqueFd>& to_sync)
      VERBENA_REQUIRES(tier_.names_);

  DirectoryImpl& tier_;
  const Key key_;
  const NewState wanted_;
  std::optional<FoundFile> base_;    // which it replaces
  std::optional<FoundFile> source_;  // another object that it begins from
  const FoundFile* from_ = nullptr;  // what it begins from: one of these two, or nothing
  TemporaryFile file_;
  TemporaryFile sums_;
  struct stat made_{};       // of the temporary file, when its time is set
  std::string sums_placed_;  // where its sums are, from then until it is in place itself
  bool cloned_ = false;      // all of what it begins from is in the file already
  bool committed_ = false;

  Mutex mutex_;
  PartRanges written_ VERBENA_GUARDED_BY(mutex_);  // put, or holes
  SumsDraft draft_ VERBENA_GUARDED_BY(mutex_);
  std::optional<Error> error_ VERBENA_GUARDED_BY(mutex_);  // the first one
};

}  // namespace verbena::backend
