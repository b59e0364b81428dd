// SPDX-License-Identifier: Apache-2.0
// What put reads: a file, with its holes, or a stream (a pipe, a terminal, a device). A stream may
// stall for as long as its writer likes: it is read to its end, into memory or a temporary file,
// before the store is taken.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace verbena::store_cli {

class InputFile {
 public:
  // "-" is the standard input.
  [[nodiscard]] static Result<InputFile, std::string> open(const std::string& path);

  [[nodiscard]] const std::string& shown() const { return shown_; }  // as the user calls it
  [[nodiscard]] bool is_stream() const { return stream_; }
  [[nodiscard]] uint64_t size() const { return size_; }  // of what is left; 0: not known

  // Reads a stream to its end; afterwards it is none. What is too much for memory goes to $TMPDIR,
  // or the first of `folders` where a file without a name can be made, or /tmp. Ends early if a
  // signal came. `progress` is called with the number of bytes.
  [[nodiscard]] Result<void, std::string> take_in(const std::vector<std::string>& folders,
                                                  const std::function<void(uint64_t)>& progress);

  // As many bytes as there is room for; fewer only at the end, or if a signal came.
  [[nodiscard]] Result<size_t, std::string> fill(std::span<uint8_t> room);

  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  // Whether fewer bytes are on the disk than the file is long: reading by next_data() is worth it.
  [[nodiscard]] bool has_holes() const { return holes_; }
  // The next data at `at` or behind, in whole units of `unit` bytes; fill() goes on there. Behind
  // the last, an empty range at the end of the file.
  [[nodiscard]] Result<Range, std::string> next_data(uint64_t at, uint64_t unit);

  static constexpr size_t kMemory = size_t{8} << 20;  // of a stream

 private:
  InputFile() = default;
  [[nodiscard]] std::string because(int error) const;
  [[nodiscard]] Result<size_t, std::string> fill_from_file(std::span<uint8_t> room);
  [[nodiscard]] Result<void, std::string> spill(const std::vector<std::string>& folders,
                                                const std::function<void(uint64_t)>& progress);

  UniqueFd fd_;
  std::string shown_;
  uint64_t start_ = 0;  // of what is left, in the file
  uint64_t size_ = 0;
  bool stream_ = false;
  bool holes_ = false;
  bool in_memory_ = false;
  std::vector<uint8_t> memory_;
  size_t taken_ = 0;  // of memory_
};

}  // namespace verbena::store_cli
