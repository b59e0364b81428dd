// SPDX-License-Identifier: Apache-2.0
#include "memory/layout.h"

#include "memory/move.h"

namespace verbena::memory {

Fault Layout::write(uint64_t offset, std::span<const uint8_t> bytes, bool last) const {
  if (backing_ != nullptr) [[unlikely]]
    return backing_->scatter(address(offset), bytes, last);
  store(pointer(offset), bytes, last);
  return Fault::kNone;
}

Result<Word, Fault> Layout::word(uint64_t offset) const {
  if (backing_ != nullptr) return backing_->word(address(offset));
  // Where the program's memory itself is not aligned there is no atomic to be had on any CPU.
  if (address(offset) % 8 != 0) return fail(Fault::kMisaligned);
  return Word{pointer(offset), nullptr};
}

}  // namespace verbena::memory
