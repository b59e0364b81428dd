// SPDX-License-Identifier: Apache-2.0
// A file that is there whole or not at all: written beside its place under another name, or none,
// and put there when it is done. The standard output, pipes and devices are written as they are.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace verbena::store_cli {

class OutputFile {
 public:
  // How much will come: a disk that has no room for it is found full now.
  struct Extent {
    uint64_t size = 0;
    uint64_t data = 0;  // without holes
  };
  // "-" is the standard output.
  [[nodiscard]] static Result<OutputFile, std::string> open(const std::string& path, Extent extent);
  [[nodiscard]] static Result<OutputFile, std::string> open(const std::string& path,
                                                            uint64_t size) {
    return open(path, Extent{size, size});
  }
  // The file of this name, which has no '/', in a directory: a link there is replaced, not
  // followed. `shown` is how the user calls it.
  [[nodiscard]] static Result<OutputFile, std::string> open_in(UniqueFd folder, std::string name,
                                                               std::string shown, Extent extent);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();  // without finish(): nothing was there

  [[nodiscard]] Result<void, std::string> write(std::span<const uint8_t> bytes);
  // So many zeros: a hole, where the file can have one.
  [[nodiscard]] Result<void, std::string> skip(uint64_t zeros);
  // How many went there, of a write that failed, too.
  [[nodiscard]] uint64_t written() const { return written_; }
  // All of it is on the disk, and in its place.
  [[nodiscard]] Result<void, std::string> finish();
  // What was written is seen already, and cannot be taken back.
  [[nodiscard]] bool seen_at_once() const { return direct_; }

 private:
  OutputFile() = default;
  [[nodiscard]] Result<void, std::string> begin(mode_t mode, Extent extent);
  [[nodiscard]] std::string because(const char* what) const;
  // A name beside the file's own that nobody has.
  [[nodiscard]] std::string name_beside() const;

  UniqueFd folder_;        // where it will be
  std::string name_;       // in there, links followed
  std::string shown_;      // as the user calls it
  std::string temporary_;  // in there; empty: it has no name yet, or needs none any more
  UniqueFd fd_;
  uint64_t written_ = 0;
  bool direct_ = false;
};

}  // namespace verbena::store_cli
