// SPDX-License-Identifier: Apache-2.0
// A host on the simulated network: memory, an endpoint, and the loop a device would run around
// them. Frames that arrive wait until the host looks (poll_delay), then are handled in batches;
// what the endpoint has to say (completions, events) is kept in the order it was said until
// take_notices().
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "link/framing.h"
#include "link/simulated_network.h"
#include "memory/domain.h"
#include "transport/endpoint.h"

namespace verbena::link {

// A completion or an event.
struct Notice {
  enum class Kind : uint8_t { kSendDone, kReceiveDone, kQpEvent, kSrqEvent };
  Kind kind;
  transport::Completion completion{};
  transport::Event event{};
  Qpn qpn{};
  SrqId srq{};
};

struct NodeOptions {
  wire::Gid address;
  transport::EndpointLimits limits{};
  transport::Tuning tuning{};
  memory::Domain::Options memory{};
  Duration max_poll_delay = 0;  // the host looks for frames within this time, at random
  uint32_t max_batch = 64;      // frames before owed ACKs go out
};

class SimulatedNode final : public FrameReceiver,
                            private transport::PacketSink,
                            private transport::EventSink {
 public:
  SimulatedNode(SimulatedNetwork& network, RandomSource& random, const NodeOptions& options);

  [[nodiscard]] memory::Domain& memory() { return memory_; }
  [[nodiscard]] transport::Endpoint& endpoint() { return endpoint_; }
  [[nodiscard]] const transport::Endpoint& endpoint() const { return endpoint_; }
  [[nodiscard]] transport::CompletionQueue* send_cq() { return &send_cq_; }
  [[nodiscard]] transport::CompletionQueue* recv_cq() { return &recv_cq_; }
  [[nodiscard]] const wire::Gid& address() const { return options_.address; }
  [[nodiscard]] PortId port() const { return port_; }

  // The clock moves only here: before anything is asked of the endpoint.
  void set_time(Time now) { now_ = now; }
  // When run() has something to do.
  [[nodiscard]] Time next_event() const;
  void run(Time now);
  void on_arrival(std::vector<uint8_t> frame, Time now) override;
  // As if the host had looked for frames and found just this one.
  void handle_now(std::span<const uint8_t> frame, Time now);

  [[nodiscard]] std::vector<Notice> take_notices() { return std::exchange(notices_, {}); }
  [[nodiscard]] bool has_notices() const { return !notices_.empty(); }
  // Frames dropped before the transport saw them.
  [[nodiscard]] uint64_t bad_frames() const { return bad_frames_; }

 private:
  struct Cq final : transport::CompletionQueue {
    Cq(SimulatedNode& owner, Notice::Kind what) : node(owner), kind(what) {}
    void push(const transport::Completion& completion) override {
      node.notices_.push_back({.kind = kind, .completion = completion, .qpn = completion.qpn});
    }
    SimulatedNode& node;
    Notice::Kind kind;
  };

  void receive(std::span<const uint8_t> frame);
  // As many of the frames that arrived first as a kernel may join, up to `most`, if they are a run;
  // gives their number.
  [[nodiscard]] size_t receive_joined(size_t most);
  void send(const transport::OutPacket& packet) override;
  [[nodiscard]] bool has_room() const override { return network_.has_room(port_, now_); }
  // A few at once, so that runs are run.
  [[nodiscard]] uint32_t room_for(const transport::Path&, Qpn, uint32_t,
                                  uint32_t wanted) const override {
    return has_room() ? std::min(wanted, 4u) : 0;
  }
  [[nodiscard]] std::span<uint8_t> staging() override { return staging_; }
  void qp_event(transport::Event event, Qpn qpn) override {
    notices_.push_back({.kind = Notice::Kind::kQpEvent, .event = event, .qpn = qpn});
  }
  void srq_event(transport::Event event, SrqId srq) override {
    notices_.push_back({.kind = Notice::Kind::kSrqEvent, .event = event, .srq = srq});
  }

  SimulatedNetwork& network_;
  RandomSource& random_;
  NodeOptions options_;
  PortId port_;
  Time now_ = 0;
  uint16_t next_ipv4_id_ = 0;
  std::deque<std::vector<uint8_t>> arrived_;
  Time poll_at_ = kNever;
  uint64_t bad_frames_ = 0;
  std::vector<Notice> notices_;
  std::vector<uint8_t> staging_;
  std::vector<uint8_t> joined_;
  Cq send_cq_;
  Cq recv_cq_;
  memory::Domain memory_;
  transport::Endpoint endpoint_;
};

}  // namespace verbena::link
