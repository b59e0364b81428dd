// SPDX-License-Identifier: Apache-2.0
#include "transport/congestion.h"

#include <algorithm>
#include <cmath>

namespace verbena::transport {
namespace {

constexpr double kSegment =
    1500;  // RFC 9438's unit, whatever our packets measure: as TCP beside us
constexpr double kC = 0.4 * kSegment;
constexpr double kBeta = 0.7;
constexpr double kBetaSlowStart = 0.5;
constexpr double kBetaCarried = 0.85;
constexpr double kBetaMark = 0.8;
constexpr double kRenoStep = 3 * (1 - kBeta) / (1 + kBeta) * kSegment;
constexpr double kLeastWindow = 2 * kSegment;
// Of a receiver's room, so much is relied on: more would only be a longer queue at a receiver that
// is slower than the link.
constexpr double kMostRoom = 1024.0 * 1024;
constexpr double kSmallWindow = 16 * kSegment;
constexpr double kLossShare = 8;
constexpr double kLossAllowed = 2 * kSegment;
constexpr double kSlowStartLossAllowed = 8 * kSegment;
constexpr Duration kEmptyShare =
    8;  // a queue is empty while it adds less than so much of the least
constexpr Duration kShortShare = 2;  // and short while it adds less than this
constexpr int kSpanRounds = 8;
constexpr uint32_t kRoundSamples = 4;
constexpr uint32_t kCautiousRounds = 2;
constexpr Duration kSlowStartShare = 8;
constexpr Duration kGoneShare = 16;
constexpr Duration kNoise = 20 * kMicrosecond;  // of hosts, not of the way
constexpr Duration kShorterShare = 8;
constexpr uint32_t kShorterTimes = 4;
constexpr double kPaceSlowStart = 2;
constexpr double kPace = 1.2;

[[nodiscard]] double seconds(Duration span) {
  return static_cast<double>(span) / static_cast<double>(kSecond);
}

}  // namespace

Duration CongestionWindow::time_of(uint64_t cost) const {
  if (least_ == 0 || is_near()) return 0;
  const double gain = in_slow_start() ? kPaceSlowStart : kPace;
  return static_cast<Duration>(static_cast<double>(cost) * static_cast<double>(smoothed_) /
                               (gain * window_));
}

// Packets that leave together wait for each other; a queue that stands is one in which all of a
// round trip waited. In slow start it may be a new one. While all is lost or sent again there is
// nothing to tell it by.
Duration CongestionWindow::standing() const {
  return in_slow_start() ? latest_ : std::min(round_least_, last_round_least_);
}

bool CongestionWindow::knows_queue(Time now) const {
  return least_ != 0 && now <= sampled_at_ + 2 * smoothed_;
}

bool CongestionWindow::hides_queue() const {
  return least_ < kEmptyShare * kNoise && window_ < kSmallWindow;
}

bool CongestionWindow::queue_is_empty(Time now) const {
  if (!knows_queue(now) || hides_queue()) return false;
  return standing() <= least_ + least_ / kEmptyShare + kNoise;
}

double CongestionWindow::carried() const {
  return std::max(best_[0], best_[1]) * static_cast<double>(least_);
}

// A thread that was off its core between the clock and the socket takes an answer for one that came
// earlier than it did. The shortest round trip is not forgotten, so a much shorter one must be seen
// a few times.
bool CongestionWindow::is_unlikely(Duration round_trip, Time now) {
  if (least_ == 0 || round_trip >= least_ - least_ / kShorterShare || least_ <= 2 * kNoise) {
    shorter_ = 0;
    return false;
  }
  if (now != shorter_at_) ++shorter_;
  shorter_at_ = now;
  return shorter_ < kShorterTimes;
}

void CongestionWindow::on_round_trip(Duration round_trip, uint64_t delivered, Time now) {
  // Time is that of a batch: what comes back at once may seem to take no time at all.
  round_trip = std::max(round_trip, kNoise);
  if (is_unlikely(round_trip, now)) return;
  latest_ = round_trip;
  sampled_at_ = now;
  least_ = least_ == 0 ? round_trip : std::min(least_, round_trip);
  variation_ = smoothed_ == 0 ? round_trip / 2
                              : variation_ + (std::abs(smoothed_ - round_trip) - variation_) / 4;
  smoothed_ = smoothed_ == 0 ? round_trip : smoothed_ + (round_trip - smoothed_) / 8;
  begin_span(now);
  best_[0] = std::max(best_[0], static_cast<double>(delivered) / static_cast<double>(round_trip));
  if (now >= round_end_ && round_samples_ >= kRoundSamples) {
    if (in_slow_start()) end_slow_start_round();
    begin_round(round_trip, now);
  }
  round_least_ = round_samples_ == 0 ? round_trip : std::min(round_least_, round_trip);
  ++round_samples_;
  watch_slow_start(round_trip, now);
}

bool CongestionWindow::loses_many(double allowed) const {
  return lost_ * kLossShare > delivered_ && lost_ > allowed;
}

// A link that loses one packet in many does so at any window. Where one in eight is lost, with or
// without a queue, it is something that drops what exceeds a rate.
void CongestionWindow::begin_span(Time now) {
  if (smoothed_ == 0 || now <= span_since_ + kSpanRounds * smoothed_) return;
  usual_ = delivered_ / static_cast<double>(now - span_since_);
  span_since_ = now;
  best_[1] = best_[0];
  best_[0] = 0;
  const bool many = loses_many(kLossAllowed);
  if (many && !is_reduced(now)) {
    // Of what was doubtful before, this is no proof: packets that were late count until that is
    // known.
    const bool doubtful = doubtful_;
    reduce_for_loss(kBeta * window_, now);
    doubtful_ = doubtful;
  }
  lost_ = delivered_ = 0;
}

bool CongestionWindow::is_long(Duration round_trip) const {
  return round_trip > least_ + std::max(least_ / kSlowStartShare, kNoise);
}

// As HyStart++ (RFC 9406): the queue seems to grow, so the window does not, until it is known
// whether that lasts. A host that was off its core for a moment looks the same, until the next
// round. Packets are paced, so that the queue grows while a round lasts: its first samples say
// nothing of the last ones. And a queue that was thought to be there and turns out to be empty was
// none.
void CongestionWindow::watch_slow_start(Duration round_trip, Time now) {
  if (!in_slow_start()) {
    if (!doubtful_ || round_samples_ < kRoundSamples) return;
    if (round_least_ - least_ > std::max(least_ / kGoneShare, kNoise)) return;
    threshold_ = kNoThreshold;
    doubtful_ = cautious_ = false;
    return;
  }
  if (cautious_) return;
  long_samples_ = is_long(round_trip) ? long_samples_ + 1 : 0;
  if (long_samples_ >= kRoundSamples) be_cautious(now);
}

void CongestionWindow::be_cautious(Time now) {
  cautious_ = true;
  long_samples_ = cautious_rounds_ = 0;
  begin_round(latest_, now);
}

void CongestionWindow::end_slow_start_round() {
  if (!cautious_) return;
  if (!is_long(round_least_)) {
    cautious_ = false;  // it was not the queue
  } else if (++cautious_rounds_ >= kCautiousRounds) {
    threshold_ = window_;
    doubtful_ = true;
  }
}

void CongestionWindow::begin_round(Duration round_trip, Time now) {
  round_end_ = now + smoothed_;
  last_round_least_ = round_samples_ == 0 ? round_trip : round_least_;
  round_samples_ = 0;
  round_least_ = round_trip;
}

void CongestionWindow::on_delivered(uint64_t cost, bool limited, Time now) {
  delivered_ += static_cast<double>(cost);
  heard_at_ = now;
  // Who does not use the window learns nothing of a larger one; the clock stands still meanwhile.
  if (!limited) {
    if (epoch_ != kNever) epoch_ += now - grown_at_;
    grown_at_ = now;
    return;
  }
  grown_at_ = now;
  if (is_reduced(now)) return;
  grow(static_cast<double>(cost), now);
  window_ = std::min(window_, limit());
}

void CongestionWindow::set_room(uint64_t bytes) {
  buffer_ = std::clamp(static_cast<double>(bytes), kLeastWindow, kMostRoom);
}

// Near by, the queue that overflows first is most often the receiver's own, its socket's buffer:
// no more than fits there, beside what is on the wire.
double CongestionWindow::limit() const {
  if (!is_near()) return most_;
  return std::min(most_, buffer_ + usual_ * static_cast<double>(least_));
}

void CongestionWindow::grow(double cost, Time now) {
  if (in_slow_start()) {
    if (!cautious_) window_ += cost;
    return;
  }
  if (epoch_ == kNever) {
    epoch_ = now;
    top_ = reno_ = window_;
    to_top_s_ = 0;
  }
  const double t = seconds(now - epoch_ + smoothed_);
  const double cubic = top_ + kC * std::pow(t - to_top_s_, 3);
  reno_ += kRenoStep * cost / window_;
  const double target = std::min(std::max(cubic, reno_), 1.5 * window_);
  if (target > window_) window_ += (target - window_) * cost / window_;
}

void CongestionWindow::reduce(double window, Time now) {
  reduced_at_ = now;
  cautious_ = doubtful_ = false;
  // RFC 9438, 4.7: who has less than before leaves room for others.
  top_ = window_ < top_ ? window_ * (1 + kBeta) / 2 : window_;
  window_ = std::max(window, kLeastWindow);
  threshold_ = reno_ = window_;
  to_top_s_ = std::cbrt(std::max(0.0, top_ - window_) / kC);
  epoch_ = now;
}

// As DSACK undoes what a TCP sender did (RFC 4015): as long as the losses of which it was the
// answer can all be accounted for.
void CongestionWindow::reduce_for_loss(double window, Time now) {
  if (before_.window == 0 || now > before_.until) {
    before_ = {.window = window_, .threshold = threshold_, .lost = lost_, .until = 0};
  }
  before_.until = now + kSpanRounds * (smoothed_ != 0 ? smoothed_ : kSecond);
  reduce(window, now);
}

void CongestionWindow::on_needless_repair(uint64_t cost, Time now) {
  const auto late = static_cast<double>(cost);
  lost_ = std::max(lost_ - late, 0.0);
  if (before_.window == 0) return;
  before_.lost -= late;
  if (before_.lost > 0 && now <= before_.until) return;
  if (now <= before_.until) {
    window_ = std::max(window_, before_.window);
    threshold_ = before_.threshold;
    cautious_ = false;
    long_samples_ = 0;
    epoch_ = kNever;
  }
  before_.window = 0;
}

void CongestionWindow::on_loss(uint64_t cost, bool renewed, Time now, Repair repair) {
  lost_ += static_cast<double>(cost);
  if (before_.window != 0) before_.lost += static_cast<double>(cost);
  begin_span(now);
  if (is_reduced(now) || !renewed) return;
  // A window that doubles is not given the time of a span.
  const bool many = in_slow_start() && loses_many(kSlowStartLossAllowed);
  if (queue_is_empty(now) && !many) return;
  const bool known = knows_queue(now);
  // One long round trip may be a host's that is busy, and one packet lost the link's own.
  if (in_slow_start() && known && !many && !hides_queue() && repair == Repair::kWhatWasLost) {
    if (!cautious_) be_cautious(now);
    if (cautious_rounds_ == 0) return;
  }
  // Slow start may have gone to twice of what the way takes before anybody could tell.
  const double beta = in_slow_start() ? kBetaSlowStart : kBeta;
  double least = std::max(beta * window_, std::min(kBetaCarried * window_, carried()));
  // What a host that is busy adds to round trips is not told from a short queue.
  if (known && !many && !hides_queue() && standing() <= least_ + least_ / kShortShare) {
    least = std::max(least, std::min(window_, carried()));
  }
  if (least < window_) reduce_for_loss(least, now);
  doubtful_ = !known;
}

void CongestionWindow::on_mark(Time now) {
  if (!is_reduced(now)) reduce(kBetaMark * window_, now);
}

void CongestionWindow::on_timeout(Time now) {
  // It concerns one queue pair, if others go on.
  if (now < heard_at_ + answer_time()) return on_loss(0, true, now);
  if (is_reduced(now)) return;
  reduce(kBeta * window_, now);
  window_ = std::min(window_, kLeastWindow);
  doubtful_ = true;
}

}  // namespace verbena::transport
