// SPDX-License-Identifier: Apache-2.0
// The mark of an opening for writing: its epoch, and a random number as ticket. Tickets of its
// transactions count up from there. Chunks that two copies of one store write after they were
// copied can be told apart by it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "store/error.h"

namespace verbena::store {

// Random numbers; none: the system has none.
using RandomNumbers = std::function<std::optional<uint64_t>()>;
[[nodiscard]] std::optional<uint64_t> kernel_random();

[[nodiscard]] Result<uint64_t> draw_random(const RandomNumbers& random);
// With a ticket in [1, 2^39): that leaves as many for transactions.
[[nodiscard]] Result<uint64_t> draw_mark(const RandomNumbers& random, uint32_t epoch);

}  // namespace verbena::store
