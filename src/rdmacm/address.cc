// SPDX-License-Identifier: Apache-2.0
#include "rdmacm/address.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include <arpa/inet.h>

#include "base/unique_fd.h"

namespace verbena::rdmacm {

std::optional<Address> Address::read(const sockaddr* from) {
  if (from == nullptr) return std::nullopt;
  Address address;
  switch (from->sa_family) {
    case AF_INET: {
      sockaddr_in given;
      std::memcpy(&given, from, sizeof given);
      auto& to = reinterpret_cast<sockaddr_in&>(address.any_);
      to.sin_family = AF_INET;
      to.sin_port = given.sin_port;
      to.sin_addr = given.sin_addr;
      return address;
    }
    case AF_INET6: std::memcpy(&address.any_, from, sizeof(sockaddr_in6)); return address;
    default:       return std::nullopt;
  }
}

Address Address::of(const wire::Gid& gid, uint16_t port) {
  Address address;
  if (gid.is_ipv4()) {
    auto& to = reinterpret_cast<sockaddr_in&>(address.any_);
    to.sin_family = AF_INET;
    std::memcpy(&to.sin_addr, gid.ipv4(), 4);
  } else {
    auto& to = reinterpret_cast<sockaddr_in6&>(address.any_);
    to.sin6_family = AF_INET6;
    std::memcpy(&to.sin6_addr, gid.bytes.data(), 16);
  }
  address.set_port(port);
  return address;
}

Address Address::wildcard(sa_family_t family) {
  Address address;
  address.any_.ss_family = family;
  return address;
}

Address Address::loopback(sa_family_t family, uint16_t port) {
  if (family == AF_INET) return of(wire::Gid::from_ipv4(127, 0, 0, 1), port);
  wire::Gid one;
  one.bytes[15] = 1;
  return of(one, port);
}

uint16_t Address::port() const {
  return ntohs(family() == AF_INET ? v4().sin_port : v6().sin6_port);
}

void Address::set_port(uint16_t port) {
  // At the same place in both.
  reinterpret_cast<sockaddr_in&>(any_).sin_port = htons(port);
}
static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));

wire::Gid Address::gid() const {
  wire::Gid gid;
  if (family() == AF_INET) {
    gid = wire::Gid::from_ipv4(0, 0, 0, 0);
    std::memcpy(gid.bytes.data() + 12, &v4().sin_addr, 4);
  } else {
    std::memcpy(gid.bytes.data(), &v6().sin6_addr, 16);
  }
  return gid;
}

bool Address::is_wildcard() const {
  return family() == AF_INET ? v4().sin_addr.s_addr == INADDR_ANY : gid().is_zero();
}

bool Address::is_loopback() const {
  if (family() == AF_INET) return gid().ipv4()[0] == IN_LOOPBACKNET;
  return gid() == loopback(AF_INET6, 0).gid();
}

bool takes_one_family(sa_family_t family) {
  if (family == AF_INET) return true;
  const UniqueFd fd(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  int only = 0;
  socklen_t length = sizeof only;
  return fd.valid() && ::getsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, &length) == 0 &&
         only != 0;
}

namespace {

// IP, UDP, BTH, the longest of the extended headers, ICRC, and something to spare.
constexpr int kAroundPayload = 128;

[[nodiscard]] uint8_t mtu_for(int path_bytes) {
  constexpr uint8_t kLeast = 1;  // 256
  uint8_t mtu = 5;               // 4096
  while (mtu > kLeast && (128 << mtu) + kAroundPayload > path_bytes) --mtu;
  return mtu;
}

[[nodiscard]] int path_mtu(int fd, sa_family_t family) {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  const bool v4 = family == AF_INET;
  const int told =
      ::getsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &bytes, &length);
  return told == 0 ? bytes : 1500;
}

}  // namespace

int find_route(const std::optional<Address>& source, const Address& destination, Route& route) {
  const UniqueFd fd(::socket(destination.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno;
  Address to = destination;
  if (to.port() == 0) to.set_port(9);  // no packet leaves
  if (source) {
    Address from = *source;
    from.set_port(0);
    if (::bind(fd.get(), from.raw(), from.length()) != 0) return errno;
  }
  if (::connect(fd.get(), to.raw(), to.length()) != 0) {
    // A group needs no route from an address that was named.
    if (!source || !destination.is_multicast()) return errno;
    route = {*source, mtu_for(1500)};
    route.source.set_port(0);
    return 0;
  }
  sockaddr_storage found{};
  socklen_t length = sizeof found;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&found), &length) != 0) return errno;
  const auto from = Address::read(reinterpret_cast<const sockaddr*>(&found));
  if (!from) return EAFNOSUPPORT;
  route = {*from, mtu_for(path_mtu(fd.get(), destination.family()))};
  route.source.set_port(0);
  return 0;
}

}  // namespace verbena::rdmacm
