// SPDX-License-Identifier: Apache-2.0
#include "link/udp_link.h"

namespace verbena::link {
UdpLink::UdpLink(Membership& host)
    : host_(host), transmitter_(host.ipv4(), host.ipv6(), host.port(), &host) {}

size_t UdpLink::receive_ready(bool ipv4, bool ipv6, DatagramHandler& handler) {
  constexpr auto kAsk = UdpReceiver::Ask::kBatch;
  may_have_left_ = false;
  size_t got = 0;
  if (ipv4) got += receive_family(host_.ipv4(), Family::kIpv4, ipv4_use_, kAsk, handler);
  if (ipv6) got += receive_family(host_.ipv6(), Family::kIpv6, ipv6_use_, kAsk, handler);
  return got;
}

}  // namespace verbena::link
