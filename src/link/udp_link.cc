// SPDX-License-Identifier: Apache-2.0
#include "link/udp_link.h"

#include <algorithm>

namespace verbena::link {
namespace {

// How often a caller in a hurry looks at the other address family's socket.
constexpr uint32_t kOtherFamilyEvery = 16;

}  // namespace

UdpLink::UdpLink(Membership& host)
    : host_(host), transmitter_(host.ipv4(), host.ipv6(), host.port(), &host) {}

size_t UdpLink::receive(Look look, DatagramHandler& handler) {
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

size_t UdpLink::receive_ready(bool ipv4, bool ipv6, DatagramHandler& handler) {
  constexpr auto kAsk = UdpReceiver::Ask::kBatch;
  may_have_left_ = false;
  size_t got = 0;
  if (ipv4) got += receive_family(host_.ipv4(), Family::kIpv4, ipv4_use_, kAsk, handler);
  if (ipv6) got += receive_family(host_.ipv6(), Family::kIpv6, ipv6_use_, kAsk, handler);
  return got;
}

size_t UdpLink::receive_family(const UdpSockets* sockets, Family family, FamilyUse& use,
                               UdpReceiver::Ask ask, DatagramHandler& handler) {
  if (sockets == nullptr) return 0;
  const size_t got = receiver_.receive(sockets->receive.get(), family, handler, ask);
  may_have_left_ = may_have_left_ || receiver_.may_have_left();
  use.empty_looks = got != 0 ? 0 : std::min(use.empty_looks + 1, FamilyUse::kQuiet);
  return got;
}

}  // namespace verbena::link
