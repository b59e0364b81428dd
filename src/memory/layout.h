// SPDX-License-Identifier: Apache-2.0
// How the bytes of a key lie in memory. A key names a range of addresses; after the check
// (resolve.h) an address is an offset into the key's layout, and the layout says which memory that
// is, one fragment at a time. Direct (one stretch of memory, populated) and on-demand (one stretch,
// behind an Accessor) exist.
//
// Here is where others join: a list, an interleave of strides and a signed layout each differ in
// what fragment() answers (and a signed one in the Accessor its fragments go through). Nothing
// above this file knows which kind it deals with; nothing here checks rights, which the caller has
// done for the key.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "memory/access.h"
#include "memory/accessor.h"
#include "memory/pieces.h"

namespace verbena::memory {

// Bytes that lie side by side.
struct Fragment {
  uint8_t* at = nullptr;
  uint64_t length = 0;
  Accessor* accessor = nullptr;  // nullptr: touch the memory directly
};

class Layout {
 public:
  Layout() = default;
  Layout(uint8_t* base, uint64_t length, Accessor* accessor)
      : base_(base), length_(length), accessor_(accessor) {}

  [[nodiscard]] uint8_t* base() const { return base_; }
  [[nodiscard]] uint64_t length() const { return length_; }
  [[nodiscard]] Accessor* accessor() const { return accessor_; }

  // A part of it, for a window. In the following too, [offset, offset + n) lies inside: the check
  // was made.
  [[nodiscard]] Layout slice(uint64_t offset, uint64_t n) const {
    return {address(offset), n, accessor_};
  }

  // Points `out` at the bytes, or stages them where they cannot be pointed at.
  [[nodiscard]] Fault read(uint64_t offset, uint64_t n, Pieces& out) const;
  // `last`: as in move.h, for the bytes that end the range. On a kPage, bytes before it may be
  // written.
  [[nodiscard]] Fault write(uint64_t offset, std::span<const uint8_t> bytes, bool last) const;
  // As much of [offset, offset + n), from its start, as lies side by side and can be touched by the
  // CPU at once; empty when it cannot.
  [[nodiscard]] std::span<uint8_t> plain(uint64_t offset, uint64_t n) const {
    if (n == 0) return {};
    const Fragment part = fragment(offset, n);
    if (part.accessor != nullptr) return {};
    return {part.at, part.length};
  }
  // The 8 bytes at `offset`, side by side and aligned.
  [[nodiscard]] Result<Fragment, Fault> word(uint64_t offset) const;

 private:
  // The fragment that begins at `offset`, of at most n bytes and at least one. n > 0.
  [[nodiscard]] Fragment fragment(uint64_t offset, uint64_t n) const {
    return {address(offset), n, accessor_};
  }
  // An on-demand region may begin at address 0, to which C++ would not let us add.
  [[nodiscard]] uint8_t* address(uint64_t offset) const {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): see above
    return reinterpret_cast<uint8_t*>(reinterpret_cast<uintptr_t>(base_) + offset);
  }

  uint8_t* base_ = nullptr;
  uint64_t length_ = 0;
  Accessor* accessor_ = nullptr;
};

}  // namespace verbena::memory
