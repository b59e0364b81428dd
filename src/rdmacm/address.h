// SPDX-License-Identifier: Apache-2.0
// IP addresses and ports as programs give them, and as the device has them: a GID is the address.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>

#include <netinet/in.h>
#include <sys/socket.h>

#include "wire/gid.h"

namespace verbena::rdmacm {

// An IPv4 or IPv6 address with its port. AF_IB is not offered: no RoCE program needs it.
class Address {
 public:
  Address() = default;
  // Nothing for what is neither, or no address at all.
  [[nodiscard]] static std::optional<Address> read(const sockaddr* from);
  // IPv4 for a mapped one.
  [[nodiscard]] static Address of(const wire::Gid& gid, uint16_t port);
  [[nodiscard]] static Address wildcard(sa_family_t family);
  [[nodiscard]] static Address loopback(sa_family_t family, uint16_t port);

  [[nodiscard]] sa_family_t family() const { return any_.ss_family; }
  [[nodiscard]] socklen_t length() const {
    return family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  }
  [[nodiscard]] uint16_t port() const;
  void set_port(uint16_t port);
  [[nodiscard]] wire::Gid gid() const;
  [[nodiscard]] bool is_wildcard() const;
  [[nodiscard]] bool is_loopback() const;
  // IPv4 for a mapped one, itself otherwise.
  [[nodiscard]] Address unmapped() const {
    return family() == AF_INET6 && gid().is_ipv4() ? of(gid(), port()) : *this;
  }
  [[nodiscard]] bool is_multicast() const { return gid().is_multicast(); }
  [[nodiscard]] const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&any_); }
  void write(sockaddr_storage& to) const {
    to = {};
    std::memcpy(&to, &any_, length());
  }
  // Of all that is said: family, port, address, scope.
  friend bool operator==(const Address& a, const Address& b) {
    return a.family() == b.family() && std::memcmp(&a.any_, &b.any_, a.length()) == 0;
  }

 private:
  [[nodiscard]] const sockaddr_in& v4() const { return reinterpret_cast<const sockaddr_in&>(any_); }
  [[nodiscard]] const sockaddr_in6& v6() const {
    return reinterpret_cast<const sockaddr_in6&>(any_);
  }

  sockaddr_storage any_{};
};

// Whether a wildcard of this family leaves the other out, unless the program says: the IPv4 one
// does, the other as the system's settings have it (net.ipv6.bindv6only).
[[nodiscard]] bool takes_one_family(sa_family_t family);

// The way to a destination, as the kernel's routes have it.
struct Route {
  Address source;   // its port is 0
  uint8_t mtu = 0;  // as enum ibv_mtu
};
// From `source` if that is given. 0, or an error number.
[[nodiscard]] int find_route(const std::optional<Address>& source, const Address& destination,
                             Route& route);

}  // namespace verbena::rdmacm
