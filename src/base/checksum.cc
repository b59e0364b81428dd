// SPDX-License-Identifier: Apache-2.0
#include "base/checksum.h"

#include <atomic>

#include <isa-l/crc.h>

#include "base/checksum_arm64.h"

namespace verbena {
namespace {

uint32_t update_isal(uint32_t state, const uint8_t* p, size_t bytes) {
  return ~crc32_gzip_refl(~state, p, bytes);
}

#if defined(__aarch64__)
using Update = uint32_t (*)(uint32_t, const uint8_t*, size_t);

uint32_t choose(uint32_t state, const uint8_t* p, size_t bytes);
std::atomic<Update> update{&choose};

// The first call chooses; no constructor runs before main for it.
uint32_t choose(uint32_t state, const uint8_t* p, size_t bytes) {
  const Update best = has_crc32_arm64() ? &crc32_update_arm64 : &update_isal;
  update.store(best, std::memory_order_relaxed);
  return best(state, p, bytes);
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

uint32_t crc32(std::span<const uint8_t> bytes) {
  return crc32_finish(crc32_update(kCrc32Start, bytes));
}

}  // namespace verbena
