// SPDX-License-Identifier: Apache-2.0
// What a key leads to, and the table of keys. Entries come from a slab, keep their address as long
// as they live and are one cache line: a look-up touches one slot of the table and one entry, and
// allocates nothing. Keys are drawn anew each time, so one that was given back comes again only by
// chance (2^-32).
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_set>
#include <vector>

#include "base/id_table.h"
#include "base/ids.h"
#include "base/random.h"
#include "memory/layout.h"

namespace verbena::memory {

enum class Kind : uint8_t { kRegion, kWindow1, kWindow2, kIndirect };

struct alignas(64) Entry {
  // The whole keys, index and tag; 0: there is none. Without strict keys a region's two are equal.
  uint32_t lkey = 0;
  uint32_t rkey = 0;
  PdId pd;
  Qpn qpn;              // type 2 window: the queue pair it is bound to
  uint32_t access = 0;  // a region's rights, or those a bound window grants
  Kind kind = Kind::kRegion;
  bool usable = false;  // regions always, windows while bound, indirect keys while configured
  uint64_t start = 0;   // address of the first byte: iova, or 0
  Layout layout;        // a bound window's is a part of its region's, which cannot change meanwhile
  uint32_t bound_windows = 0;  // of a region
  LKey region;                 // of a bound window
};
static_assert(sizeof(Entry) == 64);

class KeyTable {
 public:
  KeyTable(RandomSource& random, uint32_t max_entries, uint32_t keys_per_entry)
      : random_(random), max_entries_(max_entries), ids_(max_entries * keys_per_entry) {}

  // By index alone: whether the tag, too, is right and of the right kind is for resolve.h to say.
  [[nodiscard]] Entry* find(uint32_t key) const { return ids_.find(key >> 8); }

  [[nodiscard]] bool full() const { return entries_.size() - free_.size() >= max_entries_; }
  [[nodiscard]] Entry& create();  // only when not full
  void destroy(Entry& entry);     // its keys are removed already

  // A fresh key that leads to `entry`; never `not_this`, the one it had before.
  [[nodiscard]] uint32_t add_key(Entry& entry, uint32_t not_this = 0);
  void remove_key(uint32_t key);
  void remove_keys(const Entry& entry);  // both

  // Keys of what is in these protection domains: windows, regions (their L_Keys) or indirect keys.
  enum class Of : uint8_t { kRegions, kWindows, kIndirect };
  [[nodiscard]] std::vector<uint32_t> keys_of(const std::unordered_set<uint32_t>& pds,
                                              Of what) const;

 private:
  RandomSource& random_;
  uint32_t max_entries_;
  IdTable<Entry> ids_;
  std::deque<Entry> entries_;
  std::vector<Entry*> free_;
};

}  // namespace verbena::memory
