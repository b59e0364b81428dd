// SPDX-License-Identifier: Apache-2.0
// Packets for the tests of this folder: any opcode with random fields, and bytes with their ICRC.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "wire/encode.h"
#include "wire/icrc.h"
#include "wire/packet.h"

namespace verbena::wire {

inline std::vector<uint8_t> random_bytes(RandomSource& random, size_t length) {
  std::vector<uint8_t> bytes(length);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next());
  return bytes;
}

// "0a 1b2c" to bytes.
inline std::vector<uint8_t> from_hex(std::string_view text) {
  std::vector<uint8_t> bytes;
  int digits = 0;
  unsigned value = 0;
  for (const char c : text) {
    if (c == ' ') continue;
    value = value * 16 + static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
    if (++digits % 2 == 0) {
      bytes.push_back(static_cast<uint8_t>(value));
      value = 0;
    }
  }
  return bytes;
}

// The words of a bitmap in which these bits are set, the first one's the highest.
inline std::vector<uint32_t> bitmap_of(const std::vector<uint32_t>& bits) {
  std::vector<uint32_t> words;
  for (const uint32_t bit : bits) {
    if (words.size() <= bit / 32) words.resize(bit / 32 + 1);
    words[bit / 32] |= 0x80000000u >> bit % 32;
  }
  return words;
}

inline IcrcFlow random_flow(RandomSource& random, bool ipv4) {
  IcrcFlow flow;
  for (Gid* gid : {&flow.source, &flow.destination}) {
    for (uint8_t& byte : gid->bytes) byte = static_cast<uint8_t>(random.next());
    if (ipv4) {
      const auto& b = gid->bytes;
      *gid = Gid::from_ipv4(b[0], b[1], b[2], b[3]);
    }
  }
  flow.source_port = static_cast<uint16_t>(random.next());
  flow.destination_port = kRoceUdpPort;
  flow.ipv4_id = static_cast<uint16_t>(random.next());
  flow.ipv4_dont_fragment = random.below(2) == 0;
  return flow;
}

// Every field random within its width, except what parse() insists on: version and P_Key.
inline Headers random_headers(RandomSource& random, uint8_t opcode) {
  const auto bits = [&](int n) { return random.next() >> (64 - n); };
  const auto bits32 = [&](int n) { return static_cast<uint32_t>(bits(n)); };
  const auto bits8 = [&](int n) { return static_cast<uint8_t>(bits(n)); };
  Headers h;
  h.bth = {.opcode = opcode,
           .solicited = bits(1) != 0,
           .migrated = bits(1) != 0,
           .pad_bytes = 0,
           .version = 0,
           .pkey = static_cast<uint16_t>(bits(1) != 0 ? 0xffff : 0x7fff),
           .fecn = bits(1) != 0,
           .becn = bits(1) != 0,
           .reserved6 = bits8(6),
           .dest_qp = Qpn(bits32(24)),
           .ack_request = bits(1) != 0,
           .reserved7 = bits8(7),
           .psn = Psn(bits32(24))};
  h.rdeth = {bits8(8), bits32(24)};
  h.deth = {bits32(32), bits8(8), Qpn(bits32(24))};
  h.xrceth = {bits8(8), SrqId(bits32(24))};
  h.feth = {bits32(32)};
  h.reth = {bits(64), RKey(bits32(32)), bits32(32)};
  h.atomic_eth = {bits(64), RKey(bits32(32)), bits(64), bits(64)};
  h.aeth = {bits8(8), bits32(24)};
  h.atomic_ack_eth = {bits(64)};
  h.imm = {bits32(32)};
  h.ieth = {RKey(bits32(32))};
  return h;
}

// A payload length that the opcode may have.
inline size_t random_payload_length(RandomSource& random, const OpcodeInfo& info) {
  switch (info.payload) {
    case PayloadRule::kNone:       return 0;
    case PayloadRule::kExtension:  return 4 * random.below(2) * (2 + random.below(129));
    case PayloadRule::kEightBytes: return 8;
    case PayloadRule::kFullMtu:    return size_t{256} << random.below(5);
    case PayloadRule::kOneToMtu:   return 1 + random.below(kMaxMtu);
    case PayloadRule::kUpToMtu:
    case PayloadRule::kOpaque:     return random.below(kMaxMtu + 1);
  }
  return 0;
}

// BTH to pad, with its ICRC behind it.
inline std::vector<uint8_t> seal(const IcrcFlow& flow, std::vector<uint8_t> bth_to_pad) {
  const uint32_t value = icrc(flow, bth_to_pad);
  bth_to_pad.resize(bth_to_pad.size() + kIcrcBytes);
  store_icrc(bth_to_pad.data() + bth_to_pad.size() - kIcrcBytes, value);
  return bth_to_pad;
}

}  // namespace verbena::wire
