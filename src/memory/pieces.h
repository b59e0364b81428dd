// SPDX-License-Identifier: Apache-2.0
// Where the payload of one packet lies: a few pieces of memory, in order, so that a link can gather
// them with one system call and no staging copy. What cannot be pointed at (on-demand memory, too
// many fragments, later signed layouts) is copied to `staging`, a piece of which is then pointed
// at.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::memory {

class Pieces {
 public:
  using Slot = std::span<const uint8_t>;
  static constexpr size_t kMax = 8;

  // `staging` must hold the longest payload and stay untouched until the packet was taken by the
  // link.
  explicit Pieces(std::span<uint8_t> staging) : slots_(own_.all), staging_(staging) {}
  // With room for more of them, for several packets at once.
  Pieces(std::span<uint8_t> staging, std::span<Slot> slots) : slots_(slots), staging_(staging) {}
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  [[nodiscard]] std::span<const Slot> list() const { return slots_.first(count_); }
  [[nodiscard]] uint32_t bytes() const { return bytes_; }
  // Whether some of them lie in the staging memory.
  [[nodiscard]] bool staged() const { return staged_ != 0; }
  void clear() {
    count_ = 0;
    bytes_ = 0;
    staged_ = 0;
  }

  // Refers to memory that stays; adjacent pieces are joined. What there is no slot for is staged.
  void add(std::span<const uint8_t> memory);
  // Room for n bytes at the end of the payload, to be filled by the caller before the next add.
  [[nodiscard]] std::span<uint8_t> stage(size_t n);

 private:
  // Whether the last piece ends where the next staged byte will lie, so that it can grow.
  [[nodiscard]] bool ends_staged() const;
  [[nodiscard]] std::span<uint8_t> take_staging(size_t n);

  // Not cleared first: what is read of it was written.
  union Room {
    std::array<Slot, kMax> all;
    Room() {}  // NOLINT(modernize-use-equals-default): that would be deleted
  };
  Room own_;
  std::span<Slot> slots_;
  size_t count_ = 0;
  uint32_t bytes_ = 0;
  std::span<uint8_t> staging_;
  size_t staged_ = 0;
};

}  // namespace verbena::memory
