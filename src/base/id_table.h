// SPDX-License-Identifier: Apache-2.0
// A map from a random 24-bit number (QP number, key index, SRQ number) to a pointer. Open
// addressing in a table sized once for its limit: the numbers are random already, so they are their
// own hash; a look-up is one cache line nearly always and never allocates. The pages of a large
// empty table are not touched. Owned by one thread at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/check.h"
#include "base/random.h"

namespace verbena {

template <typename T>
class IdTable {
 public:
  static constexpr uint32_t kIdMask = 0xffffff;

  explicit IdTable(uint32_t max_entries)
      : max_entries_(max_entries),
        mask_(std::bit_ceil(std::max<uint32_t>(max_entries, 4) * 2) - 1),
        slots_(static_cast<Slot*>(std::calloc(size_t{mask_} + 1, sizeof(Slot)))) {
    VERBENA_CHECK(slots_ != nullptr);
    VERBENA_CHECK(max_entries <= kIdMask / 2);
  }

  [[nodiscard]] uint32_t size() const { return size_; }
  [[nodiscard]] bool full() const { return size_ >= max_entries_; }

  [[nodiscard]] T* find(uint32_t id) const {
    for (uint32_t i = id & mask_;; i = (i + 1) & mask_) {
      const Slot& slot = slots_.get()[i];
      if (slot.value == nullptr) return nullptr;
      if (slot.id == id) return slot.value;
    }
  }

  // False when the table is full or the id is taken.
  [[nodiscard]] bool insert(uint32_t id, T* value) {
    VERBENA_CHECK(value != nullptr && id <= kIdMask);
    if (full()) return false;
    uint32_t i = id & mask_;
    for (; slots_.get()[i].value != nullptr; i = (i + 1) & mask_) {
      if (slots_.get()[i].id == id) return false;
    }
    slots_.get()[i] = {value, id};
    ++size_;
    return true;
  }

  // A free id drawn from `random` among those above `reserved`. Only when not full.
  [[nodiscard]] uint32_t draw_free_id(RandomSource& random, uint32_t reserved = 1) const {
    VERBENA_CHECK(!full());
    for (;;) {
      const auto id = static_cast<uint32_t>(random.next()) & kIdMask;
      if (id > reserved && id != kIdMask && find(id) == nullptr) return id;
    }
  }

  // Gives what was there, or nullptr.
  T* erase(uint32_t id) {
    uint32_t hole = id & mask_;
    for (; slots_.get()[hole].id != id || slots_.get()[hole].value == nullptr;
         hole = (hole + 1) & mask_) {
      if (slots_.get()[hole].value == nullptr) return nullptr;
    }
    T* const value = slots_.get()[hole].value;
    // Close the gap: move back every later entry of the run whose home lies at or before the hole.
    for (uint32_t i = (hole + 1) & mask_; slots_.get()[i].value != nullptr; i = (i + 1) & mask_) {
      const uint32_t home = slots_.get()[i].id & mask_;
      if (((i - home) & mask_) >= ((i - hole) & mask_)) {
        slots_.get()[hole] = slots_.get()[i];
        hole = i;
      }
    }
    slots_.get()[hole] = {};
    --size_;
    return value;
  }

  // Order follows the numbers, not insertion.
  template <typename F>
  void for_each(F&& visit) const {
    for (uint32_t i = 0; i <= mask_; ++i) {
      if (slots_.get()[i].value != nullptr) visit(slots_.get()[i].id, slots_.get()[i].value);
    }
  }

 private:
  struct Slot {
    T* value;
    uint32_t id;
  };
  struct Free {
    void operator()(Slot* p) const { std::free(p); }
  };
  uint32_t max_entries_;
  uint32_t mask_;
  uint32_t size_ = 0;
  std::unique_ptr<Slot[], Free> slots_;
};

}  // namespace verbena
