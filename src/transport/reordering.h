// SPDX-License-Identifier: Apache-2.0
// By how much packets of one direction of a way overtake each other: so long a missing packet is
// waited for before it is taken for lost (RFC 8985, 6.2). A quarter of the shortest round trip at
// first; more when a repair turned out to have been needless, or a packet came almost that late; up
// to a whole round trip. What was learnt is forgotten step by step while repairs are needed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace verbena::transport {

class Reordering {
 public:
  [[nodiscard]] Duration window(Duration least, Duration smoothed) const {
    return std::min(steps_ * (least / kStepsPerRoundTrip), std::max(smoothed, least));
  }

  // A repair was needless.
  void on_needless(Duration smoothed, Time now) {
    quiet_ = 0;
    if (now < widened_at_ + smoothed) return;  // of one round trip, once
    widened_at_ = now;
    steps_ = std::min(steps_ + 1, kMaxSteps);
  }
  // A packet came so much later than one sent after it, and was not repaired.
  void on_late(Duration lateness, Duration least) {
    const Duration step = least / kStepsPerRoundTrip;
    if (step == 0) return;
    const Duration wanted = (lateness + lateness / 4) / step + 1;
    if (wanted > steps_) steps_ = std::min(wanted, kMaxSteps);
    if (wanted >= steps_) quiet_ = 0;
  }
  // Something was lost.
  void on_loss(Duration smoothed, Time now) {
    if (now < counted_at_ + smoothed) return;
    counted_at_ = now;
    if (++quiet_ < kQuietRounds || steps_ == 1) return;
    quiet_ = 0;
    --steps_;
  }

 private:
  static constexpr Duration kStepsPerRoundTrip = 4;
  static constexpr Duration kMaxSteps = 64;  // of a path whose shortest round trip is long past
  static constexpr uint32_t kQuietRounds = 16;

  Duration steps_ = 1;
  uint32_t quiet_ = 0;  // round trips with losses and no sign of reordering
  Time widened_at_ = -kSecond * 3600;
  Time counted_at_ = -kSecond * 3600;
};

}  // namespace verbena::transport
