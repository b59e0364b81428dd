// SPDX-License-Identifier: Apache-2.0
// How the bytes of a key lie in memory. A key names a range of addresses; after the check
// (resolve.h) an address is an offset into the key's layout, and the layout says which memory that
// is: one stretch of it (direct), or whatever a Backing makes of it (accessor.h).
//
// Nothing above this file knows which kind it deals with; nothing here checks the key's rights,
// which the caller has done. (A list's are those of other keys, checked by indirect_key.h.)
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "memory/access.h"
#include "memory/accessor.h"
#include "memory/pieces.h"

namespace verbena::memory {

class Layout {
 public:
  Layout() = default;
  Layout(uint8_t* base, uint64_t length, Backing* backing)
      : base_(base), length_(length), backing_(backing) {}

  [[nodiscard]] uint8_t* base() const { return base_; }
  [[nodiscard]] uint64_t length() const { return length_; }
  [[nodiscard]] Backing* backing() const { return backing_; }

  // A part of it, for a window. In the following too, [offset, offset + n) lies inside: the check
  // was made.
  [[nodiscard]] Layout slice(uint64_t offset, uint64_t n) const {
    return {pointer(offset), n, backing_};
  }

  // Points `out` at the bytes, or stages them where they cannot be pointed at.
  [[nodiscard]] Fault read(uint64_t offset, uint64_t n, Pieces& out) const {
    if (backing_ != nullptr) [[unlikely]]
      return backing_->gather(address(offset), n, out);
    out.add({pointer(offset), n});
    return Fault::kNone;
  }
  // The same, with plain memory read by the accessor and staged: it may be gone.
  [[nodiscard]] Fault read_by(Accessor& accessor, uint64_t offset, uint64_t n, Pieces& out) const {
    Backing* const how = backing_ != nullptr ? backing_ : &accessor;
    return how->gather(address(offset), n, out);
  }
  // `last`: as in move.h, for the bytes that end the range. On a fault, bytes before it may be
  // written.
  [[nodiscard]] Fault write(uint64_t offset, std::span<const uint8_t> bytes, bool last) const;
  // As much of [offset, offset + n), from its start, as lies side by side and can be touched by the
  // CPU at once (`write`: and written); empty when it cannot.
  [[nodiscard]] std::span<uint8_t> plain(uint64_t offset, uint64_t n, bool write) const {
    if (backing_ != nullptr) [[unlikely]]
      return backing_->plain(address(offset), n, write);
    return {pointer(offset), n};
  }
  // The 8 bytes at `offset`, side by side and aligned, to be written.
  [[nodiscard]] Result<Word, Fault> word(uint64_t offset) const;

 private:
  // An on-demand region may begin at address 0, to which C++ would not let us add.
  [[nodiscard]] uint64_t address(uint64_t offset) const {
    return reinterpret_cast<uintptr_t>(base_) + offset;
  }
  [[nodiscard]] uint8_t* pointer(uint64_t offset) const {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): see above
    return reinterpret_cast<uint8_t*>(static_cast<uintptr_t>(address(offset)));
  }

  uint8_t* base_ = nullptr;
  uint64_t length_ = 0;
  Backing* backing_ = nullptr;
};

}  // namespace verbena::memory
