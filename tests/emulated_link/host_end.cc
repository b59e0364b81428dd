// SPDX-License-Identifier: Apache-2.0
#include "emulated_link/host_end.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>

namespace verbena::emulated {
namespace {

// What the kernel keeps for us while we are not running: 10 ms of 10 Gbit/s in packets of 1500.
constexpr int kTunQueuePackets = 10'000;
constexpr uint32_t kIpv6Prefix = 64;

[[nodiscard]] ifreq request_for(const char* interface) {
  ifreq request{};
  std::strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
  return request;
}

[[nodiscard]] bool bring_up(int fd, const char* interface) {
  ifreq request = request_for(interface);
  if (::ioctl(fd, SIOCGIFFLAGS, &request) != 0) return false;
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP | IFF_RUNNING);
  return ::ioctl(fd, SIOCSIFFLAGS, &request) == 0;
}

[[nodiscard]] bool set_number(int fd, unsigned long call, int value) {
  ifreq request = request_for(kInterface);
  // The MTU and the length of the queue have the same place in the request.
  request.ifr_mtu = value;
  return ::ioctl(fd, call, &request) == 0;
}

[[nodiscard]] bool set_ipv4(int fd, unsigned long call, const char* address) {
  ifreq request = request_for(kInterface);
  sockaddr_in in{};
  in.sin_family = AF_INET;
  ::inet_pton(AF_INET, address, &in.sin_addr);
  std::memcpy(&request.ifr_addr, &in, sizeof in);
  return ::ioctl(fd, call, &request) == 0;
}

// The kernel makes an address usable a moment after it was set, in a thread of its own.
[[nodiscard]] bool wait_until_usable(int fd, const in6_addr& address) {
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_addr = address;
  for (int attempts = 5'000; attempts > 0; --attempts) {
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&in6), sizeof in6) == 0) return true;
    if (errno != EADDRNOTAVAIL) return false;
    ::usleep(1'000);
  }
  return false;
}

// True also where the kernel has no IPv6.
[[nodiscard]] bool set_ipv6(int ipv4_fd, const char* address) {
  const UniqueFd fd(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno == EAFNOSUPPORT;
  ifreq index = request_for(kInterface);
  if (::ioctl(ipv4_fd, SIOCGIFINDEX, &index) != 0) return false;
  in6_ifreq request{};
  request.ifr6_ifindex = index.ifr_ifindex;
  request.ifr6_prefixlen = kIpv6Prefix;
  ::inet_pton(AF_INET6, address, &request.ifr6_addr);
  return ::ioctl(fd.get(), SIOCSIFADDR, &request) == 0 &&
         wait_until_usable(fd.get(), request.ifr6_addr);
}

[[nodiscard]] UniqueFd make_tun() {
  UniqueFd fd(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) return fd;
  ifreq request = request_for(kInterface);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (::ioctl(fd.get(), TUNSETIFF, &request) != 0) fd.reset();
  return fd;
}

[[nodiscard]] bool set_up_interfaces(uint32_t number, uint32_t mtu_bytes) {
  const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // Refused in a user namespace, where it stays at 500.
  (void)set_number(fd.get(), SIOCSIFTXQLEN, kTunQueuePackets);
  return fd.valid() && bring_up(fd.get(), "lo") &&
         set_number(fd.get(), SIOCSIFMTU, static_cast<int>(mtu_bytes)) &&
         set_ipv4(fd.get(), SIOCSIFADDR, kIpv4Addresses[number]) &&
         set_ipv4(fd.get(), SIOCSIFNETMASK, "255.255.255.0") && bring_up(fd.get(), kInterface) &&
         set_ipv6(fd.get(), kIpv6Addresses[number]);
}

}  // namespace

bool make_host_end(uint32_t number, uint32_t mtu_bytes, HostEnd& end, std::string& why) {
  const auto refused = [&why](const char* what) {
    why = std::string(what) + ": " + std::strerror(errno);
    return false;
  };
  if (::unshare(CLONE_NEWNET) != 0) return refused("a network namespace");
  end.space.reset(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!end.space.valid()) return refused("/proc/self/ns/net");
  end.tun = make_tun();
  if (!end.tun.valid()) return refused("/dev/net/tun");
  if (!set_up_interfaces(number, mtu_bytes)) return refused("addresses of the TUN device");
  return true;
}

uint64_t dropped_before(const HostEnd& end) {
  constexpr int kDroppedField = 11;  // of a line of /proc/net/dev, behind the name
  if (::setns(end.space.get(), CLONE_NEWNET) != 0) return 0;
  std::ifstream table("/proc/self/net/dev");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    if (name != std::string(kInterface) + ':') continue;
    uint64_t value = 0;
    for (int i = 0; i <= kDroppedField; ++i) fields >> value;
    return value;
  }
  return 0;
}

}  // namespace verbena::emulated
