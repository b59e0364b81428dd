// SPDX-License-Identifier: Apache-2.0
#include "attacker.h"

#include <cstring>

#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>

#include "control.h"

namespace verbena::device::testing {
namespace {

constexpr int kUdpSegment = 103;
constexpr size_t kMaxBatchBytes = 60'000;
constexpr size_t kMaxSegments = 32;

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

Attacker::Attacker(const wire::Gid& source, const wire::Gid& destination, uint16_t port)
    : flow_{.source = source, .destination = destination, .destination_port = port},
      fd_(::socket(source.is_ipv4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  Address own = address_of(source, 0);
  if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&own.storage), own.length) != 0) {
    throw Broken("the attacker has no socket");
  }
  (void)::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&own.storage), &own.length);
  flow_.source_port = ntohs(reinterpret_cast<const sockaddr_in*>(&own.storage)->sin_port);
}

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
  alignas(cmsghdr) std::array<uint8_t, CMSG_SPACE(sizeof(uint16_t))> control{};
  msghdr message{};
  message.msg_name = const_cast<sockaddr_storage*>(&to.storage);
  message.msg_namelen = to.length;
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (batch_.size() > each_) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_UDP;
    item->cmsg_type = kUdpSegment;
    item->cmsg_len = CMSG_LEN(sizeof(uint16_t));
    const auto segment = static_cast<uint16_t>(each_);
    std::memcpy(CMSG_DATA(item), &segment, sizeof segment);
  }
  if (::sendmsg(fd_.get(), &message, 0) > 0) sent_ += batch_.size() / each_;
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
