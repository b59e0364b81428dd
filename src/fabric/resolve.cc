// SPDX-License-Identifier: Apache-2.0
#include "fabric/resolve.h"

#include <cstring>

#include <fmt/format.h>
#include <netdb.h>

namespace verbena::fabric {

Result<sockaddr_storage> resolve(const Endpoint& endpoint, bool passive) {
  addrinfo hints{};
  hints.ai_flags = (passive ? AI_PASSIVE : 0) | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  const int error = getaddrinfo(endpoint.host.empty() ? nullptr : endpoint.host.c_str(),
                                port.c_str(), &hints, &found);
  if (error != 0) return fail(fmt::format("{}: {}", endpoint.host, gai_strerror(error)));
  // Any address: of IPv6 and IPv4, where the host has both.
  const addrinfo* chosen = found;
  for (const addrinfo* one = found; passive && endpoint.host.empty() && one != nullptr;
       one = one->ai_next) {
    if (one->ai_family == AF_INET6) chosen = one;
  }
  sockaddr_storage address{};
  std::memcpy(&address, chosen->ai_addr, chosen->ai_addrlen);
  freeaddrinfo(found);
  return address;
}

}  // namespace verbena::fabric
