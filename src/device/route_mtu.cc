// SPDX-License-Identifier: Apache-2.0
#include "device/route_mtu.h"

#include <cstring>

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/unique_fd.h"

namespace verbena::device {

uint32_t route_mtu(const wire::Gid& destination) {
  const bool ipv4 = destination.is_ipv4();
  const UniqueFd fd(::socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return 0;
  // Of a datagram socket this sends nothing. The port does not matter.
  constexpr uint16_t kAnyPort = 9;
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(kAnyPort);
  std::memcpy(&in.sin_addr, destination.ipv4(), 4);
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(kAnyPort);
  std::memcpy(&in6.sin6_addr, destination.bytes.data(), 16);
  const auto* const to =
      ipv4 ? reinterpret_cast<const sockaddr*>(&in) : reinterpret_cast<const sockaddr*>(&in6);
  if (::connect(fd.get(), to, ipv4 ? sizeof in : sizeof in6) != 0) return 0;
  int bytes = 0;
  socklen_t length = sizeof bytes;
  const int known = ipv4 ? ::getsockopt(fd.get(), IPPROTO_IP, IP_MTU, &bytes, &length)
                         : ::getsockopt(fd.get(), IPPROTO_IPV6, IPV6_MTU, &bytes, &length);
  return known == 0 && bytes > 0 ? static_cast<uint32_t>(bytes) : 0;
}

}  // namespace verbena::device
