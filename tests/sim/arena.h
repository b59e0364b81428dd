// SPDX-License-Identifier: Apache-2.0
// A host's memory and what it should hold. Everything registered on a host is carved from one
// arena, with guard bytes around each piece. The model keeps a shadow of the same size: at the end
// the two must be equal everywhere, guards and all, so that a stray byte is found wherever it fell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/random.h"
#include "memory/domain.h"

namespace verbena::sim {

struct Range {
  size_t offset = 0;  // in the arena
  size_t length = 0;
  [[nodiscard]] size_t end() const { return offset + length; }
  [[nodiscard]] bool overlaps(const Range& other) const {
    return length != 0 && other.length != 0 && offset < other.end() && other.offset < end();
  }
  [[nodiscard]] bool holds(const Range& other) const {
    return other.offset >= offset && other.end() <= end();
  }
};

class Arena {
 public:
  static constexpr size_t kGuardBytes = 64;

  explicit Arena(size_t bytes) : size_(bytes), real_(map(bytes)), shadow_(map(bytes)) {}

  // A piece aligned to 64, with guards.
  [[nodiscard]] Range carve(size_t bytes);
  [[nodiscard]] uint8_t* real(size_t offset) { return real_.get() + offset; }
  [[nodiscard]] uint8_t* shadow(size_t offset) { return shadow_.get() + offset; }
  [[nodiscard]] uint64_t word(size_t offset) const;         // actual, 8 bytes
  [[nodiscard]] uint64_t shadow_word(size_t offset) const;  // expected
  void set_shadow_word(size_t offset, uint64_t value);

  // The host's own program stores here: memory and model change together.
  void fill(const Range& range, RandomSource& random);
  // The model expects these bytes from now on.
  void expect(size_t offset, std::span<const uint8_t> bytes);
  [[nodiscard]] bool as_expected(const Range& range) const;
  // Nobody can know what is here (a connection broke): the model takes what it finds.
  void accept(const Range& range);
  // The first byte that is not as expected; size() when there is none.
  [[nodiscard]] size_t first_difference() const;
  [[nodiscard]] size_t size() const { return size_; }

 private:
  // Pages of zeros, at an address that is a multiple of the page: what lies where must not depend
  // on the allocator, or one seed would have two histories.
  struct Unmap {
    size_t bytes;
    void operator()(uint8_t* at) const;
  };
  using Pages = std::unique_ptr<uint8_t[], Unmap>;
  [[nodiscard]] static Pages map(size_t bytes);

  size_t size_;
  Pages real_;
  Pages shadow_;
  size_t used_ = 0;
};

// A registered region.
struct Region {
  Range range;
  uint64_t start = 0;  // the address of its first byte: iova, or 0
  memory::RegionKeys keys;
  [[nodiscard]] uint64_t addr(size_t arena_offset) const {
    return start + (arena_offset - range.offset);
  }
};

}  // namespace verbena::sim
