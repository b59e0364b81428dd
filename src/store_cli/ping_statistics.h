// SPDX-License-Identifier: Apache-2.0
// What a row of pings amounts to.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "base/time.h"

namespace verbena::store_cli {

class PingStatistics {
 public:
  void lost() { ++sent_; }
  void answered(Duration round_trip_ns) {
    ++sent_;
    ++received_;
    min_ns_ = received_ == 1 ? round_trip_ns : std::min(min_ns_, round_trip_ns);
    max_ns_ = std::max(max_ns_, round_trip_ns);
    // Welford's: exact for times that differ little.
    const double delta = static_cast<double>(round_trip_ns) - mean_ns_;
    mean_ns_ += delta / static_cast<double>(received_);
    squares_ += delta * (static_cast<double>(round_trip_ns) - mean_ns_);
  }
  [[nodiscard]] uint64_t sent() const { return sent_; }
  [[nodiscard]] uint64_t received() const { return received_; }
  // Of those that were answered.
  [[nodiscard]] Duration min_ns() const { return min_ns_; }
  [[nodiscard]] Duration max_ns() const { return max_ns_; }
  [[nodiscard]] Duration mean_ns() const { return std::llround(mean_ns_); }
  [[nodiscard]] Duration deviation_ns() const {
    return received_ == 0 ? 0 : std::llround(std::sqrt(squares_ / static_cast<double>(received_)));
  }

 private:
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  Duration min_ns_ = 0;
  Duration max_ns_ = 0;
  double mean_ns_ = 0;
  double squares_ = 0;  // of the distances from the mean, summed up
};

// "0.042 ms": microseconds, and more digits are noise.
[[nodiscard]] inline std::string milliseconds(Duration ns) {
  return fmt::format("{:.3f} ms", static_cast<double>(ns) / static_cast<double>(kMillisecond));
}

}  // namespace verbena::store_cli
