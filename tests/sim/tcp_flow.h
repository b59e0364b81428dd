// SPDX-License-Identifier: Apache-2.0
// A model of one TCP flow with an endless file to send, to share a queue with; what it may send is
// its congestion control's to say (tcp_cubic.h, tcp_bbr.h). Selective acknowledgements: segments
// are numbered by transmission, and a network that keeps the order loses each that three later ones
// overtook. The link loses segments as it loses our packets. Acknowledgements come back after a
// delay of their own and are never lost: each says what all before it said.
#pragma once

#include <cstdint>
#include <deque>

#include "base/time.h"
#include "link/simulated_queue.h"

namespace verbena::sim {

// What a flow goes through.
struct TcpWay {
  link::SimulatedQueue* queue = nullptr;
  RandomSource* random = nullptr;
  uint32_t loss_ppm = 0;
  Duration ack_delay = 0;
};

class TcpFlow {
 public:
  static constexpr uint32_t kSegmentBytes = 1448;
  static constexpr uint32_t kFrameBytes = 1514;

  TcpFlow(const TcpWay& way, Time start) : way_(way), timeout_at_(start), start_(start) {}
  virtual ~TcpFlow() = default;

  [[nodiscard]] Time next_event() const;
  void run(Time now);

  [[nodiscard]] uint64_t delivered_bytes() const { return delivered_ * kSegmentBytes; }

 protected:
  struct Sent {
    uint64_t number;
    Time at;
    Time acked_at;       // kNever: it was dropped
    uint64_t delivered;  // when it was sent: so many segments,
    Time delivered_at;   // the last of them then,
    Time began_at;       // and that one was sent then
  };

  // --- congestion control
  // When the next segment may leave, if as many are out as are now; kNever: not before an
  // acknowledgement.
  [[nodiscard]] virtual Time may_send_at() const = 0;
  virtual void on_sent(Time /*now*/) {}
  virtual void on_ack(const Sent& segment, Time now) = 0;
  // Once for all that are lost of one flight.
  virtual void on_loss(Time now) = 0;
  virtual void on_timeout(Time now) = 0;

  [[nodiscard]] uint64_t out() const { return out_.size(); }
  [[nodiscard]] uint64_t next_number() const { return next_number_; }
  [[nodiscard]] uint64_t delivered() const { return delivered_; }

 private:
  void send(Time now);
  void take_ack(const Sent& segment, Time now);
  void find_losses(uint64_t acked, Time now);

  TcpWay way_;
  std::deque<Sent> out_;   // not known to be lost, by number
  std::deque<Sent> acks_;  // on their way here, by time
  uint64_t next_number_ = 0;
  uint64_t delivered_ = 0;
  Time delivered_at_ = 0;
  Time began_at_ = 0;
  uint64_t recover_ = 0;  // what was sent before this is of the last loss
  Duration smoothed_ = 0;
  Time timeout_at_;
  Time start_;
};

}  // namespace verbena::sim
