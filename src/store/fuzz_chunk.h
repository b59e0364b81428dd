// SPDX-License-Identifier: Apache-2.0
// How fuzzers make a chunk of a short input, past CRCs that no search would guess:
//
//   | what u8 | metadata 48 bytes | data, zeros behind |
//
// An input of 4096 bytes is a chunk as it is.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/endian.h"
#include "base/fuzz_input.h"
#include "store/chunk.h"
#include "store/crc_parts.h"

namespace verbena::store {

inline constexpr uint8_t kFuzzRightDataCrc = 1;
inline constexpr uint8_t kFuzzRightCrc = 2;
inline constexpr uint8_t kFuzzRightHead = 4;  // what it means is the fuzzer's

struct FuzzChunk {
  uint8_t what = 0;
  std::array<uint8_t, kChunkBytes> bytes{};
};

inline void make_crcs_right(FuzzChunk& chunk) {
  uint8_t* p = chunk.bytes.data();
  const auto all = std::span<const uint8_t, kChunkBytes>(chunk.bytes);
  if ((chunk.what & kFuzzRightDataCrc) != 0) store_be32(p + 4084, crc_of(all.first<kDataBytes>()));
  if ((chunk.what & kFuzzRightCrc) != 0) store_be32(p + 4092, crc_of(all.first<4092>()));
}

[[nodiscard]] inline FuzzChunk fuzz_chunk(const uint8_t* data, size_t size) {
  FuzzChunk chunk;
  if (size == kChunkBytes) {
    std::memcpy(chunk.bytes.data(), data, size);
    return chunk;
  }
  FuzzInput input(data, size);
  chunk.what = input.u8();
  std::ranges::copy(input.bytes(kMetadataBytes), chunk.bytes.begin() + kDataBytes);
  std::ranges::copy(input.bytes(kDataBytes), chunk.bytes.begin());
  return chunk;
}

}  // namespace verbena::store
