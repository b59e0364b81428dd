// SPDX-License-Identifier: Apache-2.0
// How IP addresses and ports travel in the connection manager's messages (IBA annex A11, "RDMA IP
// CM Service"): the port in the service id, the addresses at the head of the private data.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "wire/gid.h"

namespace verbena::cm {

// The values of enum rdma_port_space (rdma_cma.h).
enum class PortSpace : uint16_t { kIpoib = 0x0002, kTcp = 0x0106, kUdp = 0x0111, kIb = 0x013f };

[[nodiscard]] constexpr uint64_t service_id(PortSpace space, uint16_t port) {
  return (uint64_t{static_cast<uint16_t>(space)} << 16) + port;
}
[[nodiscard]] constexpr uint16_t port_of(uint64_t service_id) {
  return static_cast<uint16_t>(service_id);
}
// Whether the private data of a request for this service begins with an AddressHeader.
[[nodiscard]] constexpr bool has_address_header(uint64_t service_id) {
  const uint64_t space = service_id >> 16;
  return space == static_cast<uint16_t>(PortSpace::kIpoib) ||
         space == static_cast<uint16_t>(PortSpace::kTcp) ||
         space == static_cast<uint16_t>(PortSpace::kUdp) ||
         space == static_cast<uint16_t>(PortSpace::kIb);
}

// The first 36 bytes of the private data of REQ and SIDR_REQ. An IPv4 address stands in the last
// four bytes of its field and the others are zero (not the mapped form that a GID has); here both
// kinds are kept as a GID would.
//
//   31            24 23    20 19    16 15                         0
//  +----------------+--------+--------+----------------------------+
//  |   version 0    |  IP v. |  rsvd  |     port of the source     |
//  +----------------+--------+--------+----------------------------+
//  |                 source address, 16 bytes                      |
//  |                 destination address, 16 bytes                 |
//  +---------------------------------------------------------------+
struct AddressHeader {
  static constexpr uint32_t kBytes = 36;
  uint16_t source_port = 0;
  wire::Gid source{};       // IPv4 mapped, or IPv6; both of one kind
  wire::Gid destination{};  // what the listener's address is compared with

  friend bool operator==(const AddressHeader&, const AddressHeader&) = default;
  // Nothing when it is cut, of another version or neither IPv4 nor IPv6.
  [[nodiscard]] static std::optional<AddressHeader> read(std::span<const uint8_t> private_data);
  void write(uint8_t* p) const;
};

}  // namespace verbena::cm
