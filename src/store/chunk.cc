// SPDX-License-Identifier: Apache-2.0
#include "store/chunk.h"

#include <cstring>

#include "base/block_sums.h"
#include "base/endian.h"
#include "store/crc_parts.h"

namespace verbena::store {
namespace {

constexpr size_t kId = 4048;
constexpr size_t kOwner = 4056;
constexpr size_t kIndex = 4064;
constexpr size_t kTxn = 4072;
constexpr size_t kStore = 4080;
constexpr size_t kLength = 4088;
constexpr size_t kFlags = 4090;
constexpr size_t kCrc = 4092;
static_assert(kId == kDataBytes && kCrc + 4 == kChunkBytes);

[[nodiscard]] bool all_zero(std::span<const uint8_t> bytes) {
  // Each like the one before, by the C library's quick comparison.
  return bytes.empty() ||
         (bytes[0] == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace

const char* name_of(ChunkVerdict verdict) {
  switch (verdict) {
    case ChunkVerdict::kGood:    return "good";
    case ChunkVerdict::kPlain:   return "plain";
    case ChunkVerdict::kCrc:     return "chunk CRC";
    case ChunkVerdict::kDataCrc: return "data CRC";
    case ChunkVerdict::kLength:  return "length";
  }
  return "unknown";
}

void seal(uint8_t* chunk, const ChunkHead& head, uint32_t data_crc) {
  store_be64(chunk + kId, head.id);
  store_be64(chunk + kOwner, head.birth.owner);
  store_be64(chunk + kIndex, head.birth.index);
  store_be64(chunk + kTxn, head.birth.txn);
  store_be32(chunk + kStore, head.store);
  store_be32(chunk + kDataCrcAt, data_crc);
  store_be16(chunk + kLength, head.length);
  store_be16(chunk + kFlags, head.flags);
  store_be32(chunk + kCrc, expected_chunk_crc(chunk, data_crc));
}

ChunkHead head_of(const uint8_t* chunk) {
  return {.id = load_be64(chunk + kId),
          .birth = {.owner = load_be64(chunk + kOwner),
                    .index = load_be64(chunk + kIndex),
                    .txn = load_be64(chunk + kTxn)},
          .store = load_be32(chunk + kStore),
          .length = load_be16(chunk + kLength),
          .flags = load_be16(chunk + kFlags)};
}

uint32_t data_crc_of(const uint8_t* chunk) { return load_be32(chunk + kDataCrcAt); }
uint32_t chunk_crc_of(const uint8_t* chunk) { return load_be32(chunk + kCrc); }

uint32_t expected_chunk_crc(const uint8_t* chunk, uint32_t data_crc) {
  // A finished CRC is the inverse of the state that the bytes left.
  return ~crc32_msb_update(~data_crc, {chunk + kId, kCrc - kId});
}

ChunkVerdict examine(std::span<const uint8_t, kChunkBytes> chunk) {
  const uint8_t* p = chunk.data();
  const uint32_t data_crc = crc_of(chunk.first<kDataBytes>());
  if (chunk_crc_of(p) != expected_chunk_crc(p, data_crc)) return ChunkVerdict::kCrc;
  if (all_zero(chunk.subspan<kOwner, kCrc - kOwner>())) return ChunkVerdict::kPlain;
  if (data_crc_of(p) != data_crc) return ChunkVerdict::kDataCrc;
  const size_t length = head_of(p).length;
  if (length > kDataBytes || !all_zero(chunk.first<kDataBytes>().subspan(length))) {
    return ChunkVerdict::kLength;
  }
  return ChunkVerdict::kGood;
}

}  // namespace verbena::store
