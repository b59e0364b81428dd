// SPDX-License-Identifier: Apache-2.0
// The way of a packet from where it was read to the device: is it from a host that is served, is
// its sender a member if it is this host, is it this process's, past the filter if there is one, is
// it a packet, is it whole.
//
// Owned by the engine's lock holder.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/time.h"
#include "link/clock.h"
#include "link/link.h"
#include "link/membership.h"
#include "link/numbers.h"
#include "link/ring_packet.h"
#include "link/seal.h"
#include "wire/icrc.h"

namespace verbena::link {

class Intake final : public DatagramHandler {
 public:
  Intake(Membership& host, Arrivals& arrivals);

  // When what comes from here on was looked for, unless it is read from a socket.
  void set_time(Time now) { now_ = now; }
  void set_filter(ReceiveFilter* filter);
  // From other hosts nothing is taken without its tag; nullptr: everything is.
  void set_seal(Seal* seal) { seal_ = seal; }
  [[nodiscard]] bool filters() const { return filter_ != nullptr; }
  // When the filter wants to let go of something, and does.
  [[nodiscard]] Time filter_due() const { return filter_due_; }
  void release(Time now);

  // What is in the socket may have come while this thread was off its core, since it looked at the
  // clock; answers would seem to come sooner than they can.
  void on_batch() override { now_ = std::max(now_, monotonic_now()); }
  // From sockets, and from other members that were given what is ours.
  void on_datagram(const Datagram& datagram) override;
  [[nodiscard]] uint32_t on_joined(const Datagram& rest, uint32_t segment) override;
  void on_consumed(const Datagram& datagram, uint32_t cost) override;

  // From a member's ring.
  void on_ring_packet(const RingPacket& packet, Time now);
  // Several, of which `headers` is the first's. Gives how many were taken.
  [[nodiscard]] uint32_t on_ring_run(std::span<const uint8_t> headers,
                                     std::span<const uint8_t> payload, uint32_t packets,
                                     const wire::Gid& source, const wire::Gid& destination,
                                     bool ack_request, Time now);
  void count_bad_record() { ++counters_.bad_records; }

  [[nodiscard]] const IntakeCounters& counters() const { return counters_; }

 private:
  // Past the filter.
  struct Inner final : DatagramHandler {
    explicit Inner(Intake& intake) : intake_(intake) {}
    void on_datagram(const Datagram& datagram) override { intake_.accept(datagram); }
    void on_consumed(const Datagram&, uint32_t) override {}
    Intake& intake_;
  };
  [[nodiscard]] wire::IcrcFlow flow_of(const Datagram& datagram) const;
  [[nodiscard]] bool is_sealed(const Datagram& datagram) {
    return seal_ != nullptr && seal_->is_wanted_from(datagram);
  }
  void pass(const Datagram& datagram, Time now);
  void accept(const Datagram& datagram);
  // Whether what is wrong with it is a tag, for which there is no secret here; counts that.
  [[nodiscard]] bool is_tagged(const Datagram& datagram);
  void filter_ring_packet(const RingPacket& packet, Time now);
  [[nodiscard]] bool is_ours(Qpn qpn) const {
    return slot_of(qpn) == host_.slot() || qpn == kGsiQpn;
  }

  Membership& host_;
  Arrivals& arrivals_;
  const uint16_t port_;
  const bool this_host_only_;
  wire::IcrcSeries icrcs_;
  Seal* seal_ = nullptr;
  ReceiveFilter* filter_ = nullptr;
  Time filter_due_ = kNever;
  Time now_ = 0;
  Inner inner_{*this};
  IntakeCounters counters_;
  std::vector<uint8_t> whole_;    // a packet from a ring, as the filter sees it
  std::vector<uint8_t> message_;  // to QP1, which is read more than once
};

}  // namespace verbena::link
