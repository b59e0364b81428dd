// SPDX-License-Identifier: Apache-2.0
#include "client/memory_cache.h"

#include <algorithm>
#include <iterator>

namespace verbena::client {

MemoryCache::~MemoryCache() {
  while (!idle_.empty()) remove(*idle_.front());
}

fabric::Result<MemoryCache::Entry*> MemoryCache::use(std::span<uint8_t> memory) {
  // Of those that begin before it, the nearest few: others would have to be large.
  constexpr int kLook = 8;
  auto it = entries_.upper_bound(memory.data());
  for (int i = 0; i < kLook && it != entries_.begin(); ++i) {
    Entry& entry = (--it)->second;
    if (entry.stale || entry.begin + entry.bytes < memory.data() + memory.size()) continue;
    if (entry.users++ == 0) {
      idle_.erase(entry.place);
      idle_bytes_ -= entry.bytes;
    }
    return &entry;
  }
  auto key = fabric_.add_memory(memory.data(), memory.size(), true);
  if (!key) {
    // The system may allow no more: what is idle makes room.
    while (!idle_.empty()) remove(*idle_.front());
    key = fabric_.add_memory(memory.data(), memory.size(), true);
    if (!key) return fail(key.error());
  }
  const auto added =
      entries_.emplace(memory.data(), Entry{memory.data(), memory.size(), *key, 1, false, {}});
  return &added->second;
}

void MemoryCache::release(Entry& entry) {
  if (--entry.users > 0) return;
  entry.place = idle_.insert(idle_.end(), &entry);
  idle_bytes_ += entry.bytes;
  if (entry.stale) return remove(entry);
  evict();
}

void MemoryCache::evict() {
  while (idle_.size() > kMaxEntries || (idle_bytes_ > kMaxBytes && idle_.size() > 1)) {
    remove(*idle_.front());
  }
}

// One that nobody uses.
void MemoryCache::remove(Entry& entry) {
  idle_.erase(entry.place);
  idle_bytes_ -= entry.bytes;
  fabric_.remove_memory(entry.key);
  auto [it, end] = entries_.equal_range(entry.begin);
  while (&it->second != &entry) ++it;
  entries_.erase(it);
}

void MemoryCache::forget(std::span<const uint8_t> memory) {
  for (auto it = entries_.begin(); it != entries_.end();) {
    Entry& entry = (it++)->second;
    if (entry.begin >= memory.data() + memory.size()) break;
    if (entry.begin + entry.bytes <= memory.data()) continue;
    entry.stale = true;
    if (entry.users == 0) remove(entry);
  }
}

}  // namespace verbena::client
