// SPDX-License-Identifier: Apache-2.0
#include "memory/keys.h"

#include "base/check.h"

namespace verbena::memory {

Entry& KeyTable::create() {
  VERBENA_CHECK(!full());
  if (free_.empty()) return entries_.emplace_back();
  Entry& entry = *free_.back();
  free_.pop_back();
  entry = Entry{};
  return entry;
}

void KeyTable::destroy(Entry& entry) {
  entry = Entry{};
  free_.push_back(&entry);
}

uint32_t KeyTable::add_key(Entry& entry, uint32_t not_this) {
  for (;;) {
    const uint32_t index = ids_.draw_free_id(random_);
    if (index == not_this >> 8) continue;
    const uint32_t key = index << 8 | (static_cast<uint32_t>(random_.next()) & 0xff);
    VERBENA_CHECK(ids_.insert(index, &entry));
    return key;
  }
}

void KeyTable::remove_key(uint32_t key) { VERBENA_CHECK(ids_.erase(key >> 8) != nullptr); }

void KeyTable::remove_keys(const Entry& entry) {
  remove_key(entry.lkey);
  if (entry.rkey != 0 && entry.rkey != entry.lkey) remove_key(entry.rkey);
}

std::vector<uint32_t> KeyTable::keys_of(const std::unordered_set<uint32_t>& pds, Of what) const {
  std::vector<uint32_t> list;
  for (const Entry& entry : entries_) {
    const uint32_t key = what == Of::kWindows ? entry.rkey : entry.lkey;
    const Of is = entry.kind == Kind::kRegion     ? Of::kRegions
                  : entry.kind == Kind::kIndirect ? Of::kIndirect
                                                  : Of::kWindows;
    if (key != 0 && is == what && pds.contains(entry.pd.value)) list.push_back(key);
  }
  return list;
}

}  // namespace verbena::memory
