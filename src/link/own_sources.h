// SPDX-License-Identifier: Apache-2.0
// Packets that come from outside and claim an address of this host as their source. IPv4 drops them
// as martians, IPv6 does not: the port alone, which can be guessed, would make them a member's, and
// no tag would be asked for (seal.h). Where a packet came in is seen by a socket's filter only:
// what the kernel tells with a packet is the interface that its address belongs to.
#pragma once

#include <span>
#include <vector>

#include <linux/filter.h>

#include "wire/gid.h"

namespace verbena::link {

// Of the first so many addresses; a filter has its bounds.
inline constexpr size_t kMostOwnSources = 128;
[[nodiscard]] std::vector<sock_filter> own_source_program(std::span<const wire::Gid> own);
// For a receiving socket of IPv6, again when the addresses have changed. Where the system has no
// filters packets are taken as before.
void drop_own_sources(int fd, std::span<const wire::Gid> own);

}  // namespace verbena::link
