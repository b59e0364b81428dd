// SPDX-License-Identifier: Apache-2.0
// One of the two hosts: a network namespace with a TUN device, whose packets this process reads and
// writes.
#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace verbena::emulated {

// Of host 0 and 1: the ranges that are for benchmarks (RFC 2544, RFC 5180).
inline constexpr const char* kIpv4Addresses[] = {"198.18.0.1", "198.18.0.2"};
inline constexpr const char* kIpv6Addresses[] = {"2001:2::1", "2001:2::2"};
inline constexpr const char* kInterface = "wire0";

struct HostEnd {
  UniqueFd space;  // the network namespace
  UniqueFd tun;    // a packet for each read or write, without anything before it; does not block
};

// Moves this process into a new network namespace, and makes the end there. On failure it says why,
// and nothing else was changed that matters: what is refused to us is refused for good.
[[nodiscard]] bool make_host_end(uint32_t number, uint32_t mtu_bytes, HostEnd& end,
                                 std::string& why);
// Packets that the kernel dropped because they were not read from the device in time.
[[nodiscard]] uint64_t dropped_before(const HostEnd& end);

}  // namespace verbena::emulated
