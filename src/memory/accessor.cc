// SPDX-License-Identifier: Apache-2.0
#include "memory/accessor.h"

#include "memory/move.h"

namespace verbena::memory {
namespace {

uint8_t* pointer(uint64_t at) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an on-demand region may be the whole address space
  return reinterpret_cast<uint8_t*>(static_cast<uintptr_t>(at));
}

}  // namespace

Fault Accessor::gather(uint64_t at, uint64_t n, Pieces& out) {
  return read(pointer(at), out.stage(n));
}

Fault Accessor::scatter(uint64_t at, std::span<const uint8_t> bytes, bool last) {
  uint8_t* const to = pointer(at);
  const size_t unit = last ? final_unit(to, bytes.size()) : 0;
  const size_t body = bytes.size() - unit;
  if (body > 0) {
    const Fault fault = write(to, bytes.first(body));
    if (fault != Fault::kNone) return fault;
  }
  if (unit == 0) return Fault::kNone;
  // Two calls, each a system call in the device's accessor, with the body's stores before the
  // unit's.
  __atomic_thread_fence(__ATOMIC_RELEASE);
  return write(to + body, bytes.subspan(body));
}

std::span<uint8_t> Accessor::plain(uint64_t /*at*/, uint64_t /*n*/, bool /*write*/) { return {}; }

Result<Word, Fault> Accessor::word(uint64_t at) {
  if (at % 8 != 0) return fail(Fault::kMisaligned);
  return Word{pointer(at), this};
}

}  // namespace verbena::memory
