// SPDX-License-Identifier: Apache-2.0
// AES-128 and POLYVAL with the processor's instructions for them.
#pragma once

#include "wire/packet_tag.h"

namespace verbena::wire {

// Whether this processor has them; without, nothing else here may be called.
[[nodiscard]] bool has_fast_tags();
void encrypt_fast(const TagTables& tables, Block& block);
void hash_fast(const TagTables& tables, Block& sum, const uint8_t* blocks, size_t count);

}  // namespace verbena::wire
