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
  // "-" is the standard output. `size` bytes will come: a disk that has no room for them is found
  // full now.
  [[nodiscard]] static Result<OutputFile, std::string> open(const std::string& path, uint64_t size);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();  // without finish(): nothing was there

  [[nodiscard]] Result<void, std::string> write(std::span<const uint8_t> bytes);
  // How many went there, of a write that failed, too.
  [[nodiscard]] uint64_t written() const { return written_; }
  // All of it is on the disk, and in its place.
  [[nodiscard]] Result<void, std::string> finish();
  // What was written is seen already, and cannot be taken back.
  [[nodiscard]] bool seen_at_once() const { return direct_; }

 private:
  OutputFile() = default;
  [[nodiscard]] Result<void, std::string> begin(mode_t mode);
  [[nodiscard]] std::string because(const char* what) const;
  // A name beside the file's own that nobody has.
  [[nodiscard]] std::string name_beside() const;

  std::string path_;       // links followed
  std::string shown_;      // as the user calls it
  std::string temporary_;  // empty: it has no name yet, or needs none any more
  UniqueFd fd_;
  uint64_t written_ = 0;
  bool direct_ = false;
};

}  // namespace verbena::store_cli
