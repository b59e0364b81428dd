// SPDX-License-Identifier: Apache-2.0
// The classic BPF program on a reuseport group. It sees the UDP payload and returns the index of
// the socket that gets the packet; an index past the end makes the kernel choose by the flow's
// hash.
//
//   byte 5    top byte of BTH's destination queue pair number: the slot
//   byte 6    for slot 255 the index itself: how members find out where they really are
//   (membership_repair.cc)
//
// For slot 0, which is QP1's, the message of the connection manager says whose it is: the top byte
// of the communication id that its receiver gave. One that is for a service goes to the member that
// a sender on this host has found in the table of ports (ports.h) and named in a field that has no
// meaning here. From elsewhere it goes to any, another one each time, lest one that is stopped
// keeps it for ever; whoever gets it looks into the table.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <linux/filter.h>

#include "link/management.h"

namespace verbena::link {

inline constexpr uint32_t kSlotByte = 5;
inline constexpr uint32_t kProbeIndexByte = 6;
inline constexpr uint32_t kAttributeAt = 12 + 8 + 16;      // BTH, DETH, in the MAD's header
inline constexpr uint32_t kHintByte = 12 + 8 + 6;          // "class specific" in the MAD's header
inline constexpr uint32_t kOwnIdByte = 12 + 8 + 24;        // SIDR_REP: of the request it answers
inline constexpr uint32_t kRemoteIdByte = kOwnIdByte + 4;  // all others that answer
// Where the kernel keeps a random number for such programs.
inline constexpr uint32_t kRandomWord = static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_RANDOM);
inline constexpr uint32_t kAnySocket = 0xffffffff;

// `order[i]` is the slot whose socket has index i. A search tree: 8 comparisons for 254 members.
[[nodiscard]] std::vector<sock_filter> steering_program(std::span<const uint8_t> order,
                                                        const ManagementAttributes& messages);

// Onto the group of this bound socket, in place of the one before. 0 or errno.
[[nodiscard]] int attach_steering(int fd, std::span<const uint8_t> order,
                                  const ManagementAttributes& messages);

}  // namespace verbena::link
