// SPDX-License-Identifier: Apache-2.0
#include "sim/tcp_cubic.h"

#include <algorithm>
#include <cmath>

namespace verbena::sim {
namespace {

constexpr double kBeta = 0.7;
constexpr double kC = 0.4;
constexpr uint32_t kHyStartSamples = 8;

}  // namespace

Time TcpCubic::may_send_at() const {
  return static_cast<double>(out()) < std::floor(window_) ? 0 : kNever;
}

void TcpCubic::on_ack(const Sent& segment, Time now) {
  const Duration round_trip = now - segment.at;
  least_ = least_ == 0 ? round_trip : std::min(least_, round_trip);
  if (window_ < threshold_ && slow_start_should_end(segment, round_trip)) threshold_ = window_;
  grow(round_trip, now);
}

void TcpCubic::on_timeout(Time now) {
  on_loss(now);
  window_ = 1;
}

void TcpCubic::on_loss(Time now) {
  top_ = window_ < top_ ? window_ * (1 + kBeta) / 2 : window_;  // fast convergence
  window_ = std::max(2.0, window_ * kBeta);
  threshold_ = reno_ = window_;
  to_top_s_ = std::cbrt(std::max(0.0, top_ - window_) / kC);
  epoch_ = now;
}

void TcpCubic::grow(Duration round_trip, Time now) {
  if (window_ < threshold_) {
    window_ += 1;
    return;
  }
  if (epoch_ == 0) {
    epoch_ = now;
    top_ = reno_ = window_;
  }
  const double t = static_cast<double>(now - epoch_ + round_trip) / static_cast<double>(kSecond);
  const double cubic = top_ + kC * std::pow(t - to_top_s_, 3);
  reno_ += 3 * (1 - kBeta) / (1 + kBeta) / window_;
  const double target = std::min(std::max(cubic, reno_), 1.5 * window_);
  if (target > window_) window_ += (target - window_) / window_;
}

// Linux: the least round trip of the round's first eight is an eighth above the least of all, and
// at least 4 ms.
bool TcpCubic::slow_start_should_end(const Sent& segment, Duration round_trip) {
  if (segment.number >= round_end_) {
    round_end_ = next_number();
    round_samples_ = 0;
    round_least_ = round_trip;
  }
  if (++round_samples_ > kHyStartSamples) return false;
  round_least_ = std::min(round_least_, round_trip);
  if (round_samples_ < kHyStartSamples) return false;
  return round_least_ > least_ + std::clamp(least_ / 8, 4 * kMillisecond, 16 * kMillisecond);
}

}  // namespace verbena::sim
