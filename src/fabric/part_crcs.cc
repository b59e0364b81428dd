// SPDX-License-Identifier: Apache-2.0
#include "fabric/part_crcs.h"

#include "base/block_sums.h"
#include "base/endian.h"

namespace verbena::fabric {
namespace {

constexpr uint32_t kCrcStart = 0xffffffff;

uint32_t crc_of(const uint8_t* bytes, uint32_t count) {
  return ~crc32_msb_update(kCrcStart, {bytes, count});
}

// use(part, its CRC's place)
template <typename Use>
bool for_each_crc(const Local& local, Use&& use) {
  for (uint32_t i = 0; i < local.count; ++i) {
    uint8_t* const part = local.memory + size_t{i} * local.stride;
    if (!use(part, part + local.crc_at)) return false;
  }
  return true;
}

}  // namespace

bool crcs_are_right(const Local& local) {
  return for_each_crc(local, [&](const uint8_t* part, const uint8_t* crc) {
    return crc_of(part, local.bytes) == load_be32(crc);
  });
}

void store_crcs(const Local& local) {
  for_each_crc(local, [&](const uint8_t* part, uint8_t* crc) {
    store_be32(crc, crc_of(part, local.bytes));
    return true;
  });
}

}  // namespace verbena::fabric
