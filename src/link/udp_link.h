// SPDX-License-Identifier: Apache-2.0
// The sockets of this process as a link uses them: two address families, of which a program mostly
// uses one.
//
// Looking at the sockets is inlined, as in HostLink: the processor does not know where calls return
// to that were made before a system call, and each level costs a poll some 20 cycles.
//
// Owned by the engine's lock holder.
#pragma once

#include <algorithm>
#include <cstdint>

#include "link/link.h"
#include "link/membership.h"
#include "link/udp_receiver.h"
#include "link/udp_transmitter.h"

namespace verbena::link {

class UdpLink {
 public:
  explicit UdpLink(Membership& host);

  [[nodiscard]] UdpTransmitter& out() { return transmitter_; }
  [[nodiscard]] const UdpTransmitter& out() const { return transmitter_; }

  // The number of datagrams the kernel delivered.
  [[nodiscard, gnu::always_inline]] size_t receive(Look look, DatagramHandler& handler) {
    const bool all = look == Look::kAll || ++round_ % kOtherFamilyEvery == 0;
    const auto ask = look == Look::kAll ? UdpReceiver::Ask::kBatch : UdpReceiver::Ask::kAsExpected;
    may_have_left_ = false;
    size_t got = 0;
    if (all || is_looked_at(ipv4_use_, ipv6_use_)) {
      got += receive_family(host_.ipv4(), Family::kIpv4, ipv4_use_, ask, handler);
    }
    if (all || is_looked_at(ipv6_use_, ipv4_use_)) {
      got += receive_family(host_.ipv6(), Family::kIpv6, ipv6_use_, ask, handler);
    }
    return got;
  }
  // Of the sockets that are readable.
  [[nodiscard]] size_t receive_ready(bool ipv4, bool ipv6, DatagramHandler& handler);
  // Whether the last of these may have left something.
  [[nodiscard]] bool may_have_left() const { return may_have_left_; }
  [[nodiscard]] bool expects_more() const { return receiver_.reads_large(); }
  void note_family(bool ipv4) { (ipv4 ? ipv4_use_ : ipv6_use_).wanted = true; }
  [[nodiscard]] const ReceiveCounters& receive_counters() const { return receiver_.counters(); }
  [[nodiscard]] ReceiveCounters& receive_counters() { return receiver_.counters(); }

 private:
  // How often a caller in a hurry looks at the other address family's socket.
  static constexpr uint32_t kOtherFamilyEvery = 16;
  // A program may want both address families and talk over one: to look at the other each time is
  // half of the cost of a poll.
  struct FamilyUse {
    static constexpr uint32_t kQuiet = 256;
    bool wanted = false;
    uint32_t empty_looks = 0;  // in a row, up to kQuiet
  };
  [[nodiscard]] static bool is_looked_at(const FamilyUse& use, const FamilyUse& other) {
    return use.wanted && (use.empty_looks < FamilyUse::kQuiet || !other.wanted ||
                          other.empty_looks >= FamilyUse::kQuiet);
  }
  [[nodiscard, gnu::always_inline]] size_t receive_family(const UdpSockets* sockets, Family family,
                                                          FamilyUse& use, UdpReceiver::Ask ask,
                                                          DatagramHandler& handler) {
    if (sockets == nullptr) return 0;
    const size_t got = receiver_.receive(sockets->receive.get(), family, handler, ask);
    may_have_left_ = may_have_left_ || receiver_.may_have_left();
    use.empty_looks = got != 0 ? 0 : std::min(use.empty_looks + 1, FamilyUse::kQuiet);
    return got;
  }

  Membership& host_;
  UdpTransmitter transmitter_;
  UdpReceiver receiver_;
  FamilyUse ipv4_use_;
  FamilyUse ipv6_use_;
  uint32_t round_ = 0;
  bool may_have_left_ = false;
};

}  // namespace verbena::link
