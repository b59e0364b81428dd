// SPDX-License-Identifier: Apache-2.0
// Chunks that nobody refers to any more, until they are free: young, sealed, old or covered.
#include <algorithm>
#include <utility>

#include "store/space_block.h"

namespace verbena::store {

// Calls each(block) for all with pending chunks, and drops from the list those without any then.
template <typename Each>
void Space::settle_pending(Each each) {
  Block* rest = std::exchange(pending_, nullptr);
  while (rest != nullptr) {
    Block& block = *std::exchange(rest, rest->next_pending);
    each(block);
    block.pending = count_of(block.young) + count_of(block.sealed) + count_of(block.old) +
                        count_of(block.covered) >
                    0;
    if (block.pending) {
      block.next_pending = pending_;
      pending_ = &block;
    } else {
      give_up_empty(block);
    }
  }
}

void Space::sealed(uint64_t sequence) {
  const ShortLock lock(mutex_);
  for (Block* block = pending_; block != nullptr; block = block->next_pending) {
    for (uint32_t word = 0; word < kMaxWords; ++word) {
      block->sealed[word] |= std::exchange(block->young[word], 0);
    }
  }
  sealed_ += std::exchange(young_, 0);
  sealed_by_ = sequence;
}

void Space::durable(uint64_t recorded) {
  const ShortLock lock(mutex_);
  const bool free_old = recorded >= old_by_;
  settle_pending([&](Block& block) {
    mutex_.assert_held();
    if (free_old) {
      put_back(block, block.old.data(), 0, kMaxWords);
      block.old = {};
    }
    for (uint32_t word = 0; word < kMaxWords; ++word) {
      block.old[word] |= std::exchange(block.sealed[word], 0);
    }
  });
  if (free_old) old_ = 0;
  if (sealed_ > 0 || free_old) old_by_ = sealed_by_;
  old_ += std::exchange(sealed_, 0);
}

void Space::forget() {
  const ShortLock lock(mutex_);
  settle_pending([&](Block& block) {
    mutex_.assert_held();
    for (Bits* bits : {&block.young, &block.sealed, &block.old, &block.covered}) {
      put_back(block, bits->data(), 0, kMaxWords);
      *bits = {};
    }
  });
  young_ = sealed_ = old_ = covered_ = 0;
}

void Space::cover() {
  const ShortLock lock(mutex_);
  for (Block* block = pending_; block != nullptr; block = block->next_pending) {
    for (uint32_t word = 0; word < kMaxWords; ++word) {
      block->covered[word] |=
          std::exchange(block->sealed[word], 0) | std::exchange(block->old[word], 0);
    }
  }
  covered_ += std::exchange(sealed_, 0) + std::exchange(old_, 0);
  covered_by_ = sealed_by_;
}

void Space::forget_covered() {
  const ShortLock lock(mutex_);
  settle_pending([&](Block& block) {
    mutex_.assert_held();
    put_back(block, block.covered.data(), 0, kMaxWords);
    block.covered = {};
  });
  covered_ = 0;
}

void Space::uncover() {
  const ShortLock lock(mutex_);
  for (Block* block = pending_; block != nullptr; block = block->next_pending) {
    for (uint32_t word = 0; word < kMaxWords; ++word) {
      block->old[word] |= std::exchange(block->covered[word], 0);
    }
  }
  old_ += std::exchange(covered_, 0);
  old_by_ = std::max(old_by_, covered_by_);
}

bool Space::any_pending() const {
  const ShortLock lock(mutex_);
  return young_ + sealed_ + old_ + covered_ > 0;
}

}  // namespace verbena::store
