// SPDX-License-Identifier: Apache-2.0
// ucx_perftest through shared memory (posix, cma), in the same run.
#pragma once

#include <cstdint>
#include <optional>

namespace verbena::bench {

struct UcxResult {
  double microseconds = 0;  // one way, median
  double bytes_per_second = 0;
};

enum class UcxTest : uint8_t { kTagLatency, kTagBandwidth };

// Empty where it is not installed or fails, with a message on stderr.
[[nodiscard]] std::optional<UcxResult> ucx_shared(UcxTest test, uint32_t bytes, uint32_t count);

}  // namespace verbena::bench
