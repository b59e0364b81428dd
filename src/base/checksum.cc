// SPDX-License-Identifier: Apache-2.0
#include "base/checksum.h"

#include <isa-l/crc.h>

namespace verbena {

uint32_t crc32_update(uint32_t state, std::span<const uint8_t> bytes) {
  if (bytes.empty()) return state;  // ISA-L may be handed no null pointer
  return ~crc32_gzip_refl(~state, bytes.data(), bytes.size());
}

uint32_t crc32(std::span<const uint8_t> bytes) {
  return crc32_finish(crc32_update(kCrc32Start, bytes));
}

}  // namespace verbena
