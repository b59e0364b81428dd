// SPDX-License-Identifier: Apache-2.0
// The files that are sent, read chunk by chunk by any number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "transfer/sending.h"

namespace verbena::transfer {

// What there is to send: a file or folder of the user's, and all that is in it.
struct SourceEntry {
  std::string real;  // where it is
  SourceFile file;   // as the receiver is to have it
};
// In order, folders before what is in them. `skipped` is called for what is neither file nor
// folder, and for what cannot be read.
[[nodiscard]] Result<void, std::string> list_source(
    const std::string& path, const std::function<void(SourceEntry&&)>& found,
    const std::function<void(const std::string& path, const std::string& why)>& skipped);

class Source {
 public:
  void add(FileId id, SourceEntry entry);
  // The last word on it was said.
  void drop(FileId id);

  // Into this buffer.
  [[nodiscard]] Filled fill(const FillSmall& fill, std::span<uint8_t> buffer);
  [[nodiscard]] Filled fill(const FillChunk& fill, std::span<uint8_t> buffer);
  // For plain mode: up to so many bytes; none at the end.
  [[nodiscard]] Result<size_t, std::string> read(FileId id, uint64_t offset, std::span<uint8_t> to);

 private:
  struct File {
    SourceEntry entry;
    Mutex mutex;
    UniqueFd fd VERBENA_GUARDED_BY(mutex);  // open until the file is dropped
  };
  [[nodiscard]] std::shared_ptr<File> find(FileId id);
  // nullptr, or why not.
  [[nodiscard]] Result<int, std::string> open(File& file);

  Mutex mutex_;
  std::map<FileId, std::shared_ptr<File>> files_ VERBENA_GUARDED_BY(mutex_);
};

}  // namespace verbena::transfer
