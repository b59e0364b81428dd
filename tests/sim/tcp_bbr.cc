// SPDX-License-Identifier: Apache-2.0
#include "sim/tcp_bbr.h"

#include <algorithm>

namespace verbena::sim {
namespace {

constexpr double kHighGain = 2.885;  // 2 / ln 2
constexpr double kWindowGain = 2;
constexpr std::array kCycle{1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0};
constexpr double kFirstWindow = 10;
constexpr double kLeastWindow = 4;
constexpr Duration kRoundTripAge = 10 * kSecond;
constexpr Duration kProbeTime = 200 * kMillisecond;
constexpr double kGrowth = 1.25;  // of a round of startup, at least
constexpr uint32_t kFullRounds = 3;

}  // namespace

double TcpBbr::rate() const { return *std::ranges::max_element(rates_); }

double TcpBbr::product(double gain) const { return gain * rate() * static_cast<double>(least_); }

double TcpBbr::pacing_gain() const {
  switch (state_) {
    case State::kStartup:        return kHighGain;
    case State::kDrain:          return 1 / kHighGain;
    case State::kProbeBandwidth: return kCycle[phase_];
    case State::kProbeRoundTrip: return 1;
  }
  return 1;
}

double TcpBbr::window() const {
  if (timed_out_) return 1;
  if (state_ == State::kProbeRoundTrip) return kLeastWindow;
  if (rate() == 0) return kFirstWindow;
  const bool high = state_ == State::kStartup || state_ == State::kDrain;
  return std::max(product(high ? kHighGain : kWindowGain), kLeastWindow);
}

Time TcpBbr::may_send_at() const {
  return static_cast<double>(out()) < window() ? paced_until_ : kNever;
}

void TcpBbr::on_sent(Time now) {
  if (rate() == 0) return;  // the first window leaves at once
  const double apart = 1 / (rate() * pacing_gain());
  paced_until_ = std::max(paced_until_, now) + static_cast<Duration>(apart);
}

void TcpBbr::on_ack(const Sent& segment, Time now) {
  timed_out_ = false;
  note_rate(segment, now);
  note_round_trip(now - segment.at, now);
  if (state_ == State::kStartup && round_begins_) end_startup();
  if (state_ == State::kDrain && static_cast<double>(out()) <= product(1)) {
    begin_probe_bandwidth(now);
  }
  if (state_ == State::kProbeBandwidth) advance_cycle(now);
  if (state_ == State::kProbeRoundTrip) probe_round_trip(now);
}

// What was delivered from the sending of a segment to its acknowledgement, over the time that took,
// or the time in which it was sent if that is longer.
void TcpBbr::note_rate(const Sent& segment, Time now) {
  round_begins_ = segment.delivered >= round_end_;
  if (round_begins_) round_end_ = delivered();
  // While few are out on purpose, what is delivered says nothing, and what is known grows no older.
  if (state_ == State::kProbeRoundTrip) return;
  if (round_begins_) rates_[++round_ % kRounds] = 0;
  const Duration took = std::max(now - segment.delivered_at, segment.at - segment.began_at);
  if (took < least_ || took <= 0) return;  // as Linux: too short to be true
  const double sample =
      static_cast<double>(delivered() - segment.delivered) / static_cast<double>(took);
  double& best = rates_[round_ % kRounds];
  best = std::max(best, sample);
}

void TcpBbr::note_round_trip(Duration round_trip, Time now) {
  const bool old = least_ != 0 && now > least_at_ + kRoundTripAge;
  if (least_ == 0 || round_trip <= least_ || old) {
    least_ = round_trip;
    least_at_ = now;
  }
  if (old && state_ != State::kProbeRoundTrip) {
    state_ = State::kProbeRoundTrip;
    probe_ends_ = 0;
  }
}

void TcpBbr::end_startup() {
  if (rate() >= full_rate_ * kGrowth) {
    full_rate_ = rate();
    full_rounds_ = 0;
  } else if (++full_rounds_ >= kFullRounds) {
    state_ = State::kDrain;
  }
}

// In any phase but the one that drains.
void TcpBbr::begin_probe_bandwidth(Time now) {
  state_ = State::kProbeBandwidth;
  phase_ = static_cast<uint32_t>((2 + random_.below(kCycle.size() - 1)) % kCycle.size());
  phase_at_ = now;
  lost_in_phase_ = false;
}

void TcpBbr::advance_cycle(Time now) {
  const bool over = now - phase_at_ > least_;
  const double gain = kCycle[phase_];
  const auto flight = static_cast<double>(out());
  bool next = over;
  if (gain > 1) next = over && (lost_in_phase_ || flight + 1 >= product(gain));
  if (gain < 1) next = over || flight <= product(1);
  if (!next) return;
  phase_ = (phase_ + 1) % kCycle.size();
  phase_at_ = now;
  lost_in_phase_ = false;
}

void TcpBbr::probe_round_trip(Time now) {
  if (probe_ends_ == 0) {
    if (static_cast<double>(out()) <= kLeastWindow) {
      probe_ends_ = now + std::max(kProbeTime, least_);
    }
    return;
  }
  if (now < probe_ends_) return;
  least_at_ = now;
  if (full_rounds_ >= kFullRounds) {
    begin_probe_bandwidth(now);
  } else {
    state_ = State::kStartup;
  }
}

void TcpBbr::on_loss(Time /*now*/) { lost_in_phase_ = true; }

void TcpBbr::on_timeout(Time /*now*/) { timed_out_ = true; }

}  // namespace verbena::sim
