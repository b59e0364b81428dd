// SPDX-License-Identifier: Apache-2.0
#include "sim/tcp_cubic.h"

#include <algorithm>
#include <cmath>

namespace verbena::sim {
namespace {

constexpr double kBeta = 0.7;
constexpr double kC = 0.4;
constexpr uint64_t kDuplicates = 3;
constexpr Duration kLeastTimeout = 200 * kMillisecond;
constexpr uint32_t kHyStartSamples = 8;

}  // namespace

Time TcpCubic::next_event() const {
  return acks_.empty() ? timeout_at_ : std::min(acks_.front().acked_at, timeout_at_);
}

void TcpCubic::run(Time now) {
  if (now < start_) return;
  while (!acks_.empty() && acks_.front().acked_at <= now) {
    const Sent segment = acks_.front();
    acks_.pop_front();
    on_ack(segment, now);
  }
  if (timeout_at_ <= now) {
    if (!out_.empty()) {
      lost_ += out_.size();
      cut(now);
      window_ = 1;
      out_.clear();
      acks_.clear();
    }
    timeout_at_ = now + std::max(kLeastTimeout, 2 * smoothed_);
  }
  send(now);
}

void TcpCubic::send(Time now) {
  while (static_cast<double>(out_.size()) < std::floor(window_)) {
    const auto passage = way_.pass(kFrameBytes, false, now);
    const Sent sent{next_number_++, now, passage.dropped ? kNever : passage.arrival + ack_delay_};
    out_.push_back(sent);
    if (!passage.dropped) acks_.push_back(sent);
  }
}

void TcpCubic::on_ack(const Sent& segment, Time now) {
  const auto at = std::ranges::lower_bound(out_, segment.number, {}, &Sent::number);
  if (at == out_.end() || at->number != segment.number) return;
  out_.erase(at);
  ++delivered_;
  const Duration round_trip = now - segment.at;
  least_ = least_ == 0 ? round_trip : std::min(least_, round_trip);
  smoothed_ = smoothed_ == 0 ? round_trip : smoothed_ + (round_trip - smoothed_) / 8;
  timeout_at_ = now + std::max(kLeastTimeout, 2 * smoothed_);
  if (window_ < threshold_ && slow_start_should_end(segment, round_trip)) threshold_ = window_;
  grow(round_trip, now);
  find_losses(segment.number, now);
}

void TcpCubic::find_losses(uint64_t acked, Time now) {
  while (!out_.empty() && out_.front().number + kDuplicates <= acked) {
    ++lost_;
    if (out_.front().number >= recover_) cut(now);
    out_.pop_front();
  }
}

void TcpCubic::cut(Time now) {
  recover_ = next_number_;
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
    round_end_ = next_number_;
    round_samples_ = 0;
    round_least_ = round_trip;
  }
  if (++round_samples_ > kHyStartSamples) return false;
  round_least_ = std::min(round_least_, round_trip);
  if (round_samples_ < kHyStartSamples) return false;
  return round_least_ > least_ + std::clamp(least_ / 8, 4 * kMillisecond, 16 * kMillisecond);
}

}  // namespace verbena::sim
