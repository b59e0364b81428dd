// SPDX-License-Identifier: Apache-2.0
// TCP with BBR, version 1 (draft-cardwell-iccrg-bbr-congestion-control-00, as in Linux): sends at
// the rate that was delivered at best of late, and has two products of it and the least round trip
// out. Losses mean nothing to it. Left out: what it does for policers, for acknowledgements that
// come in heaps, and in the first round after a loss.
#pragma once

#include <array>

#include "sim/tcp_flow.h"

namespace verbena::sim {

class TcpBbr final : public TcpFlow {
 public:
  TcpBbr(const TcpWay& way, Time start, RandomSource& random)
      : TcpFlow(way, start), random_(random) {}

 private:
  enum class State : uint8_t { kStartup, kDrain, kProbeBandwidth, kProbeRoundTrip };
  static constexpr uint32_t kRounds = 10;

  [[nodiscard]] Time may_send_at() const override;
  void on_sent(Time now) override;
  void on_ack(const Sent& segment, Time now) override;
  void on_loss(Time now) override;
  void on_timeout(Time now) override;

  void note_rate(const Sent& segment, Time now);
  void note_round_trip(Duration round_trip, Time now);
  void end_startup();
  void advance_cycle(Time now);
  void begin_probe_bandwidth(Time now);
  void probe_round_trip(Time now);

  [[nodiscard]] double rate() const;  // segments per nanosecond; 0: not known
  [[nodiscard]] double product(double gain) const;
  [[nodiscard]] double pacing_gain() const;
  [[nodiscard]] double window() const;

  RandomSource& random_;
  State state_ = State::kStartup;
  std::array<double, kRounds> rates_{};  // the best of each round
  uint64_t round_ = 0;
  uint64_t round_end_ = 0;  // in delivered segments
  bool round_begins_ = false;
  Duration least_ = 0;    // round trip,
  Time least_at_ = 0;     // seen then
  double full_rate_ = 0;  // of startup
  uint32_t full_rounds_ = 0;
  uint32_t phase_ = 0;
  Time phase_at_ = 0;
  bool lost_in_phase_ = false;
  Time probe_ends_ = 0;  // 0: not as few are out as should be
  bool timed_out_ = false;
  Time paced_until_ = 0;
};

}  // namespace verbena::sim
