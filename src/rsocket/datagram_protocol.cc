// SPDX-License-Identifier: Apache-2.0
#include "rsocket/datagram_protocol.h"

#include <algorithm>
#include <cstring>

#include "base/endian.h"

namespace verbena::rsocket {
namespace {

using rdmacm::Address;

constexpr uint32_t kTag = 0x55555555;
constexpr uint32_t kIpv4Header = 8;
constexpr uint32_t kIpv6Header = 24;
constexpr uint32_t kIpv4UdpHeader = 16;
constexpr uint32_t kIpv6UdpHeader = 28;
constexpr uint32_t kQpnBits = 0xffffff;

[[nodiscard]] bool is_ipv4(const Address& address) { return address.family() == AF_INET; }

[[nodiscard]] const sockaddr_in& ipv4(const Address& address) {
  return *reinterpret_cast<const sockaddr_in*>(address.raw());
}
[[nodiscard]] const sockaddr_in6& ipv6(const Address& address) {
  return *reinterpret_cast<const sockaddr_in6*>(address.raw());
}

}  // namespace

HeaderBytes datagram_header(const Address& from) {
  HeaderBytes header;
  store_be16(&header.bytes[2], from.port());
  if (is_ipv4(from)) {
    header.bytes[0] = 4;
    header.length = kIpv4Header;
    std::memcpy(&header.bytes[4], &ipv4(from).sin_addr, 4);
  } else {
    header.bytes[0] = 6;
    header.length = kIpv6Header;
    std::memcpy(&header.bytes[4], &ipv6(from).sin6_flowinfo, 4);
    std::memcpy(&header.bytes[8], &ipv6(from).sin6_addr, 16);
  }
  header.bytes[1] = static_cast<uint8_t>(header.length);
  return header;
}

std::optional<ReadDatagram> read_datagram(std::span<const uint8_t> message) {
  if (message.size() < kIpv4Header) return std::nullopt;
  const uint32_t length = message[0] == 4 ? kIpv4Header : kIpv6Header;
  if ((message[0] != 4 && message[0] != 6) || message[1] != length || message.size() < length) {
    return std::nullopt;
  }
  sockaddr_storage from{};
  if (message[0] == 4) {
    auto& to = reinterpret_cast<sockaddr_in&>(from);
    to.sin_family = AF_INET;
    std::memcpy(&to.sin_port, &message[2], 2);
    std::memcpy(&to.sin_addr, &message[4], 4);
  } else {
    auto& to = reinterpret_cast<sockaddr_in6&>(from);
    to.sin6_family = AF_INET6;
    std::memcpy(&to.sin6_port, &message[2], 2);
    std::memcpy(&to.sin6_flowinfo, &message[4], 4);
    std::memcpy(&to.sin6_addr, &message[8], 16);
  }
  const auto read = Address::read(reinterpret_cast<const sockaddr*>(&from));
  if (!read) return std::nullopt;
  return ReadDatagram{.from = read->unmapped(), .payload = message.subspan(length)};
}

HeaderBytes udp_header(UdpOp op, uint32_t qpn, const Address& from) {
  HeaderBytes header;
  store_be32(&header.bytes[0], kTag);
  header.bytes[5] = static_cast<uint8_t>(op);
  store_be32(&header.bytes[8], qpn & kQpnBits);
  if (is_ipv4(from)) {
    header.bytes[4] = 4;
    header.length = kIpv4UdpHeader;
    std::memcpy(&header.bytes[12], &ipv4(from).sin_addr, 4);
  } else {
    header.bytes[4] = 6;
    header.length = kIpv6UdpHeader;
    std::memcpy(&header.bytes[12], &ipv6(from).sin6_addr, 16);
  }
  header.bytes[6] = static_cast<uint8_t>(header.length);
  return header;
}

std::optional<UdpMessage> read_udp(std::span<const uint8_t> message) {
  if (message.size() < kIpv4UdpHeader || load_be32(&message[0]) != kTag) return std::nullopt;
  const uint32_t length = message[4] == 4 ? kIpv4UdpHeader : kIpv6UdpHeader;
  if ((message[4] != 4 && message[4] != 6) || message[6] != length || message.size() < length) {
    return std::nullopt;
  }
  const auto op = static_cast<UdpOp>(message[5]);
  if (op != UdpOp::kData && op != UdpOp::kAnswer) return std::nullopt;
  return UdpMessage{
      .op = op, .qpn = load_be32(&message[8]) & kQpnBits, .payload = message.subspan(length)};
}

bool came_from(std::span<const uint8_t, 40> grh, const Address& from) {
  wire::Gid sender{};
  if (grh[0] >> 4 == 6) {
    std::copy_n(&grh[8], 16, sender.bytes.begin());
  } else {
    sender.bytes[10] = sender.bytes[11] = 0xff;
    std::copy_n(&grh[32], 4, &sender.bytes[12]);
  }
  return sender == from.gid();
}

}  // namespace verbena::rsocket
