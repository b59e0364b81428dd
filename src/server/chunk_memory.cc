// SPDX-License-Identifier: Apache-2.0
#include "server/chunk_memory.h"

#include <algorithm>

namespace verbena::server {

medium::Result<void> ChunkMemory::add(uint8_t* memory, size_t bytes) {
  const MutexLock lock(mutex_);
  waiting_.push_back({memory, bytes});
  any_waiting_.store(true, std::memory_order_release);
  return {};
}

void ChunkMemory::remove(uint8_t* memory, size_t /*bytes*/) {
  const MutexLock lock(mutex_);
  const auto never_registered = std::ranges::find(waiting_, memory, &Mapping::memory);
  if (never_registered != waiting_.end()) {
    waiting_.erase(never_registered);
    return;
  }
  const auto key = keys_.extract(memory);
  if (!key.empty()) fabric_->remove_memory(key.mapped());
}

void ChunkMemory::forget_fabric() {
  const MutexLock lock(mutex_);
  fabric_ = nullptr;
  keys_.clear();
}

fabric::Result<void> ChunkMemory::refresh(fabric::Fabric& fabric) {
  // Pairs with the release of add(): memory that a request has got is in the list.
  if (!any_waiting_.load(std::memory_order_acquire)) return {};
  const MutexLock lock(mutex_);
  fabric_ = &fabric;
  if (zeros_.empty()) {
    zeros_.resize(kZeros);
    const auto key = fabric.add_memory(zeros_.data(), zeros_.size(), false);
    if (!key) return fail(key.error());
  }
  while (!waiting_.empty()) {
    const Mapping& next = waiting_.back();
    const auto key = fabric.add_memory(next.memory, next.bytes, false);
    if (!key) return fail(key.error());
    keys_[next.memory] = *key;
    waiting_.pop_back();
  }
  any_waiting_.store(false, std::memory_order_relaxed);
  return {};
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
