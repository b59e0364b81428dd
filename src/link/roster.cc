// SPDX-License-Identifier: Apache-2.0
#include "link/roster.h"

#include <algorithm>
#include <array>

namespace verbena::link {

using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;

std::vector<uint8_t> Roster::order(Family family) const {
  const GroupOrder& shared = table_.orders[index_of(family)];
  const size_t count = std::min<size_t>(shared.count.load(memory_order_relaxed), kSlots);
  std::vector<uint8_t> result(count);
  for (size_t i = 0; i < count; ++i) result[i] = shared.slot[i].load(memory_order_relaxed);
  return result;
}

void Roster::store(size_t family, const std::vector<uint8_t>& order) {
  GroupOrder& shared = table_.orders[family];
  for (size_t i = 0; i < order.size(); ++i) shared.slot[i].store(order[i], memory_order_relaxed);
  shared.count.store(static_cast<uint32_t>(order.size()), memory_order_relaxed);
}

// Pairs with the acquire of those who look (credits.cc, membership.cc): what was stored before is
// seen with it.
void Roster::changed() { table_.generation.fetch_add(1, memory_order_release); }

void Roster::members_changed() {
  table_.membership.fetch_add(1, memory_order_release);
  changed();
}

bool Roster::has_family(uint8_t slot, size_t family) const {
  const SlotRecord& record = table_.slots[slot];
  return is_taken(record.incarnation.load(memory_order_relaxed)) &&
         record.source_port[family].load(memory_order_relaxed) != 0;
}

void Roster::remove(size_t family, uint8_t slot) {
  std::vector<uint8_t> now = order(family == 0 ? Family::kIpv4 : Family::kIpv6);
  const auto at = std::ranges::find(now, slot);
  if (at == now.end()) return;
  *at = now.back();
  now.pop_back();
  store(family, now);
}

// Every member with a socket of the family once, nobody else.
bool Roster::mend(size_t family) {
  const std::vector<uint8_t> before = order(family == 0 ? Family::kIpv4 : Family::kIpv6);
  std::array<bool, kSlots> seen{};
  std::vector<uint8_t> after;
  for (const uint8_t slot : before) {
    if (!seen[slot] && has_family(slot, family)) after.push_back(slot);
    seen[slot] = true;
  }
  for (size_t slot = kFirstSlot; slot <= kLastSlot; ++slot) {
    if (!seen[slot] && has_family(static_cast<uint8_t>(slot), family)) {
      after.push_back(static_cast<uint8_t>(slot));
    }
  }
  if (after == before) return false;
  store(family, after);
  return true;
}

void Roster::leave(uint8_t slot, Time now) {
  SlotRecord& record = table_.slots[slot];
  for (size_t family = 0; family < kFamilies; ++family) remove(family, slot);
  record.freed_at_ns.store(now, memory_order_relaxed);
  record.polling.store(0, memory_order_relaxed);
  const uint32_t incarnation = record.incarnation.load(memory_order_relaxed);
  if (is_taken(incarnation)) record.incarnation.store(incarnation + 1, memory_order_release);
  members_changed();
  table_.moved.store(table_.generation.load(memory_order_relaxed), memory_order_release);
}

uint32_t Roster::reap_dead(const GroupNames& names, std::optional<uint8_t> self, Time now) {
  uint32_t dead = 0;
  for (size_t i = kFirstSlot; i <= kLastSlot; ++i) {
    const auto slot = static_cast<uint8_t>(i);
    if (slot == self || !is_taken(table_.slots[slot].incarnation.load(memory_order_relaxed)))
      continue;
    // Its name may be another user's by now. Who has the lock reads what the last one wrote.
    const std::string name =
        names.member(slot, table_.slots[slot].suffix.load(memory_order_relaxed));
    if (name_is_taken(name) && holder_of(name, names.user()).who != NameHolder::Who::kForeign)
      continue;
    leave(slot, now);
    ++dead;
  }
  bool mended = false;
  for (size_t family = 0; family < kFamilies; ++family) mended = mend(family) || mended;
  if (mended) members_changed();
  return dead;
}

std::optional<uint8_t> Roster::choose_slot(RandomSource& random, Time now, Duration rest) const {
  std::vector<uint8_t> rested;
  std::optional<uint8_t> longest;
  int64_t longest_freed_at = 0;
  for (size_t i = kFirstSlot; i <= kLastSlot; ++i) {
    const auto slot = static_cast<uint8_t>(i);
    const SlotRecord& record = table_.slots[slot];
    const uint32_t incarnation = record.incarnation.load(memory_order_relaxed);
    if (is_taken(incarnation)) continue;
    const int64_t freed_at = record.freed_at_ns.load(memory_order_relaxed);
    if (incarnation == 0 || now - freed_at >= rest) rested.push_back(slot);
    if (!longest || freed_at < longest_freed_at) {
      longest = slot;
      longest_freed_at = freed_at;
    }
  }
  if (rested.empty()) return longest;
  return rested[random.below(rested.size())];
}

void Roster::enter(uint8_t slot, const Entry& entry) {
  SlotRecord& record = table_.slots[slot];
  // Pairs with the acquire in name_of_member(): not seen before what leave() stored.
  record.suffix.store(entry.suffix, memory_order_release);
  record.pid.store(entry.pid, memory_order_relaxed);
  record.budget.store(entry.budget, memory_order_relaxed);
  record.polling.store(0, memory_order_relaxed);
  record.takes_rings.store(entry.takes_rings ? 1 : 0, memory_order_relaxed);
  table_.doorbells[slot].asleep.store(0, memory_order_relaxed);
  for (size_t family = 0; family < kFamilies; ++family) {
    record.source_port[family].store(entry.source_port[family], memory_order_relaxed);
  }
  record.incarnation.store(record.incarnation.load(memory_order_relaxed) | 1, memory_order_release);
  for (size_t family = 0; family < kFamilies; ++family) (void)mend(family);  // appends us
  members_changed();
}

bool Roster::move_to(Family family, uint32_t index, uint8_t slot) {
  std::vector<uint8_t> now = order(family);
  if (index >= now.size() || now[index] == slot) return false;
  const auto at = std::ranges::find(now, slot);
  if (at == now.end()) return false;
  // Whoever a probe has placed stays there: it owns neither this index nor the one we are thought
  // to have.
  std::swap(*at, now[index]);
  store(index_of(family), now);
  changed();
  return true;
}

bool Roster::needs_steering() const {
  return table_.steered.load(memory_order_acquire) != table_.generation.load(memory_order_acquire);
}

bool Roster::misleads() const {
  const uint32_t moved = table_.moved.load(memory_order_acquire);
  return static_cast<int32_t>(moved - table_.steered.load(memory_order_acquire)) > 0;
}

void Roster::mark_steered() {
  table_.steered.store(table_.generation.load(memory_order_relaxed), memory_order_release);
}

}  // namespace verbena::link
