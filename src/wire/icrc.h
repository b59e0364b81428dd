// SPDX-License-Identifier: Apache-2.0
// The invariant CRC of RoCEv2 (IBA annex A17.3.3): the CRC-32 of Ethernet (reflected 0x04C11DB7),
// stored little-endian after the pad, over
//     8 x 0xff | IP header | UDP header | BTH ... payload, pad
// with everything a router may change set to ones first: IPv4 TOS, TTL, checksum; IPv6 traffic
// class, flow label, hop limit; the UDP checksum; the BTH's fifth byte (FECN, BECN, reserved).
//
// A UDP socket neither sets nor sees the IPv4 identification that the ICRC covers. Sending, it is
// known (0 for an unconnected socket with DF, 0, 1, 2, ... within one GSO send). Receiving, it is
// solved for: the CRC is linear, so crc(id) = crc(0) ^ T(id) with T a linear map of 16 bits; a
// packet is good when the difference is T(id) for some id. That leaves 16 of the 32 bits as a
// check.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "wire/gid.h"

namespace verbena::wire {

// The fields of the IP and UDP headers that the ICRC covers. Addresses say which IP version it is.
struct IcrcFlow {
  Gid source{};
  Gid destination{};
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  uint16_t ipv4_id = 0;
  bool ipv4_dont_fragment = true;
  // IPv6 next header and IPv4 protocol are UDP.

  [[nodiscard]] bool is_ipv4() const { return source.is_ipv4() && destination.is_ipv4(); }
};

// State after the pseudo header for a UDP payload of `transport_bytes` (BTH to ICRC inclusive),
// ready for the transport bytes. For IPv4 depends on the id; see icrc_id_delta.
[[nodiscard]] uint32_t icrc_begin(const IcrcFlow& flow, uint32_t transport_bytes);
// Feeds the BTH, whose byte 4 is masked here, and whatever follows; at least the BTH's 12 bytes.
[[nodiscard]] uint32_t icrc_bth(uint32_t state, std::span<const uint8_t> headers);
[[nodiscard]] uint32_t icrc_more(uint32_t state, std::span<const uint8_t> bytes);
// Copies them to `to` on the way (crc32_copy).
[[nodiscard]] uint32_t icrc_copy(uint32_t state, uint8_t* to, std::span<const uint8_t> bytes);
[[nodiscard]] uint32_t icrc_end(uint32_t state);

// What an IPv4 identification adds to the ICRC by XOR: icrc with `id` = icrc with 0 ^ delta(id).
// Linear in the id, and 0 for 0 alone.
[[nodiscard]] uint32_t icrc_id_delta(uint16_t ipv4_id, uint32_t transport_bytes);

// The ICRC of a whole transport packet without its last four bytes.
[[nodiscard]] uint32_t icrc(const IcrcFlow& flow, std::span<const uint8_t> bth_to_pad);
// Reads / writes the four bytes as they stand on the wire.
[[nodiscard]] uint32_t load_icrc(const uint8_t* p);
void store_icrc(uint8_t* p, uint32_t value);

// IPv4: which identification explains the packet's ICRC, if any does. `packet` is BTH to ICRC
// inclusive; flow.ipv4_id is ignored. IPv6: 0 when the ICRC is exactly right, else nothing. Any
// packet may be given; one too short to have an ICRC has none that is right.
[[nodiscard]] std::optional<uint16_t> icrc_solve(const IcrcFlow& flow,
                                                 std::span<const uint8_t> packet);

// The ICRCs of many packets of one flow: what depends on the flow and the length alone, and then on
// the BTH up to its queue pair number, is worked out once and kept until that changes.
class IcrcSeries {
 public:
  // flow.ipv4_id is ignored.
  void aim(const IcrcFlow& flow, uint32_t transport_bytes) {
    if (transport_bytes != transport_bytes_ || !same(flow)) aim_anew(flow, transport_bytes);
  }
  // The state behind the BTH, whose 12 bytes are given: as icrc_bth after icrc_begin.
  [[nodiscard]] uint32_t behind_bth(uint16_t ipv4_id, const uint8_t* bth);
  // As icrc_solve, for a packet of the length aimed at, quicker when the identification is the
  // likely one.
  [[nodiscard]] std::optional<uint16_t> solve(std::span<const uint8_t> packet, uint16_t likely_id);

 private:
  [[nodiscard]] bool same(const IcrcFlow& flow) const {
    return flow.source_port == flow_.source_port && flow.source == flow_.source &&
           flow.destination == flow_.destination &&
           flow.destination_port == flow_.destination_port &&
           flow.ipv4_dont_fragment == flow_.ipv4_dont_fragment;
  }
  void aim_anew(const IcrcFlow& flow, uint32_t transport_bytes);

  IcrcFlow flow_;
  uint32_t transport_bytes_ = 0;
  uint32_t state_ = 0;      // for identification 0
  uint64_t bth_head_ = 0;   // the BTH's first eight bytes, as masked; 0: none
  uint32_t bth_state_ = 0;  // behind a BTH of these and four zeros
  bool ipv4_ = false;
};

}  // namespace verbena::wire
