// SPDX-License-Identifier: Apache-2.0
// The timed part of the live run: one operation again and again for a while. Where messages take
// receives, the target gives credits for those it has posted anew, so that none finds its queue
// empty.
#pragma once

#include <chrono>
#include <cstdint>

#include "demo/end.h"

namespace verbena::demo {

struct Rate {
  uint64_t messages = 0;
  double seconds = 0;  // until the last had arrived

  [[nodiscard]] double per_second() const {
    return seconds > 0 ? static_cast<double>(messages) / seconds : 0;
  }
};

// Once, after the compared part: the receives that all bursts share.
void prepare_bursts_as_target(End& end);
void prepare_bursts_as_initiator(End& end);

void burst_as_target(End& end, const Operation& operation);
[[nodiscard]] Rate burst_as_initiator(End& end, const Operation& operation,
                                      std::chrono::milliseconds length);

}  // namespace verbena::demo
