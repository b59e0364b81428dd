// SPDX-License-Identifier: Apache-2.0
#include "server/chunk_memory.h"

#include <algorithm>

namespace verbena::server {

medium::Result<void> ChunkMemory::add(uint8_t* memory, size_t bytes) {
  const std::scoped_lock lock(mutex_);
  changes_.push_back({memory, bytes});
  changed_.store(true, std::memory_order_release);
  return {};
}

void ChunkMemory::remove(uint8_t* memory, size_t /*bytes*/) {
  const std::scoped_lock lock(mutex_);
  const auto never_registered = std::ranges::find(changes_, memory, &Change::memory);
  if (never_registered != changes_.end()) {
    changes_.erase(never_registered);
    return;
  }
  changes_.push_back({memory, 0});
  changed_.store(true, std::memory_order_release);
}

fabric::Result<void> ChunkMemory::refresh(fabric::Fabric& fabric) {
  if (!changed_.load(std::memory_order_acquire)) return {};
  const std::scoped_lock lock(mutex_);
  if (zeros_.empty()) {
    zeros_.resize(kZeros);
    const auto key = fabric.add_memory(zeros_.data(), zeros_.size(), false);
    if (!key) return fail(key.error());
  }
  size_t done = 0;
  fabric::Result<void> result;
  for (const Change& change : changes_) {
    if (change.bytes == 0) {
      fabric.remove_memory(keys_.at(change.memory));
      keys_.erase(change.memory);
    } else if (const auto key = fabric.add_memory(change.memory, change.bytes, false)) {
      keys_[change.memory] = *key;
    } else {
      result = fail(key.error());
      break;
    }
    ++done;
  }
  changes_.erase(changes_.begin(), changes_.begin() + static_cast<ptrdiff_t>(done));
  changed_.store(!changes_.empty(), std::memory_order_relaxed);
  return result;
}

std::span<const fabric::Local> ChunkMemory::list(std::span<const store::Scatter> pieces,
                                                 bool crcs) {
  locals_.clear();
  for (const store::Scatter& piece : pieces) {
    if (piece.memory != nullptr) {
      const bool whole = piece.bytes == store::kDataBytes;
      locals_.push_back({piece.memory, piece.bytes, piece.stride, piece.count,
                         crcs && whole ? uint32_t{store::kDataCrcAt} : 0});
      continue;
    }
    for (uint64_t left = uint64_t{piece.bytes} * piece.count; left > 0;) {
      const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(left, zeros_.size()));
      locals_.push_back({zeros_.data(), bytes, bytes, 1, 0});
      left -= bytes;
    }
  }
  return locals_;
}

}  // namespace verbena::server
