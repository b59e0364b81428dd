// SPDX-License-Identifier: Apache-2.0
// How much may be under way to another host in one direction, and how fast it leaves. docs/
// congestion.md says why it is so. The rules:
//  1. Slow start: the window doubles each round trip until something is lost or marked. Once the
//     round trip has grown by an eighth it stays, and if that lasts slow start is over (as
//     HyStart++, RFC 9406). A loss after a long round trip makes it wait likewise, if only what was
//     lost is sent again.
//  2. Then CUBIC (RFC 9438): beside TCP it takes what one TCP flow takes, however many queue pairs
//     share it.
//  3. A loss while the way's queue is empty is the link's own: the window stays. Other losses take
//     it to 0.7, or to what the way is known to carry within one empty round trip, up to 0.85.
//     If an eighth of all is lost, though, it is not.
//  4. A mark (ECN) takes it to 0.8. Losses and marks of one round trip count once.
//  5. To a host near by (less than 2 ms) no more is under way than fits the receiver's buffer,
//     beside what is on the wire.
//  6. Packets leave at the rate at which a window lasts for a round trip, and a little faster.
//
// Amounts are costs: payload and kPacketOverhead for each packet.
#pragma once

#include <array>
#include <cstdint>

#include "base/time.h"

namespace verbena::transport {

class CongestionWindow {
 public:
  // What is sent again after a loss.
  enum class Repair : uint8_t { kWhatWasLost, kAllThatFollowed };

  // `buffer_bytes`: what a receiver can be expected to have room for.
  CongestionWindow(uint64_t initial_bytes, uint64_t max_bytes, uint64_t buffer_bytes)
      : window_(static_cast<double>(initial_bytes)),
        most_(static_cast<double>(max_bytes)),
        buffer_(static_cast<double>(buffer_bytes)) {}

  [[nodiscard]] uint64_t window() const { return static_cast<uint64_t>(window_); }
  // How long this much takes to leave; 0 where there is no pace: while no round trip was measured,
  // and to hosts so near that no timer is in time.
  [[nodiscard]] Duration time_of(uint64_t cost) const;
  [[nodiscard]] Duration round_trip() const { return smoothed_; }
  [[nodiscard]] Duration least_round_trip() const { return least_; }
  [[nodiscard]] Time reduced_at() const { return reduced_at_; }
  // By then an answer is there unless something was lost (RFC 6298).
  [[nodiscard]] Duration answer_time() const { return smoothed_ + 4 * variation_; }
  [[nodiscard]] bool in_slow_start() const { return window_ < threshold_; }

  // Something that was sent once was answered after `round_trip`; meanwhile `delivered` was.
  void on_round_trip(Duration round_trip, uint64_t delivered, Time now);
  // `limited`: more would have been sent if the window had been larger.
  void on_delivered(uint64_t cost, bool limited, Time now);
  // Something was lost; `renewed` when it was sent after the last loss of its queue pair was seen.
  void on_loss(uint64_t cost, bool renewed, Time now, Repair repair = Repair::kAllThatFollowed);
  // What was taken for lost was not: it was late.
  void on_needless_repair(uint64_t cost, Time now);
  void on_mark(Time now);
  // The receiver has room for so much, instead of what was expected of it.
  void set_room(uint64_t bytes);
  // Nothing was heard for a whole timeout.
  void on_timeout(Time now);

 private:
  static constexpr Duration kNear = 2 * kMillisecond;
  static constexpr double kNoThreshold = 1e18;

  // What was sent before may still be found to be lost; before the first round trip is measured,
  // once.
  [[nodiscard]] bool is_reduced(Time now) const {
    return now < reduced_at_ + (smoothed_ != 0 ? answer_time() : kSecond);
  }
  // Whether round trips were measured of late.
  [[nodiscard]] bool knows_queue(Time now) const;
  // The round trip that all of late took at least.
  [[nodiscard]] Duration standing() const;
  [[nodiscard]] bool queue_is_empty(Time now) const;
  // So near, a queue shorter than the noise cannot be seen. A small window fits such a queue, and
  // is soon as large again if it was not one.
  [[nodiscard]] bool hides_queue() const;
  // What was delivered in an empty round trip at the best rate of late.
  [[nodiscard]] double carried() const;
  [[nodiscard]] bool is_near() const { return least_ != 0 && least_ < kNear; }
  [[nodiscard]] double limit() const;
  [[nodiscard]] bool is_unlikely(Duration round_trip, Time now);
  void reduce(double window, Time now);
  void reduce_for_loss(double window, Time now);
  void grow(double cost, Time now);
  void begin_span(Time now);
  // An eighth of what was sent, and more than is `allowed`.
  [[nodiscard]] bool loses_many(double allowed) const;
  [[nodiscard]] bool is_long(Duration round_trip) const;
  void watch_slow_start(Duration round_trip, Time now);
  void be_cautious(Time now);
  void end_slow_start_round();
  void begin_round(Duration round_trip, Time now);

  double window_;
  double most_;
  double buffer_;  // the receiver's
  double threshold_ = kNoThreshold;
  // It was left, or the window was reduced, on little evidence: an empty queue puts it right.
  bool doubtful_ = false;
  // CUBIC, in bytes and seconds.
  double top_ = 0;       // W_max
  double to_top_s_ = 0;  // K
  double reno_ = 0;      // W_est
  Time epoch_ = kNever;
  Time grown_at_ = 0;
  Time reduced_at_ = -kSecond * 3600;
  Duration least_ = 0;
  uint32_t shorter_ = 0;  // times in a row that one was much shorter, the last then
  Time shorter_at_ = 0;
  Duration latest_ = 0;
  Time sampled_at_ = 0;
  Duration smoothed_ = 0;
  Duration variation_ = 0;
  // A span is a few round trips. Best rate, bytes per ns, of this one and of the one before.
  Time span_since_ = 0;
  std::array<double, 2> best_{};
  double usual_ = 0;  // rate of all of the one before
  double lost_ = 0;
  double delivered_ = 0;
  // What it was before it was reduced for losses, all of which may turn out to be none; 0: it was
  // not, or too long ago.
  struct {
    double window = 0;
    double threshold = 0;
    double lost = 0;  // so much of it is not known to have been late
    Time until = 0;
  } before_;
  // A round lasts for a round trip.
  Time round_end_ = 0;
  uint32_t round_samples_ = 0;
  Duration round_least_ = 0;
  Duration last_round_least_ = 0;
  bool cautious_ = false;         // slow start waits until it is known whether there is a queue,
  uint32_t cautious_rounds_ = 0;  // for so many rounds so far
  uint32_t long_samples_ = 0;     // in a row
  Time heard_at_ = 0;
};

}  // namespace verbena::transport
