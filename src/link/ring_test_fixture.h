// SPDX-License-Identifier: Apache-2.0
// Both ends of a ring, each with a mapping of its own, and the file itself for who lies.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include <sys/mman.h>
#include <sys/stat.h>

#include "base/check.h"
#include "link/ring.h"

namespace verbena::link::testing {

// What the smallest ring holds.
inline constexpr uint32_t kWhole = Ring::kLeastBytes - Ring::kLine;

// The file behind a ring, as a process sees it that was handed it.
class RingFile {
 public:
  explicit RingFile(int fd, uint32_t data_bytes) {
    struct stat status{};
    VERBENA_CHECK(::fstat(fd, &status) == 0);
    bytes_ = static_cast<size_t>(status.st_size);
    data_at_ = bytes_ - data_bytes;
    void* const at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    VERBENA_CHECK(at != MAP_FAILED);
    start_ = static_cast<uint8_t*>(at);
  }
  RingFile(const RingFile&) = delete;
  RingFile& operator=(const RingFile&) = delete;
  ~RingFile() { ::munmap(start_, bytes_); }

  [[nodiscard]] std::span<uint8_t> header() const { return {start_, data_at_}; }
  [[nodiscard]] std::span<uint8_t> data() const { return {start_ + data_at_, bytes_ - data_at_}; }
  [[nodiscard]] std::atomic_ref<uint64_t> tail() const { return word(0); }
  [[nodiscard]] std::atomic_ref<uint64_t> data_word(size_t at) const { return word(data_at_ + at); }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  [[nodiscard]] std::atomic_ref<uint64_t> word(size_t at) const {
    return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(start_ + at));
  }
  uint8_t* start_;
  size_t bytes_;
  size_t data_at_;
};

// How much memory is behind a file.
[[nodiscard]] inline int64_t resident_bytes(int fd) {
  struct stat status{};
  VERBENA_CHECK(::fstat(fd, &status) == 0);
  return int64_t{status.st_blocks} * 512;
}

struct RingPair {
  explicit RingPair(uint32_t bytes = Ring::kLeastBytes) : RingPair(Ring::make(bytes)) {}

  UniqueFd fd;
  RingWriter writer;
  RingReader reader;
  RingFile file;

 private:
  explicit RingPair(std::optional<Ring::Made> made)
      : fd(std::move(made.value().fd)),
        writer(std::move(made->ring)),
        reader(Ring::adopt(fd.get()).value()),
        file(fd.get(), reader.bytes()) {}
};

}  // namespace verbena::link::testing
