// SPDX-License-Identifier: Apache-2.0
// Any 4096 bytes as a chunk (fuzz_chunk.h): the verdict is that of the definition, step by step,
// and a good one is sealed to the same bytes.
#include "base/check.h"
#include "base/endian.h"
#include "store/chunk.h"
#include "store/fuzz_chunk.h"

namespace verbena::store {
namespace {

using Bytes = std::span<const uint8_t, kChunkBytes>;

[[nodiscard]] bool zeros(std::span<const uint8_t> bytes) {
  return std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0; });
}

[[nodiscard]] ChunkVerdict by_definition(Bytes chunk) {
  const uint8_t* p = chunk.data();
  if (load_be32(p + 4092) != crc_of(chunk.first<4092>())) return ChunkVerdict::kCrc;
  if (zeros(chunk.subspan<4056, 36>())) return ChunkVerdict::kPlain;
  if (load_be32(p + 4084) != crc_of(chunk.first<kDataBytes>())) return ChunkVerdict::kDataCrc;
  const size_t length = load_be16(p + 4088);
  if (length > kDataBytes) return ChunkVerdict::kLength;
  return zeros(chunk.first<kDataBytes>().subspan(length)) ? ChunkVerdict::kGood
                                                          : ChunkVerdict::kLength;
}

void take_chunk(const uint8_t* data, size_t size) {
  FuzzChunk chunk = fuzz_chunk(data, size);
  make_crcs_right(chunk);
  const ChunkVerdict verdict = examine(chunk.bytes);
  VERBENA_CHECK(verdict == by_definition(chunk.bytes));
  if (verdict == ChunkVerdict::kGood) {
    auto again = chunk.bytes;
    std::fill(again.begin() + kDataBytes, again.end(), uint8_t{0xee});
    seal(again.data(), head_of(chunk.bytes.data()), data_crc_of(chunk.bytes.data()));
    VERBENA_CHECK(again == chunk.bytes);
  }
}

}  // namespace
}  // namespace verbena::store

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::store::take_chunk(data, size);
  return 0;
}
