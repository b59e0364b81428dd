// SPDX-License-Identifier: Apache-2.0
// Which parts of blocks show in memory what the medium holds. A granule is loaded once between the
// block's claim and its release. Thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/mutex.h"
#include "medium/backend.h"

namespace verbena::medium {

class Granules {
 public:
  static constexpr size_t kBytes = size_t{64} << 10;

  Granules(size_t block_bytes, uint32_t capacity)
      : block_bytes_(block_bytes),
        per_block_((block_bytes + kBytes - 1) / kBytes),
        loaded_(new std::atomic<uint8_t>[per_block_ * capacity] {}) {}

  // Of a block that nobody uses yet.
  void set_block(uint32_t position, bool loaded) {
    for (size_t i = 0; i < per_block_; ++i) {
      // Whoever is given the block sees it: that is ordered by the backend's lock.
      granule(position, i).store(loaded ? 1 : 0, std::memory_order_relaxed);
    }
  }

  // Calls read(begin, bytes) for each run within the block's granules [begin, begin + bytes) of it
  // that is not loaded yet.
  template <typename Read>
  [[nodiscard]] Result<void> load(uint32_t position, size_t begin, size_t bytes, const Read& read) {
    const size_t first = begin / kBytes;
    const size_t last = (begin + bytes + kBytes - 1) / kBytes;
    if (all_loaded(position, first, last)) return {};
    // Blocks share locks; what matters is that no granule is read into twice.
    const MutexLock lock(locks_[position % locks_.size()]);
    for (size_t i = first; i < last;) {
      if (is_loaded(position, i)) {
        ++i;
        continue;
      }
      size_t end = i + 1;
      while (end < last && !is_loaded(position, end)) ++end;
      const size_t from = i * kBytes;
      if (auto done = read(from, std::min(end * kBytes, block_bytes_) - from); !done) return done;
      for (; i < end; ++i) granule(position, i).store(1, std::memory_order_release);
    }
    return {};
  }

 private:
  [[nodiscard]] std::atomic<uint8_t>& granule(uint32_t position, size_t index) {
    return loaded_[position * per_block_ + index];
  }
  // Pairs with the release in load(): who sees it loaded sees what was read.
  [[nodiscard]] bool is_loaded(uint32_t position, size_t index) {
    return granule(position, index).load(std::memory_order_acquire) != 0;
  }
  [[nodiscard]] bool all_loaded(uint32_t position, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      if (!is_loaded(position, i)) return false;
    }
    return true;
  }

  size_t block_bytes_;
  size_t per_block_;
  std::unique_ptr<std::atomic<uint8_t>[]> loaded_;
  std::array<Mutex, 64> locks_;
};

}  // namespace verbena::medium
