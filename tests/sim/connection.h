// SPDX-License-Identifier: Apache-2.0
// Takes queue pairs through their states, as a connection manager would.
#pragma once

#include <cstdint>

#include "sim/world.h"
#include "transport/attributes.h"

namespace verbena::sim {

struct End {
  uint32_t host = 0;
  Qpn qpn;
};

// What both ends of a connection agree on, and what each may ask of the other.
struct Terms {
  transport::Mtu mtu = transport::Mtu::k1024;
  uint8_t timeout = 14;
  uint8_t retry_count = 7;
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 1;
  uint8_t max_rd_atomic = 4;       // towards the peer
  uint8_t max_dest_rd_atomic = 4;  // from the peer
  uint32_t access = memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic;
  uint32_t qkey = 0;
  uint16_t source_port = 0xc000;
  bool may_be_marked = false;  // by routers (ECN): the program's choice
  wire::Psn send_psn;
  wire::Psn recv_psn;
};

// RESET to RTS. `peer` is not looked at for UD.
void connect(World& world, const End& end, transport::QpType type, const End& peer,
             const Terms& terms);
// To ERR, RESET, SQD (with notice) or RTS (from SQD or SQE).
void move_to(World& world, const End& end, transport::QpState state);

}  // namespace verbena::sim
