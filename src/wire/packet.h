// SPDX-License-Identifier: Apache-2.0
// A transport packet: what lies between the UDP header and the ICRC. parse() gives a view of it, or
// the reason it is not one; it reads nothing outside the bytes given and keeps no copy of them.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "wire/headers.h"
#include "wire/opcode.h"

namespace verbena::wire {

inline constexpr uint16_t kRoceUdpPort = 4791;
inline constexpr uint32_t kIcrcBytes = 4;
inline constexpr uint32_t kMaxMtu = 4096;
// More than the longest header chain: 52 bytes on RD, 44 on what we send (XRC COMPARE-SWAP).
inline constexpr uint32_t kMaxHeaderBytes = 64;
inline constexpr uint32_t kMaxPacketBytes = kMaxHeaderBytes + kMaxMtu + 3 + kIcrcBytes;

enum class ParseError : uint8_t {
  kTooShort,          // not even BTH + ICRC
  kTooLong,           // more than any MTU allows
  kUnknownOpcode,     // no such opcode in the table
  kBadVersion,        // TVer is not 0
  kBadPkey,           // P_Key's membership or number is not the default partition
  kHeadersCut,        // the opcode's headers do not fit
  kBadPad,            // pad count larger than what is there, or length not a multiple of 4
  kPayloadForbidden,  // payload on an opcode that carries none
  kPayloadMissing,    // opcode wants payload and there is none
  kPayloadLength,     // ATOMIC WRITE of other than 8 bytes
  kCount,
};
[[nodiscard]] const char* to_string(ParseError error);

struct PacketView {
  Bth bth;
  const OpcodeInfo* info = nullptr;
  const uint8_t* data = nullptr;     // the BTH's first byte
  std::span<const uint8_t> payload;  // without pad and ICRC

  // Only where info->has(...) says so.
  [[nodiscard]] Rdeth rdeth() const { return Rdeth::read(data + offset_of(kRdeth)); }
  [[nodiscard]] Deth deth() const { return Deth::read(data + offset_of(kDeth)); }
  [[nodiscard]] Xrceth xrceth() const { return Xrceth::read(data + offset_of(kXrceth)); }
  [[nodiscard]] Reth reth() const { return Reth::read(data + offset_of(kReth)); }
  [[nodiscard]] Feth feth() const { return Feth::read(data + offset_of(kFeth)); }
  [[nodiscard]] AtomicEth atomic_eth() const {
    return AtomicEth::read(data + offset_of(kAtomicEth));
  }
  [[nodiscard]] Aeth aeth() const { return Aeth::read(data + offset_of(kAeth)); }
  [[nodiscard]] AtomicAckEth atomic_ack_eth() const {
    return AtomicAckEth::read(data + offset_of(kAtomicAckEth));
  }
  [[nodiscard]] ImmDt imm() const { return ImmDt::read(data + offset_of(kImmDt)); }
  [[nodiscard]] Ieth ieth() const { return Ieth::read(data + offset_of(kIeth)); }

  // Byte offset from the BTH of a header in this packet's chain.
  [[nodiscard]] uint32_t offset_of(HeaderSet header) const { return info->offset_of(header); }
};

// `packet` is the UDP payload: BTH ... payload, pad, ICRC. The ICRC's value is not looked at here
// (icrc.h); P_Key must be the default partition, full or limited member.
[[nodiscard]] Result<PacketView, ParseError> parse(std::span<const uint8_t> packet);
// The same where headers and payload lie apart, without pad and ICRC. Of the payload only the
// length is looked at.
[[nodiscard]] Result<PacketView, ParseError> parse(std::span<const uint8_t> headers,
                                                   std::span<const uint8_t> payload);
// Both for a view that stays where it is (Bth::take); of what is refused it is nothing.
[[nodiscard]] Result<void, ParseError> parse(std::span<const uint8_t> packet, PacketView& view);
[[nodiscard]] Result<void, ParseError> parse(std::span<const uint8_t> headers,
                                             std::span<const uint8_t> payload, PacketView& view);

}  // namespace verbena::wire
