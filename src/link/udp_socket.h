// SPDX-License-Identifier: Apache-2.0
// The two UDP sockets of one address family: one that receives on the RoCE port, shared with the
// other processes of this user by SO_REUSEPORT, and one that sends, from a port of its own. The
// sender's port tells receivers on this host which process a packet came from; towards other hosts
// it is the flow's entropy.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace verbena::link {

// Not in every libc's headers.
inline constexpr int kUdpSegment = 103;
inline constexpr int kUdpGro = 104;

enum class Family : uint8_t { kIpv4, kIpv6 };

struct SocketError {
  std::string step;  // what was being done
  int code = 0;      // errno
};

struct UdpSockets {
  UniqueFd receive;
  UniqueFd send;
  uint32_t receive_buffer = 0;  // as getsockopt(SO_RCVBUF) says: twice what was given
  uint16_t source_port = 0;
  bool gso = false;  // UDP_SEGMENT is known to this kernel
};

// What an ordinary process gets on every system.
inline constexpr uint32_t kCommonReceiveBuffer = 212'992;
// What is asked for: about what 1 Gbit/s sends in 60 ms, while the thread that reads is off its
// core or a window arrives at once. Only what lies there takes memory.
inline constexpr uint32_t kWantedReceiveBuffer = 8 << 20;

inline constexpr uint32_t kMostReceiveBuffer = 1 << 30;

struct UdpOptions {
  uint16_t port = 4791;
  // As SO_RCVBUF takes it; the system may give less (net.core.rmem_max).
  uint32_t receive_buffer_bytes = kWantedReceiveBuffer;
};

// `random` seeds the search for a free source port in 0xc000..0xffff.
[[nodiscard]] Result<UdpSockets, SocketError> open_udp(Family family, const UdpOptions& options,
                                                       uint64_t random);

// Holds the port over IPv4, if nobody has it: two that ask at once do not both get it. Sockets of
// the same user may then share it (open_udp). The error is errno.
[[nodiscard]] Result<UniqueFd, int> claim_port(uint16_t port);
// Whether a port that somebody has can be shared by this user.
[[nodiscard]] bool can_share_port(uint16_t port);

// What the receive socket dropped because its buffer was full, as last reported by the kernel, is
// in the SO_RXQ_OVFL control message of each datagram (udp_receiver.h).

}  // namespace verbena::link
