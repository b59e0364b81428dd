// SPDX-License-Identifier: Apache-2.0
// The chunk: 4096 bytes, 4048 of them data. It records its birth and never changes.
//
//   0                                                                      4048
//   |                    data, zeros after `length`                         |
//   +----------+----------+----------+----------+-------+----------+--------+-------+-------+
//   | 4048     | 4056     | 4064     | 4072     | 4080  | 4084     | 4088   | 4090  | 4092  |
//   | id u64   | owner u64| index u64| txn u64  | store | data_crc | length | flags | crc32 |
//   |          |          |          |          | u32   | u32      | u16    | u16   | u32   |
//   +----------+----------+----------+----------+-------+----------+--------+-------+-------+
//
// Big-endian. data_crc covers the 4048 bytes, crc32 the first 4092: it continues data_crc over the
// 44 bytes in between, without reading the data. Both are CRC-32/BZIP2, which a ConnectX computes.
// A plain chunk has zeros from owner to flags (docs/store-format.md).
#pragma once

#include <cstdint>
#include <span>

namespace verbena::store {

inline constexpr size_t kChunkBytes = 4096;
inline constexpr size_t kDataBytes = 4048;
inline constexpr size_t kMetadataBytes = kChunkBytes - kDataBytes;
inline constexpr size_t kDataCrcAt = 4084;  // where the CRC of the data is

inline constexpr uint16_t kFlagLog = 1;
inline constexpr uint16_t kFlagCheckpoint = 2;
inline constexpr uint16_t kFlagSuperblock = 4;

// The object, the index in it and the transaction that the chunk was written for.
struct Birth {
  uint64_t owner = 0;  // an object's internal number; 0: log and superblock
  uint64_t index = 0;
  uint64_t txn = 0;  // epoch << 40 | sequence
  bool operator==(const Birth&) const = default;
};

struct ChunkHead {
  uint64_t id = 0;  // the chunk's number in the store
  Birth birth;
  uint32_t store = 0;
  uint16_t length = 0;  // of data, at most 4048
  uint16_t flags = 0;
  bool operator==(const ChunkHead&) const = default;
};

enum class ChunkVerdict : uint8_t {
  kGood,
  kPlain,    // a plain chunk: only an id and a right CRC
  kCrc,      // crc32 is not that of the bytes
  kDataCrc,  // crc32 is right, data_crc is not
  kLength,   // above 4048, or bytes after it are not zero
};
[[nodiscard]] const char* name_of(ChunkVerdict verdict);

// Writes the 48 bytes after the data, given the CRC of the 4048 bytes (finished).
void seal(uint8_t* chunk, const ChunkHead& head, uint32_t data_crc);
// The fields, not validated.
[[nodiscard]] ChunkHead head_of(const uint8_t* chunk);
[[nodiscard]] uint32_t data_crc_of(const uint8_t* chunk);
[[nodiscard]] uint32_t chunk_crc_of(const uint8_t* chunk);
// What crc32 must be, given the CRC of the 4048 bytes: over the stored 44 bytes.
[[nodiscard]] uint32_t expected_chunk_crc(const uint8_t* chunk, uint32_t data_crc);

// All of it, with one pass over the data.
[[nodiscard]] ChunkVerdict examine(std::span<const uint8_t, kChunkBytes> chunk);

}  // namespace verbena::store
