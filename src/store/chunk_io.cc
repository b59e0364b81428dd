// SPDX-License-Identifier: Apache-2.0
// Chunks of objects: verified while they are copied, each byte looked at once.
#include <cstring>

#include <fmt/format.h>

#include "base/block_sums.h"
#include "store/chunk_check.h"
#include "store/crc_parts.h"
#include "store/store_impl.h"

namespace verbena::store {

Error StoreImpl::damage(const Object& object, const Run& run, uint32_t i, const uint8_t* chunk,
                        uint32_t data_crc) const {
  if (space_.lacks(run.chunk)) return damaged(lost_damage(object.id, run, i));
  if (space_.unreadable(run.chunk + i)) return damaged(unreadable_damage(object.id, run, i));
  // Gone again: somebody else writes where only we may.
  const Damage unsteady{object.id, (run.index + i) * kDataBytes, run.chunk + i, "memory",
                        "stable",  "changing while it is read"};
  return damaged(find_damage(chunk, data_crc, object.id, run, i, tag_).value_or(unsteady));
}

Error StoreImpl::is_behind(const Object& object, const Run& run) {
  return {Code::kBehind,
          fmt::format("object {}:{} is not here from offset {} on, but behind the cache",
                      object.id.high, object.id.low, run.index * kDataBytes),
          {},
          {object.id, run.index, run.count}};
}

Result<uint32_t> StoreImpl::copy_out(const Object& object, const Run& run, uint32_t i,
                                     uint32_t from, uint32_t to, uint8_t* out,
                                     bool want_crc) const {
  if (!run.has_chunks()) return fail(is_behind(object, SegmentTable::part(run, i)));
  if (const auto loaded = space_.load(run.chunk + i, 1); !loaded) return fail(loaded.error());
  const uint8_t* const chunk = space_.memory(run.chunk + i);
  const std::span<const uint8_t, kDataBytes> data(chunk, kDataBytes);
  if (!options_.checksums) {
    std::memcpy(out, chunk + from, to - from);
    return 0;
  }
  uint32_t part = 0;
  uint32_t whole = 0;
  if (from == 0 && to == kDataBytes) {
    whole = part = crc_copy(out, data);
  } else if (!want_crc) {
    // One register over all three.
    uint32_t state = crc32_msb_update(kCrc32Start, data.first(from));
    state = crc32_msb_copy(state, out, data.subspan(from, to - from));
    whole = crc32_finish(crc32_msb_update(state, data.subspan(to)));
  } else {
    part = crc_copy(out, data.subspan(from, to - from));
    whole = crc_join(crc_join(crc_of(data.first(from)), part, to - from), crc_of(data.subspan(to)),
                     kDataBytes - to);
  }
  if (whole != data_crc_of(chunk) || expected_chunk_crc(chunk, whole) != chunk_crc_of(chunk) ||
      !head_matches(chunk, run, i, tag_)) {
    return fail(damage(object, run, i, chunk, whole));
  }
  return part;
}

void StoreImpl::seal_data(uint8_t* chunk, uint64_t id, const Birth& birth, uint32_t length,
                          uint32_t data_crc) const {
  seal(chunk, {id, birth, tag_, static_cast<uint16_t>(length), 0}, data_crc);
}

Result<void> StoreImpl::merge(const Object& object, uint64_t index, uint32_t from, uint32_t to,
                              ByteSource& source, uint64_t at, uint8_t* chunk, uint64_t id,
                              uint64_t txn) const {
  const auto part = source.fetch(chunk + from, at, to - from);
  if (!part) return fail(part.error());
  // Bytes that the object has in this chunk; zeros lie behind them.
  const uint64_t begin = index * kDataBytes;
  const auto valid = static_cast<uint32_t>(
      object.size <= begin ? 0 : std::min<uint64_t>(kDataBytes, object.size - begin));
  const Run* const run = object.table.find(index);
  const Birth birth{object.number, index, txn};
  const uint32_t length = std::max(to, valid);
  if (run == nullptr || run->index > index || (from == 0 && to >= valid)) {
    std::memset(chunk, 0, from);
    std::memset(chunk + to, 0, kDataBytes - to);
    const uint32_t crc = crc_zeros_after(
        from == 0 ? *part : crc_join(crc_of_zeros(from), *part, to - from), kDataBytes - to);
    seal_data(chunk, id, birth, length, crc);
    return {};
  }
  const auto i = static_cast<uint32_t>(index - run->index);
  if (!run->has_chunks()) return fail(is_behind(object, SegmentTable::part(*run, i)));
  if (const auto loaded = space_.load(run->chunk + i, 1); !loaded) return fail(loaded.error());
  const uint8_t* const old = space_.memory(run->chunk + i);
  const std::span<const uint8_t, kDataBytes> data(old, kDataBytes);
  if (!options_.checksums) {
    std::memcpy(chunk, old, from);
    std::memcpy(chunk + to, old + to, kDataBytes - to);
    seal_data(chunk, id, birth, length, 0);
    return {};
  }
  // The old chunk is proven right before its parts go under a new CRC.
  const uint32_t head = crc_copy(chunk, data.first(from));
  const uint32_t gone = crc_of(data.subspan(from, to - from));
  const uint32_t tail = crc_copy(chunk + to, data.subspan(to));
  const uint32_t whole = crc_join(crc_join(head, gone, to - from), tail, kDataBytes - to);
  if (whole != data_crc_of(old) || expected_chunk_crc(old, whole) != chunk_crc_of(old) ||
      !head_matches(old, *run, i, tag_)) {
    return fail(damage(object, *run, i, old, whole));
  }
  seal_data(chunk, id, birth, length, crc_patch(whole, gone, *part, kDataBytes - to));
  return {};
}

}  // namespace verbena::store
