// SPDX-License-Identifier: Apache-2.0
// When a peer was heard last, and when something was said to it: a peer that stays silent is given
// up after a time, and one that only waits is told now and then that we are still there. Takes the
// time as an argument.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace verbena::transfer {

struct LivenessOptions {
  Duration idle_timeout = 60 * kSecond;  // 0: none
  // Far shorter than the peer's timeout can be.
  Duration speak_every = kSecond;
};
// The shortest that users can ask for.
inline constexpr Duration kMinIdleTimeout = 5 * kSecond;

class Liveness {
 public:
  Liveness() = default;
  Liveness(const LivenessOptions& options, Time now) : options_(options), heard_(now), said_(now) {}

  void heard(Time now) { heard_ = now; }
  void said(Time now) { said_ = now; }
  [[nodiscard]] bool silent(Time now) const {
    return options_.idle_timeout > 0 && now - heard_ >= options_.idle_timeout;
  }
  [[nodiscard]] bool must_speak(Time now) const { return now - said_ >= options_.speak_every; }
  // When one of these becomes true.
  [[nodiscard]] Time next() const {
    const Time speak = said_ + options_.speak_every;
    return options_.idle_timeout > 0 ? std::min(heard_ + options_.idle_timeout, speak) : speak;
  }

 private:
  LivenessOptions options_{};
  Time heard_ = 0;
  Time said_ = 0;
};

}  // namespace verbena::transfer
