// SPDX-License-Identifier: Apache-2.0
// TCP with CUBIC (RFC 9438) and HyStart as Linux has it, without pacing.
#pragma once

#include "sim/tcp_flow.h"

namespace verbena::sim {

class TcpCubic final : public TcpFlow {
 public:
  using TcpFlow::TcpFlow;

 private:
  [[nodiscard]] Time may_send_at() const override;
  void on_ack(const Sent& segment, Time now) override;
  void on_loss(Time now) override;
  void on_timeout(Time now) override;
  void grow(Duration round_trip, Time now);
  [[nodiscard]] bool slow_start_should_end(const Sent& segment, Duration round_trip);

  double window_ = 10;  // segments
  double threshold_ = 1e9;
  double top_ = 0;       // W_max
  double reno_ = 0;      // W_est
  double to_top_s_ = 0;  // K
  Time epoch_ = 0;
  Duration least_ = 0;      // round trip
  uint64_t round_end_ = 0;  // HyStart: a round ends when this is acknowledged
  uint32_t round_samples_ = 0;
  Duration round_least_ = 0;
};

}  // namespace verbena::sim
