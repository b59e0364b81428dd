// SPDX-License-Identifier: Apache-2.0
// Multicast groups as IP addresses. A group that is an IPv6 address cannot be reached from an IPv4
// one, nor from ::1 (the kernel has no IPv6 multicast on loopback), but programs name such groups
// whatever address they have: perftest's is ff01::.... So each of them has an IPv4 group as well:
// 239.x.y.z, where x.y.z are a hash of it. Who attaches to the one hears both; who sends to it from
// such an address sends to the other.
#pragma once

#include <cstdint>
#include <vector>

#include "wire/gid.h"

namespace verbena::device {

// FNV-1a, folded to 24 bits. Two groups in sixteen million share one: their Q_Keys tell them apart.
[[nodiscard]] constexpr wire::Gid ipv4_group_of(const wire::Gid& group) {
  uint32_t hash = 0x811c9dc5;
  for (const uint8_t byte : group.bytes) hash = (hash ^ byte) * 0x01000193;
  hash = (hash >> 24) ^ (hash & 0xffffff);
  return wire::Gid::from_ipv4(239, static_cast<uint8_t>(hash >> 16),
                              static_cast<uint8_t>(hash >> 8), static_cast<uint8_t>(hash));
}

// The addresses at which a member of the group listens.
[[nodiscard]] inline std::vector<wire::Gid> addresses_of_group(const wire::Gid& group) {
  if (group.is_ipv4() || !group.is_multicast()) return {group};
  return {group, ipv4_group_of(group)};
}

}  // namespace verbena::device
