// SPDX-License-Identifier: Apache-2.0
#include "store/log_space.h"

#include <algorithm>

#include "base/check.h"

namespace verbena::store {

Result<void> LogSpace::claim(uint32_t block_a, uint32_t block_b) {
  for (const Pair& pair : pairs_) {
    if (pair.a == block_a && pair.b == block_b) return {};
    // What is free in one pair would be in use in the other.
    if (pair.a == block_a || pair.a == block_b || pair.b == block_a || pair.b == block_b) {
      return fail(Error{Code::kDamaged,
                        "the superblock lists a block of the log in two pairs",
                        {{}, 0, 0, "superblock", "each block in one pair", "block in two pairs"}});
    }
  }
  Pair pair;
  pair.a = block_a;
  pair.b = block_b;
  pair.taken.resize(space_.chunks_per_block(), false);
  pairs_.reserve(pairs_.size() + 1);
  const auto a = space_.claim_log(block_a);
  if (!a) return fail(a.error());
  const auto b = space_.claim_log(block_b);
  if (!b) return fail(b.error());
  pair.memory_a = *a;
  pair.memory_b = *b;
  if (pairs_.empty()) {
    pair.taken[0] = true;
    pair.used = 1;
  }
  free_ += space_.chunks_per_block() - pair.used;
  pairs_.push_back(std::move(pair));
  note_superblocks();
  return {};
}

bool LogSpace::take(const Extent& extent) {
  Pair* const pair = const_cast<Pair*>(pair_of(extent));
  if (pair == nullptr || extent.first + extent.count > pair->taken.size()) return false;
  for (uint32_t i = extent.first; i < uint32_t{extent.first} + extent.count; ++i) {
    if (pair->taken[i]) return false;
    pair->taken[i] = true;
    ++pair->used;
    --free_;
  }
  return true;
}

Result<void> LogSpace::grow() {
  Pair pair;
  pair.taken.resize(space_.chunks_per_block(), false);
  pairs_.reserve(pairs_.size() + 1);
  const auto a = space_.allocate_log();
  if (!a) return fail(a.error());
  const auto b = space_.allocate_log();
  if (!b) {
    space_.release_log(a->position);
    return fail(b.error());
  }
  pair.a = a->position;
  pair.b = b->position;
  pair.memory_a = a->memory;
  pair.memory_b = b->memory;
  free_ += pair.taken.size();
  pairs_.push_back(std::move(pair));
  note_superblocks();
  return {};
}

void LogSpace::note_superblocks() {
  if (superblock_a_ != nullptr) return;
  superblock_a_ = pairs_.front().memory_a;
  superblock_b_ = pairs_.front().memory_b;
}

void LogSpace::leave_from(uint32_t limit) {
  for (Pair& pair : pairs_) {
    const bool left = limit > 0 && (pair.a >= limit || pair.b >= limit);
    if (left == pair.left) continue;
    const uint64_t free = pair.taken.size() - pair.used;
    free_ = left ? free_ - free : free_ + free;
    pair.left = left;
  }
}

uint64_t LogSpace::pairs_below(uint32_t limit) const {
  return static_cast<uint64_t>(std::ranges::count_if(
      pairs_, [&](const Pair& pair) { return pair.a < limit && pair.b < limit; }));
}

void LogSpace::shrink(uint64_t keep) {
  for (size_t i = pairs_.size(); i-- > 1;) {
    if (pairs_[i].used > 0) continue;
    if (!pairs_[i].left) {
      if (free_ < keep + chunks_per_pair()) continue;
      free_ -= chunks_per_pair();
    }
    space_.release_log(pairs_[i].a);
    space_.release_log(pairs_[i].b);
    pairs_.erase(pairs_.begin() + static_cast<ptrdiff_t>(i));
  }
}

std::optional<Extent> LogSpace::allocate(uint32_t want) {
  // The longest piece there is, up to what is wanted.
  Extent best;
  Pair* from = nullptr;
  for (Pair& pair : pairs_) {
    const auto size = static_cast<uint32_t>(pair.taken.size());
    if (pair.left || size - pair.used <= best.count) continue;
    for (uint32_t i = 0; i < size && best.count < want;) {
      uint32_t end = i;
      while (end < size && !pair.taken[end] && end - i < want) ++end;
      if (end - i > best.count) {
        best = {pair.a, pair.b, static_cast<uint16_t>(i), static_cast<uint16_t>(end - i), 0, 0};
        from = &pair;
      }
      i = end + 1;
    }
    if (best.count == want) break;
  }
  if (from == nullptr) return std::nullopt;
  std::fill_n(from->taken.begin() + best.first, best.count, true);
  from->used += best.count;
  free_ -= best.count;
  return best;
}

void LogSpace::release(const Extent& extent) {
  auto* const pair = const_cast<Pair*>(pair_of(extent));
  VERBENA_CHECK(pair != nullptr);
  std::fill_n(pair->taken.begin() + extent.first, extent.count, false);
  pair->used -= extent.count;
  if (!pair->left) free_ += extent.count;
}

const LogSpace::Pair* LogSpace::pair_of(const Extent& extent) const {
  const auto found = std::ranges::find_if(pairs_, [&](const Pair& pair) {
    return pair.a == extent.block_a && pair.b == extent.block_b;
  });
  return found == pairs_.end() ? nullptr : &*found;
}

LogSpace::Slot LogSpace::slot_a(const Extent& extent, uint32_t i) const {
  return {pair_of(extent)->memory_a + size_t{extent.first + i} * kChunkBytes,
          uint64_t{extent.block_a} * space_.chunks_per_block() + extent.first + i};
}

LogSpace::Slot LogSpace::slot_b(const Extent& extent, uint32_t i) const {
  return {pair_of(extent)->memory_b + size_t{extent.first + i} * kChunkBytes,
          uint64_t{extent.block_b} * space_.chunks_per_block() + extent.first + i};
}

}  // namespace verbena::store
