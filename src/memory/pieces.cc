// SPDX-License-Identifier: Apache-2.0
#include "memory/pieces.h"

#include "base/check.h"
#include "memory/move.h"

namespace verbena::memory {

void Pieces::add(std::span<const uint8_t> memory) {
  if (memory.empty()) return;
  if (count_ > 0) {
    std::span<const uint8_t>& back = slots_[count_ - 1];
    if (back.data() + back.size() == memory.data()) {
      back = {back.data(), back.size() + memory.size()};
      bytes_ += static_cast<uint32_t>(memory.size());
      return;
    }
  }
  if (count_ == slots_.size()) {
    load(memory.data(), stage(memory.size()));
    return;
  }
  slots_[count_++] = memory;
  bytes_ += static_cast<uint32_t>(memory.size());
}

std::span<uint8_t> Pieces::stage(size_t n) {
  if (n == 0) return {};
  if (count_ == slots_.size() && !ends_staged()) {
    // No slot is left: the last one moves to the staging memory, where it can grow.
    std::span<const uint8_t>& back = slots_[count_ - 1];
    const std::span<uint8_t> room = take_staging(back.size());
    load(back.data(), room);
    back = room;
  }
  const bool extend = ends_staged();
  const std::span<uint8_t> room = take_staging(n);
  if (extend) {
    std::span<const uint8_t>& back = slots_[count_ - 1];
    back = {back.data(), back.size() + n};
  } else {
    slots_[count_++] = room;
  }
  bytes_ += static_cast<uint32_t>(n);
  return room;
}

bool Pieces::ends_staged() const {
  if (count_ == 0) return false;
  const std::span<const uint8_t>& back = slots_[count_ - 1];
  return back.data() + back.size() == staging_.data() + staged_;
}

std::span<uint8_t> Pieces::take_staging(size_t n) {
  VERBENA_CHECK(n <= staging_.size() - staged_);
  const std::span<uint8_t> room = staging_.subspan(staged_, n);
  staged_ += n;
  return room;
}

}  // namespace verbena::memory
