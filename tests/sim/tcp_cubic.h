// SPDX-License-Identifier: Apache-2.0
// A model of one TCP flow with an endless file to send, to share a queue with: CUBIC (RFC 9438)
// with HyStart as Linux has it, selective acknowledgements, no pacing. Segments are numbered by
// transmission: a network that keeps the order loses each that three later ones overtook. Its
// acknowledgements come back after a delay of their own and are never lost.
#pragma once

#include <cstdint>
#include <deque>

#include "base/time.h"
#include "link/simulated_queue.h"

namespace verbena::sim {

class TcpCubic {
 public:
  static constexpr uint32_t kSegmentBytes = 1448;
  static constexpr uint32_t kFrameBytes = 1514;

  TcpCubic(link::SimulatedQueue& way, Duration ack_delay, Time start)
      : way_(way), ack_delay_(ack_delay), timeout_at_(start), start_(start) {}

  [[nodiscard]] Time next_event() const;
  void run(Time now);

  [[nodiscard]] uint64_t delivered_bytes() const { return delivered_ * kSegmentBytes; }
  [[nodiscard]] uint64_t lost_segments() const { return lost_; }
  [[nodiscard]] double window() const { return window_; }

 private:
  struct Sent {
    uint64_t number;
    Time at;
    Time acked_at;  // kNever: it was dropped
  };

  void send(Time now);
  void on_ack(const Sent& segment, Time now);
  void find_losses(uint64_t acked, Time now);
  void cut(Time now);
  void grow(Duration round_trip, Time now);
  [[nodiscard]] bool slow_start_should_end(const Sent& segment, Duration round_trip);

  link::SimulatedQueue& way_;
  Duration ack_delay_;
  std::deque<Sent> out_;   // not known to be lost, by number
  std::deque<Sent> acks_;  // on their way here, by time
  uint64_t next_number_ = 0;
  uint64_t delivered_ = 0;
  uint64_t lost_ = 0;
  double window_ = 10;  // segments
  double threshold_ = 1e9;
  double top_ = 0;       // W_max
  double reno_ = 0;      // W_est
  double to_top_s_ = 0;  // K
  Time epoch_ = 0;
  uint64_t recover_ = 0;  // what was sent before this is of the last loss
  Duration least_ = 0;    // round trip
  Duration smoothed_ = 0;
  uint64_t round_end_ = 0;  // HyStart: a round ends when this is acknowledged
  uint32_t round_samples_ = 0;
  Duration round_least_ = 0;
  Time timeout_at_;
  Time start_;
};

}  // namespace verbena::sim
