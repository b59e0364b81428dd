// SPDX-License-Identifier: Apache-2.0
#include "attacker.h"

#include <cerrno>
#include <cstring>

#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>

namespace verbena::device::testing {
namespace {

constexpr size_t kMaxBatchBytes = 60'000;
constexpr size_t kMaxSegments = 32;
constexpr int kMostWaits = 100;

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

[[nodiscard]] Address address_of(const wire::Gid& gid, uint16_t port) {
  Address address;
  if (gid.is_ipv4()) {
    auto* const in = reinterpret_cast<sockaddr_in*>(&address.storage);
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    std::memcpy(&in->sin_addr, gid.ipv4(), 4);
    address.length = sizeof *in;
  } else {
    auto* const in6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    std::memcpy(&in6->sin6_addr, gid.bytes.data(), 16);
    address.length = sizeof *in6;
  }
  return address;
}

}  // namespace

Attacker::Attacker(const link::UdpSockets& sockets, const wire::Gid& source,
                   const wire::Gid& destination, uint16_t port)
    : flow_{.source = source,
            .destination = destination,
            .source_port = sockets.source_port,
            .destination_port = port},
      fd_(sockets.send.get()) {}

void Attacker::sign(std::vector<uint8_t>& packet) const {
  const uint32_t icrc = wire::icrc(flow_, packet);
  packet.resize(packet.size() + wire::kIcrcBytes);
  wire::store_icrc(packet.data() + packet.size() - wire::kIcrcBytes, icrc);
}

void Attacker::add(std::span<const uint8_t> packet) {
  if (!batch_.empty() && (packet.size() != each_ || batch_.size() + each_ > kMaxBatchBytes ||
                          batch_.size() == kMaxSegments * each_)) {
    flush();
  }
  each_ = packet.size();
  batch_.insert(batch_.end(), packet.begin(), packet.end());
}

void Attacker::flush() {
  if (batch_.empty()) return;
  const Address to = address_of(flow_.destination, flow_.destination_port);
  iovec piece{batch_.data(), batch_.size()};
  alignas(cmsghdr) std::array<uint8_t, 128> control{};
  msghdr message{};
  message.msg_name = const_cast<sockaddr_storage*>(&to.storage);
  message.msg_namelen = to.length;
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* item = CMSG_FIRSTHDR(&message);
  size_t used = 0;
  const auto tell = [&](int level, int type, const auto& value) {
    item->cmsg_level = level;
    item->cmsg_type = type;
    item->cmsg_len = CMSG_LEN(sizeof value);
    std::memcpy(CMSG_DATA(item), &value, sizeof value);
    used += CMSG_SPACE(sizeof value);
    item = CMSG_NXTHDR(&message, item);
  };
  if (flow_.source.is_ipv4()) {
    in_pktinfo info{};
    std::memcpy(&info.ipi_spec_dst, flow_.source.ipv4(), 4);
    tell(IPPROTO_IP, IP_PKTINFO, info);
  } else {
    in6_pktinfo info{};
    std::memcpy(&info.ipi6_addr, flow_.source.bytes.data(), 16);
    tell(IPPROTO_IPV6, IPV6_PKTINFO, info);
  }
  if (batch_.size() > each_) tell(SOL_UDP, link::kUdpSegment, static_cast<uint16_t>(each_));
  message.msg_controllen = used;
  ssize_t left = -1;
  // The socket does not wait by itself.
  for (int i = 0; i < kMostWaits && left < 0; ++i) {
    left = ::sendmsg(fd_, &message, 0);
    if (left >= 0 || errno != EAGAIN) break;
    pollfd writable{fd_, POLLOUT, 0};
    (void)::poll(&writable, 1, 100);
  }
  if (left > 0) sent_ += batch_.size() / each_;
  batch_.clear();
}

Qpn stranger(Qpn known, RandomSource& random) {
  for (;;) {
    const Qpn qpn((known.value & 0xff0000) | static_cast<uint32_t>(random.below(0x10000)));
    // Neighbours in the test's few queue pairs are drawn as seldom as one in thirty thousand.
    if (qpn != known) return qpn;
  }
}

}  // namespace verbena::device::testing
