// SPDX-License-Identifier: Apache-2.0
// Checks that a data chunk is the one that a mapping refers to, and reports the first difference.
#pragma once

#include <optional>

#include "store/error.h"
#include "store/record.h"

namespace verbena::store {

// Chunk i of a run, written for this store. The CRCs apart.
[[nodiscard]] bool head_matches(const uint8_t* chunk, const Run& run, uint32_t i, uint32_t store);

// The first field that does not match, given the CRC of its data; nullopt if all match.
[[nodiscard]] std::optional<Damage> find_damage(const uint8_t* chunk, uint32_t data_crc,
                                                ObjectId object, const Run& run, uint32_t i,
                                                uint32_t store);
// The same, with the CRC computed.
[[nodiscard]] std::optional<Damage> find_damage(const uint8_t* chunk, ObjectId object,
                                                const Run& run, uint32_t i, uint32_t store);

// Of a chunk that the medium has lost.
[[nodiscard]] Damage lost_damage(ObjectId object, const Run& run, uint32_t i);
// And of one that it cannot read.
[[nodiscard]] Damage unreadable_damage(ObjectId object, const Run& run, uint32_t i);

[[nodiscard]] Error damaged(Damage damage);

}  // namespace verbena::store
