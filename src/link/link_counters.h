// SPDX-License-Identifier: Apache-2.0
// What a link counts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/gid.h"
#include "wire/packet.h"

namespace verbena::link {

struct TransmitCounters {
  uint64_t packets = 0;
  uint64_t bytes = 0;
  uint64_t sends = 0;  // datagrams given to the kernel; a GSO batch is one
  uint64_t syscalls = 0;
  uint64_t gso_refused = 0;
  uint64_t would_block = 0;
  uint64_t to_nobody = 0;        // packets not sent: no process of this host has that slot
  uint64_t to_unresponsive = 0;  // packets not sent: their receiver on this host takes nothing
  uint64_t errors = 0;           // sends the kernel refused; the transport will see a loss
  int last_error = 0;
  uint64_t too_large =
      0;  // of errors: more than the interface, or the way as far as the kernel knows, carries
  wire::Gid too_large_to{};      // the last of these,
  uint32_t too_large_bytes = 0;  // without IP and UDP headers
  uint64_t without_ring = 0;     // of errors: only rings may be used, and none leads there
};

struct ReceiveCounters {
  uint64_t datagrams = 0;  // as the kernel delivered them
  uint64_t packets = 0;
  uint64_t bytes = 0;
  uint64_t syscalls = 0;
  uint32_t overflow = 0;  // SO_RXQ_OVFL: dropped by the kernel for want of buffer, of both families
  uint64_t truncated = 0;
};

// What arrived and was not passed on.
struct IntakeCounters {
  uint64_t parse_errors[static_cast<size_t>(wire::ParseError::kCount)] = {};
  uint64_t bad_icrc = 0;
  uint64_t not_this_host = 0;  // from elsewhere, while only this host is served
  uint64_t not_a_member = 0;   // from an address of this host, and no member's port
  uint64_t bad_tag = 0;        // from another host, without the tag that our secret gives
  uint64_t tagged = 0;         // with a tag, while this process has no secret,
  wire::Gid tagged_from{};     // the last from there
  uint64_t bad_records = 0;    // in rings: what no sender of ours writes
};

}  // namespace verbena::link
