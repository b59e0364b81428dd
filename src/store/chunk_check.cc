// SPDX-License-Identifier: Apache-2.0
#include "store/chunk_check.h"

#include <fmt/format.h>

#include "store/crc_parts.h"

namespace verbena::store {

bool head_matches(const uint8_t* chunk, const Run& run, uint32_t i, uint32_t store) {
  const ChunkHead head = head_of(chunk);
  return head.id == run.chunk + i && head.birth.owner == run.birth.owner &&
         head.birth.index == run.birth.index + i && head.birth.txn == run.birth.txn &&
         head.store == store && head.flags == 0;
}

std::optional<Damage> find_damage(const uint8_t* chunk, uint32_t data_crc, ObjectId object,
                                  const Run& run, uint32_t i, uint32_t store) {
  const ChunkHead head = head_of(chunk);
  Damage found{object, (run.index + i) * kDataBytes, run.chunk + i, {}, {}, {}};
  const auto differ = [&](const char* field, uint64_t expected, uint64_t actual) {
    if (expected == actual || !found.field.empty()) return;
    found.field = field;
    found.expected = fmt::format("{:#x}", expected);
    found.actual = fmt::format("{:#x}", actual);
  };
  differ("data CRC", data_crc_of(chunk), data_crc);
  differ("chunk CRC", chunk_crc_of(chunk), expected_chunk_crc(chunk, data_crc));
  differ("store", store, head.store);
  differ("chunk number", run.chunk + i, head.id);
  differ("object", run.birth.owner, head.birth.owner);
  differ("index", run.birth.index + i, head.birth.index);
  differ("transaction", run.birth.txn, head.birth.txn);
  differ("flags", 0, head.flags);
  if (found.field.empty()) return std::nullopt;
  return found;
}

std::optional<Damage> find_damage(const uint8_t* chunk, ObjectId object, const Run& run, uint32_t i,
                                  uint32_t store) {
  return find_damage(chunk, crc_of({chunk, kDataBytes}), object, run, i, store);
}

Damage lost_damage(ObjectId object, const Run& run, uint32_t i) {
  return {object, (run.index + i) * kDataBytes, run.chunk + i, "medium", "a chunk", "missing"};
}

Damage unreadable_damage(ObjectId object, const Run& run, uint32_t i) {
  return {object, (run.index + i) * kDataBytes, run.chunk + i, "medium", "a chunk", "unreadable"};
}

Error damaged(Damage damage) {
  std::string what = fmt::format(
      "object {}:{} is damaged at offset {} (chunk {}): {} is {}, expected {}", damage.object.high,
      damage.object.low, damage.offset, damage.chunk, damage.field, damage.actual, damage.expected);
  return {Code::kDamaged, std::move(what), std::move(damage)};
}

}  // namespace verbena::store
