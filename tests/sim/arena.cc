// SPDX-License-Identifier: Apache-2.0
#include "sim/arena.h"

#include <algorithm>
#include <cstring>

#include <sys/mman.h>

#include "base/check.h"

namespace verbena::sim {

void Arena::Unmap::operator()(uint8_t* at) const { munmap(at, bytes); }

Arena::Pages Arena::map(size_t bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  VERBENA_CHECK(at != MAP_FAILED);
  return {static_cast<uint8_t*>(at), Unmap{bytes}};
}

Range Arena::carve(size_t bytes) {
  const Range range{(used_ + kGuardBytes + 63) & ~size_t{63}, bytes};
  VERBENA_CHECK(range.end() + kGuardBytes <= size_);
  for (uint8_t* copy : {real_.get(), shadow_.get()}) {
    std::memset(copy + range.offset - kGuardBytes, 0xa5, kGuardBytes);
    std::memset(copy + range.end(), 0x5a, kGuardBytes);
  }
  used_ = range.end() + kGuardBytes;
  return range;
}

uint64_t Arena::word(size_t offset) const {
  uint64_t value = 0;
  std::memcpy(&value, real_.get() + offset, sizeof value);
  return value;
}

uint64_t Arena::shadow_word(size_t offset) const {
  uint64_t value = 0;
  std::memcpy(&value, shadow_.get() + offset, sizeof value);
  return value;
}

void Arena::set_shadow_word(size_t offset, uint64_t value) {
  std::memcpy(shadow_.get() + offset, &value, sizeof value);
}

void Arena::fill(const Range& range, RandomSource& random) {
  size_t done = 0;
  while (done < range.length) {
    const uint64_t word = random.next();
    const size_t n = std::min<size_t>(8, range.length - done);
    std::memcpy(real_.get() + range.offset + done, &word, n);
    done += n;
  }
  accept(range);
}

void Arena::expect(size_t offset, std::span<const uint8_t> bytes) {
  if (!bytes.empty()) std::memcpy(shadow_.get() + offset, bytes.data(), bytes.size());
}

bool Arena::as_expected(const Range& range) const {
  return std::memcmp(real_.get() + range.offset, shadow_.get() + range.offset, range.length) == 0;
}

void Arena::accept(const Range& range) {
  if (range.length != 0) {
    std::memcpy(shadow_.get() + range.offset, real_.get() + range.offset, range.length);
  }
}

size_t Arena::first_difference() const {
  if (std::memcmp(real_.get(), shadow_.get(), used_) == 0) return size_;
  return static_cast<size_t>(std::mismatch(real_.get(), real_.get() + used_, shadow_.get()).first -
                             real_.get());
}

}  // namespace verbena::sim
