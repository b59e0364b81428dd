// SPDX-License-Identifier: Apache-2.0
// The folder that files arrive in. A file is written under a name of its own (parts.h) beside its
// place, and gets its own name when it is complete; what there is of a broken transfer stays under
// that name. Paths are walked part by part, and links are not followed: nothing leads
// out of the folder. Called by any number of threads.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "transfer/parts.h"
#include "transfer/receiving.h"

namespace verbena::transfer {

struct SinkOptions {
  bool overwrite = false;
  bool sync = false;                               // a file that is stored is on the disk
  int64_t keep_seconds = int64_t{30} * 24 * 3600;  // what is incomplete, for another attempt
};

// A file that is not complete.
// Once nobody has it, what is incomplete of it stays only if another attempt can find it.
class SinkFile {
 public:
  SinkFile() = default;
  SinkFile(const SinkFile&) = delete;
  SinkFile& operator=(const SinkFile&) = delete;
  ~SinkFile();
  [[nodiscard]] uint64_t size() const { return size_; }

 private:
  friend class Sink;
  void take(NewPart part);
  void remove_name();
  [[nodiscard]] bool is_stored() const;
  std::shared_ptr<UniqueFd> folder_;
  UniqueFd fd_;
  std::string name_;
  std::string temporary_;
  uint64_t size_ = 0;
  Attributes attributes_{};
  bool fresh_ = true;   // nothing but holes was there before
  bool stays_ = false;  // under its temporary name, for another attempt
  bool anew_ = false;   // another attempt had that name when this one began
  // The temporary name is there. Whoever takes it away does so once, as it may be another's then.
  std::atomic<bool> named_{false};
};

class Sink {
 public:
  // The folder must be there.
  [[nodiscard]] static Result<std::unique_ptr<Sink>, std::string> open(const std::string& path,
                                                                       const SinkOptions& options);

  // All of these: a verdict, and why if it is not kStored.
  // If `chunk_bytes` is not 0, the CRCs of chunks that are there already are in the result.
  [[nodiscard]] JobResult open_file(const OpenFile& open, uint32_t chunk_bytes,
                                    std::shared_ptr<SinkFile>& file);
  // For plain mode: of unknown size, and nothing is kept of it unless it is closed.
  [[nodiscard]] JobResult open_plain(const std::string& path, std::shared_ptr<SinkFile>& file);
  [[nodiscard]] JobResult write(SinkFile& file, uint64_t offset, std::span<const uint8_t> data,
                                uint32_t crc);
  [[nodiscard]] JobResult append(SinkFile& file, std::span<const uint8_t> data);
  [[nodiscard]] JobResult punch(SinkFile& file, uint64_t offset, uint64_t length);
  [[nodiscard]] JobResult close(SinkFile& file);
  void remove(SinkFile& file);
  [[nodiscard]] JobResult store_small(const StoreSmall& small);
  // If it was there before this Sink was, its mode and time are set only with `overwrite`.
  [[nodiscard]] JobResult make_folder(const MakeFolder& folder);
  // Incomplete files that nobody has, and that no attempt will find, or only one that is long due.
  size_t remove_stale(const std::atomic<bool>& stop) const;

 private:
  Sink(UniqueFd root, const SinkOptions& options) : root_(std::move(root)), options_(options) {}

  struct Place {
    std::shared_ptr<UniqueFd> folder;
    std::string name;
  };
  [[nodiscard]] Result<Place, JobResult> find_place(const std::string& path);
  [[nodiscard]] Result<std::shared_ptr<UniqueFd>, JobResult> walk(const std::string& folders);
  [[nodiscard]] std::shared_ptr<UniqueFd> recent(const std::string& folders);
  void remember_made(std::string folder);
  [[nodiscard]] bool forget_made(const std::string& folder);
  [[nodiscard]] JobResult check_free(const Place& place) const;
  [[nodiscard]] JobResult put_in_place(const UniqueFd& folder, const std::string& temporary,
                                       const std::string& name) const;
  [[nodiscard]] JobResult dress(int fd, const Attributes& attributes, mode_t has) const;

  const UniqueFd root_;
  const SinkOptions options_;
  Mutex mutex_;
  // Folders that were used last, by their paths.
  std::list<std::pair<std::string, std::shared_ptr<UniqueFd>>> recent_ VERBENA_GUARDED_BY(mutex_);
  // Folders that were made here and whose mode and time were not set yet.
  std::set<std::string> made_ VERBENA_GUARDED_BY(mutex_);
  size_t made_bytes_ VERBENA_GUARDED_BY(mutex_) = 0;
};

}  // namespace verbena::transfer
