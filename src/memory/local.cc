// SPDX-License-Identifier: Apache-2.0
// Use from a work queue: scatter/gather lists.
#include <algorithm>

#include "memory/domain.h"
#include "memory/resolve.h"
#include "memory/tables.h"

namespace verbena::memory {
namespace {

// Visits, in order, what bytes [offset, offset + n) of the list are: visit(place, bytes of this
// entry). Entries of length 0 are not looked at, nor are those the range does not touch.
template <typename Visit>
Fault walk(const KeyTable& keys, PdId pd, std::span<const Sge> list, uint64_t offset, uint64_t n,
           uint32_t needed, Visit&& visit) {
  for (const Sge& sge : list) {
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    if (n == 0) return Fault::kNone;
    const uint64_t take = std::min<uint64_t>(n, sge.length - offset);
    // Checked from the entry's own address on: addr + offset might wrap into another's range.
    const Use use{.key = sge.lkey.value,
                  .pd = pd,
                  .needed = needed,
                  .addr = sge.addr,
                  .length = offset + take};
    Place place;
    Fault fault = resolve<Side::kLocal>(keys, use, place);
    if (fault != Fault::kNone) return fault;
    place.offset += offset;
    fault = visit(place, take);
    if (fault != Fault::kNone) return fault;
    n -= take;
    offset = 0;
  }
  return n == 0 && offset == 0 ? Fault::kNone : Fault::kOutOfBounds;
}

}  // namespace

uint64_t total_bytes(std::span<const Sge> list) {
  uint64_t total = 0;
  for (const Sge& sge : list) total += sge.length;
  return total;
}

Fault Domain::check_local(PdId pd, std::span<const Sge> list, bool write) const {
  return walk(tables_->keys, pd, list, 0, total_bytes(list), write ? uint32_t{kLocalWrite} : 0,
              [](const Place&, uint64_t) { return Fault::kNone; });
}

Fault Domain::gather(PdId pd, std::span<const Sge> list, uint64_t offset, uint32_t n, Pieces& out,
                     bool again) const {
  tables_->share.again = again;
  return walk(tables_->keys, pd, list, offset, n, 0, [&](const Place& place, uint64_t take) {
    return place.layout->read(place.offset, take, out);
  });
}

std::span<uint8_t> Domain::stretch(PdId pd, std::span<const Sge> list, uint64_t offset, uint64_t n,
                                   bool write) const {
  for (const Sge& sge : list) {
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const uint64_t take = std::min<uint64_t>(n, sge.length - offset);
    std::span<uint8_t> plain;
    (void)walk(tables_->keys, pd, {&sge, 1}, offset, take, write ? uint32_t{kLocalWrite} : 0,
               [&](const Place& place, uint64_t bytes) {
                 plain = place.layout->plain(place.offset, bytes, write);
                 return Fault::kNone;
               });
    return plain;
  }
  return {};
}

Fault Domain::scatter(PdId pd, std::span<const Sge> list, uint64_t offset,
                      std::span<const uint8_t> bytes, bool last) const {
  const bool within_one =
      list.size() == 1 && offset <= list[0].length && bytes.size() <= list[0].length - offset;
  if (!within_one) {
    // Nothing is written unless all of it may be.
    const Fault fault = walk(tables_->keys, pd, list, offset, bytes.size(), kLocalWrite,
                             [](const Place&, uint64_t) { return Fault::kNone; });
    if (fault != Fault::kNone) return fault;
  }
  return walk(tables_->keys, pd, list, offset, bytes.size(), kLocalWrite,
              [&](const Place& place, uint64_t take) {
                const std::span<const uint8_t> part = bytes.first(take);
                bytes = bytes.subspan(take);
                return place.layout->write(place.offset, part, last && bytes.empty());
              });
}

}  // namespace verbena::memory
