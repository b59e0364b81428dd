// SPDX-License-Identifier: Apache-2.0
#include "base/checksum.h"

#include <atomic>
#include <cstring>

#include "base/checksum_arm64.h"
#include "base/checksum_portable.h"
#include "base/checksum_x86.h"

namespace verbena {
namespace {

using Update = uint32_t (*)(uint32_t, const uint8_t*, size_t);
using Copy = uint32_t (*)(uint32_t, uint8_t*, const uint8_t*, size_t);

uint32_t update_portable(uint32_t state, const uint8_t* p, size_t bytes) {
  return static_cast<uint32_t>(CrcTables<kCrc32Polynomial>::lsb_first(state, {p, bytes}));
}

uint32_t copy_portable(uint32_t state, uint8_t* to, const uint8_t* p, size_t bytes) {
  std::memcpy(to, p, bytes);
  return update_portable(state, to, bytes);
}

uint32_t choose_update(uint32_t state, const uint8_t* p, size_t bytes);
uint32_t choose_copy(uint32_t state, uint8_t* to, const uint8_t* p, size_t bytes);
std::atomic<Update> update{&choose_update};
std::atomic<Copy> copy{&choose_copy};

// The first call chooses; no constructor runs before main for it.
uint32_t choose_update(uint32_t state, const uint8_t* p, size_t bytes) {
  Update best = &update_portable;
#if defined(__aarch64__)
  if (has_crc32_arm64()) best = &crc32_update_arm64;
#elif defined(__x86_64__)
  if (has_clmul_x86()) best = &crc32_update_x86;
#endif
  update.store(best, std::memory_order_relaxed);
  return best(state, p, bytes);
}

uint32_t choose_copy(uint32_t state, uint8_t* to, const uint8_t* p, size_t bytes) {
  Copy best = &copy_portable;
#if defined(__aarch64__)
  if (has_crc32_arm64()) best = &crc32_copy_arm64;
#elif defined(__x86_64__)
  if (has_clmul_x86()) best = &crc32_copy_x86;
#endif
  copy.store(best, std::memory_order_relaxed);
  return best(state, to, p, bytes);
}

}  // namespace

uint32_t crc32_update(uint32_t state, std::span<const uint8_t> bytes) {
  if (bytes.empty()) return state;  // there may be no pointer
  return update.load(std::memory_order_relaxed)(state, bytes.data(), bytes.size());
}

uint32_t crc32_copy(uint32_t state, uint8_t* to, std::span<const uint8_t> bytes) {
  if (bytes.empty()) return state;
  return copy.load(std::memory_order_relaxed)(state, to, bytes.data(), bytes.size());
}

uint32_t crc32(std::span<const uint8_t> bytes) {
  return crc32_finish(crc32_update(kCrc32Start, bytes));
}

}  // namespace verbena
