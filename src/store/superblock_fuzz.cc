// SPDX-License-Identifier: Apache-2.0
// Any 4096 bytes as a superblock (fuzz_chunk.h; kFuzzRightHead: the chunk around the data says the
// same as the data). What decodes encodes to the same bytes; another version is called so, but only
// if the CRCs are right.
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "base/endian.h"
#include "store/fuzz_chunk.h"
#include "store/superblock.h"

namespace verbena::store {
namespace {

using ChunkBytes = std::array<uint8_t, kChunkBytes>;

void make_head_right(ChunkBytes& chunk) {
  const uint8_t* p = chunk.data();
  const size_t extents = size_t{load_be16(p + 86)} + load_be16(p + 88);
  ChunkHead head = head_of(p);
  head.id = head.id % 2 == 0 ? 0 : load_be32(p + 22);
  head.birth = {0, 0, load_be64(p + 38)};
  head.store = load_be32(p + 18);
  head.length = static_cast<uint16_t>(90 + extents * 28);
  head.flags = kFlagSuperblock;
  seal(chunk.data(), head, data_crc_of(p));
}

[[nodiscard]] bool right_crcs(const ChunkBytes& chunk) {
  const ChunkVerdict verdict = examine(chunk);
  return verdict != ChunkVerdict::kCrc && verdict != ChunkVerdict::kDataCrc;
}

void check_refused(const ChunkBytes& chunk, SuperblockFault fault) {
  const bool magic = std::memcmp(chunk.data(), "VERBENA STORE\n", 14) == 0;
  const bool known = knows_version(load_be32(chunk.data() + 14));
  VERBENA_CHECK(name_of(fault) != std::string_view("unknown"));
  VERBENA_CHECK((fault == SuperblockFault::kMagic) == (right_crcs(chunk) && !magic));
  VERBENA_CHECK((fault == SuperblockFault::kVersion) == (right_crcs(chunk) && magic && !known));
}

void take_superblock(const uint8_t* data, size_t size) {
  FuzzChunk chunk = fuzz_chunk(data, size);
  if ((chunk.what & kFuzzRightHead) != 0) make_head_right(chunk.bytes);
  make_crcs_right(chunk);
  const auto superblock = decode_superblock(chunk.bytes);
  if (!superblock) {
    check_refused(chunk.bytes, superblock.error());
    return;
  }
  ChunkBytes again;
  again.fill(0xee);
  encode(*superblock, head_of(chunk.bytes.data()).id, again);
  VERBENA_CHECK(again == chunk.bytes);
  VERBENA_CHECK(decode_superblock(again) == *superblock);
  VERBENA_CHECK(may_be_torn(again, head_of(again.data()).id, *superblock));
}

}  // namespace
}  // namespace verbena::store

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::store::take_superblock(data, size);
  return 0;
}
