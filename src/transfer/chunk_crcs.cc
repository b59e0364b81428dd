// SPDX-License-Identifier: Apache-2.0
#include "transfer/chunk_crcs.h"

#include <algorithm>

#include "base/block_sums.h"

namespace verbena::transfer {

uint32_t crc_of(std::span<const uint8_t> bytes) {
  return crc32_finish(crc32_msb_update(kCrc32Start, bytes));
}

// Twice as many with each bit.
uint32_t crc_of_zeros(uint64_t count) {
  constexpr uint8_t kZero = 0;
  uint32_t all = crc_of({});
  uint32_t some = crc_of({&kZero, 1});
  for (uint64_t bytes = 1; count != 0; count >>= 1, bytes <<= 1) {
    if (count & 1) all = crc32_msb_combine(all, some, bytes);
    if (count > 1) some = crc32_msb_combine(some, some, bytes);
  }
  return all;
}

ChunkCrcs::ChunkCrcs(uint64_t file_bytes, uint32_t chunk_bytes)
    : file_bytes_(file_bytes), chunk_bytes_(chunk_bytes) {
  const uint64_t count = file_bytes / chunk_bytes + (file_bytes % chunk_bytes != 0 ? 1 : 0);
  crcs_.resize(count);
  known_.resize(count);
}

uint32_t ChunkCrcs::length_of(uint64_t chunk) const {
  return static_cast<uint32_t>(std::min<uint64_t>(chunk_bytes_, file_bytes_ - offset_of(chunk)));
}

void ChunkCrcs::set(uint64_t chunk, uint32_t crc) {
  crcs_[chunk] = crc;
  if (known_[chunk]) return;
  known_[chunk] = true;
  ++known_count_;
}

void ChunkCrcs::set_holes(uint64_t first, uint64_t count) {
  if (count == 0) return;
  const uint64_t last = first + count - 1;
  if (first < last) {
    const uint32_t zeros = crc_of_zeros(chunk_bytes_);
    for (uint64_t chunk = first; chunk < last; ++chunk) set(chunk, zeros);
  }
  set(last, crc_of_zeros(length_of(last)));
}

uint32_t ChunkCrcs::of_file() const {
  uint32_t all = crc_of({});
  for (uint64_t chunk = 0; chunk < count(); ++chunk) {
    all = crc32_msb_combine(all, crcs_[chunk], length_of(chunk));
  }
  return all;
}

}  // namespace verbena::transfer
