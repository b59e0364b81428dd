// SPDX-License-Identifier: Apache-2.0
// AES-128 and POLYVAL without special instructions.
#pragma once

#include "wire/packet_tag.h"

namespace verbena::wire {

void expand_key_portable(const Block& key, TagTables& tables);
void encrypt_portable(const TagTables& tables, Block& block);
void hash_portable(const TagTables& tables, Block& sum, const uint8_t* blocks, size_t count);
// a * b / x^128, as POLYVAL multiplies.
[[nodiscard]] Block dot_portable(const Block& a, const Block& b);

}  // namespace verbena::wire
