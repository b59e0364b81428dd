// SPDX-License-Identifier: Apache-2.0
// The CRCs of a file's chunks, and of the file that they make up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace verbena::transfer {

[[nodiscard]] uint32_t crc_of(std::span<const uint8_t> bytes);
[[nodiscard]] uint32_t crc_of_zeros(uint64_t count);

class ChunkCrcs {
 public:
  ChunkCrcs() = default;
  ChunkCrcs(uint64_t file_bytes, uint32_t chunk_bytes);

  [[nodiscard]] uint64_t count() const { return crcs_.size(); }
  [[nodiscard]] uint64_t offset_of(uint64_t chunk) const { return chunk * chunk_bytes_; }
  // The last one may be shorter.
  [[nodiscard]] uint32_t length_of(uint64_t chunk) const;
  void set(uint64_t chunk, uint32_t crc);
  // Each in little time: a file may be one large hole.
  void set_holes(uint64_t first, uint64_t count);
  [[nodiscard]] bool knows(uint64_t chunk) const { return known_[chunk]; }
  [[nodiscard]] uint32_t operator[](uint64_t chunk) const { return crcs_[chunk]; }
  [[nodiscard]] bool complete() const { return known_count_ == crcs_.size(); }
  // How much of the file that is; the last chunk is not looked at.
  [[nodiscard]] uint64_t known_bytes() const {
    return std::min(known_count_ * chunk_bytes_, file_bytes_);
  }
  // Of all of them; only if they are complete.
  [[nodiscard]] uint32_t of_file() const;

 private:
  uint64_t file_bytes_ = 0;
  uint32_t chunk_bytes_ = 1;
  std::vector<uint32_t> crcs_;
  std::vector<bool> known_;
  uint64_t known_count_ = 0;
};

}  // namespace verbena::transfer
