// SPDX-License-Identifier: Apache-2.0
#include "base/checksum.h"

#include <atomic>
#include <cstring>

#include <isa-l/crc.h>

#include "base/checksum_arm64.h"

namespace verbena {
namespace {

uint32_t update_isal(uint32_t state, const uint8_t* p, size_t bytes) {
  return ~crc32_gzip_refl(~state, p, bytes);
}

uint32_t copy_isal(uint32_t state, uint8_t* to, const uint8_t* p, size_t bytes) {
  std::memcpy(to, p, bytes);
  return update_isal(state, to, bytes);
}

#if defined(__aarch64__)
using Update = uint32_t (*)(uint32_t, const uint8_t*, size_t);
using Copy = uint32_t (*)(uint32_t, uint8_t*, const uint8_t*, size_t);

uint32_t choose_update(uint32_t state, const uint8_t* p, size_t bytes);
uint32_t choose_copy(uint32_t state, uint8_t* to, const uint8_t* p, size_t bytes);
std::atomic<Update> update{&choose_update};
std::atomic<Copy> copy{&choose_copy};

// The first call chooses; no constructor runs before main for it.
uint32_t choose_update(uint32_t state, const uint8_t* p, size_t bytes) {
  const Update best = has_crc32_arm64() ? &crc32_update_arm64 : &update_isal;
  update.store(best, std::memory_order_relaxed);
  return best(state, p, bytes);
}

uint32_t choose_copy(uint32_t state, uint8_t* to, const uint8_t* p, size_t bytes) {
  const Copy best = has_crc32_arm64() ? &crc32_copy_arm64 : &copy_isal;
  copy.store(best, std::memory_order_relaxed);
  return best(state, to, p, bytes);
}
#endif

}  // namespace

uint32_t crc32_update(uint32_t state, std::span<const uint8_t> bytes) {
  if (bytes.empty()) return state;  // ISA-L may be handed no null pointer
#if defined(__aarch64__)
  return update.load(std::memory_order_relaxed)(state, bytes.data(), bytes.size());
#else
  return update_isal(state, bytes.data(), bytes.size());
#endif
}

uint32_t crc32_copy(uint32_t state, uint8_t* to, std::span<const uint8_t> bytes) {
  if (bytes.empty()) return state;
#if defined(__aarch64__)
  return copy.load(std::memory_order_relaxed)(state, to, bytes.data(), bytes.size());
#else
  return copy_isal(state, to, bytes.data(), bytes.size());
#endif
}

uint32_t crc32(std::span<const uint8_t> bytes) {
  return crc32_finish(crc32_update(kCrc32Start, bytes));
}

}  // namespace verbena
