// SPDX-License-Identifier: Apache-2.0
// Many writes from memory to files at once by io_uring, or one after another if io_uring is not
// available. For one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace verbena::medium {

struct FileWrite {
  int fd = -1;
  uint64_t offset = 0;
  const uint8_t* memory = nullptr;
  size_t bytes = 0;
};

class FileWriter {
 public:
  FileWriter() = default;
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  virtual ~FileWriter() = default;

  // 0 when all is written, else the errno of the first that failed, and the rest is written or not.
  // Nothing is on its way any more when it returns.
  [[nodiscard]] virtual int write(std::span<const FileWrite> writes) = 0;
  [[nodiscard]] virtual const char* name() const = 0;  // for people
};

// Null where the system refuses io_uring.
[[nodiscard]] std::unique_ptr<FileWriter> make_uring_writer();
[[nodiscard]] std::unique_ptr<FileWriter> make_plain_writer();

}  // namespace verbena::medium
