// SPDX-License-Identifier: Apache-2.0
#include "link/multicast_groups.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace verbena::link {
namespace {

[[nodiscard]] int domain_of(const wire::Gid& group) { return group.is_ipv4() ? AF_INET : AF_INET6; }

// Those that are up and have an address of the family.
[[nodiscard]] std::vector<uint32_t> interfaces_of(int domain) {
  std::vector<uint32_t> indices;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return indices;
  for (const ifaddrs* item = list; item != nullptr; item = item->ifa_next) {
    if (item->ifa_addr == nullptr || item->ifa_addr->sa_family != domain) continue;
    if ((item->ifa_flags & IFF_UP) == 0) continue;
    const uint32_t index = ::if_nametoindex(item->ifa_name);
    if (index != 0 && std::ranges::find(indices, index) == indices.end()) indices.push_back(index);
  }
  ::freeifaddrs(list);
  return indices;
}

// 0 or errno; 0 also when it is a member already.
[[nodiscard]] int join_on(int fd, const wire::Gid& group, uint32_t interface) {
  int status = 0;
  if (group.is_ipv4()) {
    ip_mreqn request{};
    std::memcpy(&request.imr_multiaddr, group.ipv4(), 4);
    request.imr_ifindex = static_cast<int>(interface);
    status = ::setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request);
  } else {
    ipv6_mreq request{};
    std::memcpy(&request.ipv6mr_multiaddr, group.bytes.data(), group.bytes.size());
    request.ipv6mr_interface = interface;
    status = ::setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &request, sizeof request);
  }
  return status == 0 || errno == EADDRINUSE ? 0 : errno;
}

}  // namespace

int MulticastGroups::join(const wire::Gid& group) {
  const auto place = groups_.find(group);
  if (place != groups_.end()) {
    ++place->second.users;
    return 0;
  }
  Held held{.users = 1, .sockets = {}};
  if (const int error = join_everywhere(group, held.sockets); error != 0) return error;
  groups_.emplace(group, std::move(held));
  return 0;
}

void MulticastGroups::leave(const wire::Gid& group) {
  const auto place = groups_.find(group);
  if (place != groups_.end() && --place->second.users == 0) groups_.erase(place);
}

void MulticastGroups::on_addresses_changed() {
  for (auto& [group, held] : groups_) (void)join_everywhere(group, held.sockets);
}

// Enough if one interface has it: one may have gone since it was listed, or know no groups.
int MulticastGroups::join_everywhere(const wire::Gid& group, std::vector<UniqueFd>& sockets) {
  const int domain = domain_of(group);
  int error = ENODEV;
  bool joined = false;
  const auto add_socket = [&] {
    UniqueFd fd(::socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd.valid()) return errno;
    sockets.push_back(std::move(fd));
    return 0;
  };
  for (const uint32_t interface : interfaces_of(domain)) {
    if (sockets.empty()) error = add_socket();
    if (sockets.empty()) return error;
    error = join_on(sockets.back().get(), group, interface);
    // The socket has as many as it may have.
    if (error == ENOBUFS && add_socket() == 0) {
      error = join_on(sockets.back().get(), group, interface);
    }
    joined = joined || error == 0;
  }
  return joined ? 0 : error;
}

}  // namespace verbena::link
