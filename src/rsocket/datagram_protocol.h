// SPDX-License-Identifier: Apache-2.0
// The headers of datagrams, as rdma-core's rsockets have them; all big-endian.
//
// In a UD message, before the program's bytes: who sent it.
//
//   version u8: 4 or 6 | length u8: 8 or 24 | port u16 | address: u32, or flow u32 and 16 bytes
//
// In a UDP message, as long as the queue pair of the peer is not known: which one is ours.
//
//   tag u32 = 0x55555555 | version u8 | op u8: 0 data follow, 7 this is an answer | length u8: 16
//   or 28 0 u8 | queue pair u32 | address: u32 or 16 bytes
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "rdmacm/address.h"
#include "wire/gid.h"

namespace verbena::rsocket {

// What one message can carry, its header included: rdma-core's receivers have no more room.
inline constexpr uint32_t kDatagramBytes = 2048;
inline constexpr uint32_t kMostHeaderBytes = 28;

struct HeaderBytes {
  std::array<uint8_t, kMostHeaderBytes> bytes{};
  uint32_t length = 0;
  [[nodiscard]] std::span<const uint8_t> used() const { return {bytes.data(), length}; }
};

// ---- in UD messages
[[nodiscard]] HeaderBytes datagram_header(const rdmacm::Address& from);
struct ReadDatagram {
  rdmacm::Address from;
  std::span<const uint8_t> payload;
};
// Nothing for what is none.
[[nodiscard]] std::optional<ReadDatagram> read_datagram(std::span<const uint8_t> message);

// ---- in UDP messages
enum class UdpOp : uint8_t { kData = 0, kAnswer = 7 };
[[nodiscard]] HeaderBytes udp_header(UdpOp op, uint32_t qpn, const rdmacm::Address& from);
struct UdpMessage {
  UdpOp op;
  uint32_t qpn;
  std::span<const uint8_t> payload;
};
[[nodiscard]] std::optional<UdpMessage> read_udp(std::span<const uint8_t> message);

// Whether the message with this GRH came from the host that it names. The GRH of an IPv4 packet is
// its header, in the last 20 of the 40 bytes.
[[nodiscard]] bool came_from(std::span<const uint8_t, 40> grh, const rdmacm::Address& from);

}  // namespace verbena::rsocket
