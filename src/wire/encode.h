// SPDX-License-Identifier: Apache-2.0
// A packet as values rather than bytes: every header in host order. decode() takes them out of a
// view, encode() makes bytes of them again, and the two are inverse; that is how the golden
// captures prove both. The data path does not come here: it writes headers where they go.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "wire/headers.h"
#include "wire/packet.h"

namespace verbena::wire {

// Which of the extension headers hold, opcode_info(bth.opcode) says.
struct Headers {
  Bth bth;
  Rdeth rdeth;
  Deth deth;
  Xrceth xrceth;
  Feth feth;
  Reth reth;
  AtomicEth atomic_eth;
  Aeth aeth;
  AtomicAckEth atomic_ack_eth;
  ImmDt imm;
  Ieth ieth;
};

[[nodiscard]] Headers decode(const PacketView& packet);

// The header chain of bth.opcode, which must exist; gives its length, at most kMaxHeaderBytes.
uint32_t write_headers(const Headers& headers, uint8_t* out);

// BTH to pad: headers, payload, zeros to a multiple of 4. The pad count is made here; bth.pad_bytes
// is not looked at. The ICRC is the caller's: it takes the addresses.
[[nodiscard]] std::vector<uint8_t> encode(const Headers& headers, std::span<const uint8_t> payload);

}  // namespace verbena::wire
