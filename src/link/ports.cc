// SPDX-License-Identifier: Apache-2.0
#include "link/ports.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "link/shared_table.h"

namespace verbena::link {
namespace {

using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;

[[nodiscard]] wire::AddressSet address_of(const PortEntry& entry) {
  const auto one = std::bit_cast<wire::Gid>(std::array<uint64_t, 2>{
      entry.address[0].load(memory_order_relaxed), entry.address[1].load(memory_order_relaxed)});
  return {static_cast<wire::AddressSet::Kind>(entry.addresses.load(memory_order_relaxed)), one};
}

// Whether what is there keeps others of this kind out, given that the addresses overlap.
[[nodiscard]] bool excludes(Ports::Kind there, Ports::Kind wanted) {
  const bool listening = wanted == Ports::Kind::kListening;
  if ((there == Ports::Kind::kListening) != listening) return false;
  return listening || there == Ports::Kind::kBound || wanted == Ports::Kind::kBound;
}

}  // namespace

// As another process has left it, which may have been out of its mind.
uint32_t Ports::used() const {
  return std::min<uint32_t>(table_.ports.end.load(memory_order_acquire), PortTable::kEntries);
}

bool Ports::is_live(const PortEntry& entry) const {
  const uint32_t slot = entry.slot.load(memory_order_relaxed);
  const uint32_t incarnation = entry.incarnation.load(memory_order_relaxed);
  return slot < kSlots && is_taken(incarnation) &&
         table_.slots[slot].incarnation.load(memory_order_acquire) == incarnation;
}

int Ports::add(const Port& port, Kind kind) {
  PortTable& all = table_.ports;
  const uint32_t end = used();
  PortEntry* place = nullptr;
  for (uint32_t i = 0; i < end; ++i) {
    PortEntry& entry = all.entries[i];
    const uint64_t service_id = entry.service_id.load(memory_order_acquire);
    if (service_id == 0 || !is_live(entry)) {
      if (place == nullptr) place = &entry;
      continue;
    }
    const wire::AddressSet taken = address_of(entry);
    if (service_id != port.service_id || !taken.overlaps(port.address)) continue;
    const auto there = static_cast<Kind>(entry.kind.load(memory_order_relaxed));
    const bool apart = kind == Kind::kListening && taken.listens_beside(port.address);
    if (!apart && excludes(there, kind)) return EADDRINUSE;
  }
  if (place == nullptr) {
    if (end == PortTable::kEntries) return ENOSPC;
    place = &all.entries[end];
    all.end.store(end + 1, memory_order_release);
  }
  place->service_id.store(0, memory_order_release);  // a reader sees nothing meanwhile
  const auto words = port.address.one().words();
  place->address[0].store(words[0], memory_order_relaxed);
  place->address[1].store(words[1], memory_order_relaxed);
  place->addresses.store(static_cast<uint32_t>(port.address.kind()), memory_order_relaxed);
  place->slot.store(self_, memory_order_relaxed);
  place->incarnation.store(table_.slots[self_].incarnation.load(memory_order_relaxed),
                           memory_order_relaxed);
  place->kind.store(static_cast<uint32_t>(kind), memory_order_relaxed);
  place->service_id.store(port.service_id, memory_order_release);
  return 0;
}

void Ports::remove(const Port& port, Kind kind) {
  const uint32_t end = used();
  for (uint32_t i = 0; i < end; ++i) {
    PortEntry& entry = table_.ports.entries[i];
    if (entry.service_id.load(memory_order_acquire) != port.service_id ||
        entry.slot.load(memory_order_relaxed) != self_ || !is_live(entry) ||
        static_cast<Kind>(entry.kind.load(memory_order_relaxed)) != kind ||
        address_of(entry) != port.address) {
      continue;
    }
    entry.service_id.store(0, memory_order_release);
    return;
  }
}

void Ports::clear() {
  const uint32_t end = used();
  for (uint32_t i = 0; i < end; ++i) {
    PortEntry& entry = table_.ports.entries[i];
    if (entry.slot.load(memory_order_relaxed) == self_ && is_live(entry)) {
      entry.service_id.store(0, memory_order_release);
    }
  }
}

std::optional<uint8_t> Ports::listener(uint64_t service_id, const wire::Gid& address) const {
  std::optional<uint8_t> on_many;
  const uint32_t end = used();
  for (uint32_t i = 0; i < end; ++i) {
    const PortEntry& entry = table_.ports.entries[i];
    if (entry.service_id.load(memory_order_acquire) != service_id || !is_live(entry)) continue;
    if (static_cast<Kind>(entry.kind.load(memory_order_relaxed)) != Kind::kListening) continue;
    const auto slot = static_cast<uint8_t>(entry.slot.load(memory_order_relaxed));
    const wire::AddressSet there = address_of(entry);
    if (!there.contains(address)) continue;
    if (there.is_one()) return slot;
    on_many = slot;
  }
  return on_many;
}

}  // namespace verbena::link
