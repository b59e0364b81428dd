// SPDX-License-Identifier: Apache-2.0
#include "link/udp_socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include "transport/attributes.h"

namespace verbena::link {
namespace {

constexpr int kUdpNoCheck6Rx = 102;  // not in every libc's headers

[[nodiscard]] bool set(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

[[nodiscard]] bool bind_any(int fd, Family family, uint16_t port) {
  sockaddr_storage address{};
  socklen_t length = 0;
  if (family == Family::kIpv4) {
    auto* const in = reinterpret_cast<sockaddr_in*>(&address);
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    length = sizeof *in;
  } else {
    auto* const in6 = reinterpret_cast<sockaddr_in6*>(&address);
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    length = sizeof *in6;
  }
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0;
}

[[nodiscard]] UniqueFd make_socket(Family family) {
  return UniqueFd(::socket(family == Family::kIpv4 ? AF_INET : AF_INET6,
                           SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

[[nodiscard]] uint32_t receive_buffer_of(int fd) {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  return ::getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &length) == 0 && bytes > 0
             ? static_cast<uint32_t>(bytes)
             : 0;
}

// As much of it as the system gives. Who may administer the network gets more than
// net.core.rmem_max.
[[nodiscard]] bool set_receive_buffer(int fd, uint32_t bytes) {
  const int asked = static_cast<int>(std::min<uint32_t>(bytes, kMostReceiveBuffer));
  if (!set(fd, SOL_SOCKET, SO_RCVBUF, asked)) return false;
  if (receive_buffer_of(fd) < 2 * static_cast<uint32_t>(asked)) {
    (void)set(fd, SOL_SOCKET, SO_RCVBUFFORCE, asked);
  }
  return true;
}

[[nodiscard]] Result<UniqueFd, SocketError> open_receiver(Family family,
                                                          const UdpOptions& options) {
  UniqueFd fd = make_socket(family);
  if (!fd.valid()) return fail(SocketError{"socket", errno});
  const int raw = fd.get();
  if (!set(raw, SOL_SOCKET, SO_REUSEPORT, 1)) return fail(SocketError{"SO_REUSEPORT", errno});
  if (!set_receive_buffer(raw, options.receive_buffer_bytes)) {
    return fail(SocketError{"SO_RCVBUF", errno});
  }
  (void)set(raw, SOL_SOCKET, SO_RXQ_OVFL, 1);
  (void)set(raw, SOL_UDP, kUdpGro, 1);
  if (family == Family::kIpv4) {
    if (!set(raw, IPPROTO_IP, IP_PKTINFO, 1)) return fail(SocketError{"IP_PKTINFO", errno});
    (void)set(raw, IPPROTO_IP, IP_RECVTOS, 1);
    (void)set(raw, IPPROTO_IP, IP_RECVTTL, 1);
  } else {
    if (!set(raw, IPPROTO_IPV6, IPV6_V6ONLY, 1)) return fail(SocketError{"IPV6_V6ONLY", errno});
    if (!set(raw, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)) {
      return fail(SocketError{"IPV6_RECVPKTINFO", errno});
    }
    (void)set(raw, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    (void)set(raw, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
    // RoCE over IPv6 comes with a UDP checksum of zero.
    (void)set(raw, SOL_UDP, kUdpNoCheck6Rx, 1);
  }
  if (!bind_any(raw, family, options.port)) return fail(SocketError{"bind", errno});
  return fd;
}

[[nodiscard]] Result<UniqueFd, SocketError> open_sender(Family family, uint64_t random,
                                                        uint16_t& port) {
  UniqueFd fd = make_socket(family);
  if (!fd.valid()) return fail(SocketError{"socket", errno});
  const int raw = fd.get();
  // With DF, and not connected, the kernel sends IPv4 identification 0, which the ICRC counts on.
  if (family == Family::kIpv4) {
    (void)set(raw, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    (void)set(raw, IPPROTO_IP, IP_TTL, transport::kDefaultHopLimit);
    (void)set(raw, IPPROTO_IP, IP_MULTICAST_TTL, transport::kDefaultHopLimit);
  } else {
    if (!set(raw, IPPROTO_IPV6, IPV6_V6ONLY, 1)) return fail(SocketError{"IPV6_V6ONLY", errno});
    (void)set(raw, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    (void)set(raw, IPPROTO_IPV6, IPV6_UNICAST_HOPS, transport::kDefaultHopLimit);
    (void)set(raw, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, transport::kDefaultHopLimit);
  }
  (void)set(raw, SOL_SOCKET, SO_SNDBUF, 1 << 20);
  for (uint32_t attempt = 0; attempt < 0x4000; ++attempt) {
    port = static_cast<uint16_t>(0xc000 | ((random + attempt) & 0x3fff));
    if (bind_any(raw, family, port)) return fd;
    if (errno != EADDRINUSE) return fail(SocketError{"bind sender", errno});
  }
  return fail(SocketError{"bind sender: no free port in 49152..65535", EADDRINUSE});
}

}  // namespace

Result<UniqueFd, int> claim_port(uint16_t port) {
  UniqueFd fd = make_socket(Family::kIpv4);
  if (!fd.valid()) return fail(errno);
  if (!bind_any(fd.get(), Family::kIpv4, port)) return fail(errno);
  if (!set(fd.get(), SOL_SOCKET, SO_REUSEPORT, 1)) return fail(errno);
  return fd;
}

bool can_share_port(uint16_t port) {
  const UniqueFd fd = make_socket(Family::kIpv4);
  return fd.valid() && set(fd.get(), SOL_SOCKET, SO_REUSEPORT, 1) &&
         bind_any(fd.get(), Family::kIpv4, port);
}

Result<UdpSockets, SocketError> open_udp(Family family, const UdpOptions& options,
                                         uint64_t random) {
  UdpSockets sockets;
  auto receiver = open_receiver(family, options);
  if (!receiver) return fail(receiver.error());
  sockets.receive = std::move(*receiver);
  sockets.receive_buffer = receive_buffer_of(sockets.receive.get());
  auto sender = open_sender(family, random, sockets.source_port);
  if (!sender) return fail(sender.error());
  sockets.send = std::move(*sender);
  int segment = 0;
  socklen_t length = sizeof segment;
  sockets.gso = getsockopt(sockets.send.get(), SOL_UDP, kUdpSegment, &segment, &length) == 0;
  return sockets;
}

}  // namespace verbena::link
