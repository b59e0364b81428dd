// SPDX-License-Identifier: Apache-2.0
#include "link/sender_ports.h"

#include <algorithm>

#include "link/udp_transmitter.h"

namespace verbena::link {

using std::memory_order_acquire;
using std::memory_order_relaxed;

void SenderPorts::refresh(const SharedTable& table, uint8_t self, Time now) {
  std::erase_if(departed_, [now](const Departed& gone) { return now - gone.left_at > kUnreadFor; });
  for (auto& slots : slots_) slots.fill(0);
  for (size_t slot = kFirstSlot; slot <= kLastSlot; ++slot) {
    const SlotRecord& record = table.slots[slot];
    const uint32_t incarnation = record.incarnation.load(memory_order_acquire);
    Known& known = known_[slot];
    if (is_taken(known.incarnation) && known.incarnation != incarnation) {
      const CreditPair& credits = table.credits[self][slot];
      const uint64_t sent = credits.sent.load(memory_order_acquire);
      const uint64_t consumed = credits.consumed.load(memory_order_relaxed);
      // In a slot that was taken again they are the new owner's.
      const bool unread = !is_taken(incarnation) && sent > consumed;
      departed_.push_back({known.port, record.freed_at_ns.load(memory_order_relaxed),
                           unread ? sent - consumed : 0});
    }
    known.incarnation = incarnation;
    if (!is_taken(incarnation)) continue;
    for (size_t family = 0; family < kFamilies; ++family) {
      known.port[family] = record.source_port[family].load(memory_order_relaxed);
      if (known.port[family] < kFirstPort) continue;
      slots_[family][known.port[family] - kFirstPort] = static_cast<uint8_t>(slot);
    }
  }
  if (departed_.size() > kSlots) {
    departed_.erase(departed_.begin(), departed_.end() - static_cast<ptrdiff_t>(kSlots));
  }
}

bool SenderPorts::was_left_behind(Family family, uint16_t port, Pays pays, uint32_t bytes,
                                  Time now) {
  const auto gone = std::ranges::find_if(departed_, [&](const Departed& one) {
    return one.port[index_of(family)] == port && now - one.left_at <= kUnreadFor;
  });
  if (port == 0 || gone == departed_.end()) return false;
  switch (pays) {
    case Pays::kElsewhere:   return true;
    case Pays::kNothing:     return now - gone->left_at <= kUnpaidFor;
    case Pays::kForDatagram:
    case Pays::kForBytes:    break;
  }
  if (gone->unread == 0) return false;
  // At most what datagram_cost() has for it: the last one must not be refused for the others.
  const uint64_t cost = bytes + (pays == Pays::kForDatagram ? 2 * uint64_t{kDatagramOverhead} : 0);
  gone->unread -= std::min(gone->unread, cost);
  return true;
}

}  // namespace verbena::link
