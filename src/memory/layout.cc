// SPDX-License-Identifier: Apache-2.0
#include "memory/layout.h"

#include "memory/move.h"

namespace verbena::memory {
namespace {

Fault write_through(Accessor& accessor, uint8_t* to, std::span<const uint8_t> bytes, bool last) {
  const size_t unit = last ? final_unit(to, bytes.size()) : 0;
  const size_t body = bytes.size() - unit;
  if (body > 0) {
    const Fault fault = accessor.write(to, bytes.first(body));
    if (fault != Fault::kNone) return fault;
  }
  if (unit == 0) return Fault::kNone;
  // Two calls, each a system call in the device's accessor, with the body's stores before the
  // unit's.
  __atomic_thread_fence(__ATOMIC_RELEASE);
  return accessor.write(to + body, bytes.subspan(body));
}

}  // namespace

Fault Layout::read(uint64_t offset, uint64_t n, Pieces& out) const {
  while (n > 0) {
    const Fragment part = fragment(offset, n);
    if (part.accessor == nullptr) [[likely]] {
      out.add({part.at, part.length});
    } else {
      const Fault fault = part.accessor->read(part.at, out.stage(part.length));
      if (fault != Fault::kNone) return fault;
    }
    offset += part.length;
    n -= part.length;
  }
  return Fault::kNone;
}

Fault Layout::write(uint64_t offset, std::span<const uint8_t> bytes, bool last) const {
  while (!bytes.empty()) {
    const Fragment part = fragment(offset, bytes.size());
    const bool ends = last && part.length == bytes.size();
    if (part.accessor == nullptr) [[likely]] {
      store(part.at, bytes.first(part.length), ends);
    } else {
      const Fault fault = write_through(*part.accessor, part.at, bytes.first(part.length), ends);
      if (fault != Fault::kNone) return fault;
    }
    offset += part.length;
    bytes = bytes.subspan(part.length);
  }
  return Fault::kNone;
}

Result<Fragment, Fault> Layout::word(uint64_t offset) const {
  const Fragment part = fragment(offset, 8);
  // Where the program's memory itself is not aligned there is no atomic to be had on any CPU.
  if (part.length != 8 || reinterpret_cast<uintptr_t>(part.at) % 8 != 0) {
    return fail(Fault::kMisaligned);
  }
  return part;
}

}  // namespace verbena::memory
