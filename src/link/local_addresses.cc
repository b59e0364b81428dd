// SPDX-License-Identifier: Apache-2.0
#include "link/local_addresses.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

namespace verbena::link {
namespace {

[[nodiscard]] UniqueFd open_notices() {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  if (!fd.valid()) return fd;
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_LINK;
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    fd.reset();
  return fd;
}

[[nodiscard]] bool is_loopback(const wire::Gid& address) {
  if (address.is_ipv4()) return address.ipv4()[0] == 127;
  wire::Gid loopback;
  loopback.bytes[15] = 1;
  return address == loopback;
}

}  // namespace

// Subscribed first, read second: a change in between is seen twice, never missed.
LocalAddresses::LocalAddresses() : notices_(open_notices()) { refresh(); }

// Where the system refuses (no descriptors), what was known stays: were no address this host's,
// anybody could send in its name.
void LocalAddresses::refresh() {
  last_ = {};
  last_is_local_ = false;  // of the unspecified address
  ifaddrs* list = nullptr;
  outdated_ = ::getifaddrs(&list) != 0;
  if (outdated_) return;
  addresses_.clear();
  for (const ifaddrs* item = list; item != nullptr; item = item->ifa_next) {
    if (item->ifa_addr == nullptr) continue;
    if (item->ifa_addr->sa_family == AF_INET) {
      sockaddr_in in;
      std::memcpy(&in, item->ifa_addr, sizeof in);
      const auto* const b = reinterpret_cast<const uint8_t*>(&in.sin_addr);
      addresses_.push_back(wire::Gid::from_ipv4(b[0], b[1], b[2], b[3]));
    } else if (item->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 in6;
      std::memcpy(&in6, item->ifa_addr, sizeof in6);
      wire::Gid address;
      std::memcpy(address.bytes.data(), &in6.sin6_addr, address.bytes.size());
      addresses_.push_back(address);
    }
  }
  ::freeifaddrs(list);
  std::ranges::sort(addresses_);
}

bool LocalAddresses::look_up(const wire::Gid& address) {
  if (outdated_) refresh();
  last_ = address;
  last_is_local_ = is_loopback(address) || std::ranges::binary_search(addresses_, address);
  return last_is_local_;
}

// The notice is left to on_ready().
bool LocalAddresses::contains_by_now(const wire::Gid& address) {
  if (contains(address)) return true;
  pollfd notice{notices_.get(), POLLIN, 0};
  if (::poll(&notice, 1, 0) != 1) return false;
  refresh();
  return contains(address);
}

void LocalAddresses::on_ready() {
  std::array<uint8_t, 8192> notice;
  // ENOBUFS says that some were lost; the refresh makes up for it.
  while (::recv(notices_.get(), notice.data(), notice.size(), MSG_DONTWAIT) > 0 ||
         errno == ENOBUFS) {}
  refresh();
  ++notices_read_;
}

}  // namespace verbena::link
