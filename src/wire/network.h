// SPDX-License-Identifier: Apache-2.0
// What RoCEv2 puts around a transport packet: Ethernet, IPv4 or IPv6, UDP. Host-order structs with
// explicit read and write, as in headers.h, and the two ways through them: write_frame and dissect.
// The device leaves these to its socket; captures, the simulator and the ICRC need them.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/endian.h"
#include "base/result.h"
#include "wire/gid.h"
#include "wire/icrc.h"

namespace verbena::wire {

inline constexpr uint16_t kEthertypeIpv4 = 0x0800;
inline constexpr uint16_t kEthertypeIpv6 = 0x86dd;
inline constexpr uint16_t kEthertypeVlan = 0x8100;
inline constexpr uint8_t kProtocolUdp = 17;

using MacAddress = std::array<uint8_t, 6>;

//  +-----------------+-----------------+---------------------------+-----------+
//  | Destination (6) |   Source (6)    | [ 0x8100 | VLAN tag (2) ] | Ethertype |
//  +-----------------+-----------------+---------------------------+-----------+
struct EthernetHeader {
  static constexpr uint32_t kBytes = 14;     // without VLAN tag
  static constexpr uint32_t kVlanBytes = 4;  // what a tag adds

  MacAddress destination{};
  MacAddress source{};
  bool has_vlan = false;
  uint16_t vlan_tag = 0;  // priority (3), drop eligible (1), VLAN id (12)
  uint16_t ethertype = 0;

  [[nodiscard]] uint32_t bytes() const { return kBytes + (has_vlan ? kVlanBytes : 0); }
  void write(uint8_t* p) const {
    std::memcpy(p, destination.data(), 6);
    std::memcpy(p + 6, source.data(), 6);
    if (has_vlan) {
      store_be16(p + 12, kEthertypeVlan);
      store_be16(p + 14, vlan_tag);
      p += kVlanBytes;
    }
    store_be16(p + 12, ethertype);
  }
};

// IPv4 without options, RFC 791.
//   31   28 27   24 23            16 15 14 13 12                  0
//  +-------+-------+----------------+--------------------------------+
//  |   4   |   5   |      TOS       |          Total length          |
//  +-------+-------+----------------+--+--+--+-----------------------+
//  |        Identification          | 0|DF|MF|    Fragment offset    |
//  +----------------+---------------+--+--+--+-----------------------+
//  |      TTL       |   Protocol    |        Header checksum         |
//  +----------------+---------------+--------------------------------+
//  |                         Source address                          |
//  |                       Destination address                       |
//  +-----------------------------------------------------------------+
struct Ipv4Header {
  static constexpr uint32_t kBytes = 20;
  static constexpr uint8_t kVersionAndLength = 0x45;

  uint8_t tos = 0;
  uint16_t total_length = 0;
  uint16_t id = 0;
  bool reserved_flag = false;
  bool dont_fragment = true;
  bool more_fragments = false;
  uint16_t fragment_offset = 0;  // in units of 8 bytes
  uint8_t ttl = 0;
  uint8_t protocol = kProtocolUdp;
  uint16_t checksum = 0;
  std::array<uint8_t, 4> source{};
  std::array<uint8_t, 4> destination{};

  [[nodiscard]] static Ipv4Header read(const uint8_t* p);
  void write(uint8_t* p) const;
};
// The header checksum over kBytes bytes at p, with whatever stands in the checksum's place; 0 when
// that is the right checksum.
[[nodiscard]] uint16_t ipv4_checksum(const uint8_t* p);

// IPv6, RFC 8200.
//   31   28 27                    20 19                            0
//  +-------+------------------------+-------------------------------+
//  |   6   |     Traffic class      |          Flow label           |
//  +-------+------------------------+---------------+---------------+
//  |         Payload length         |  Next header  |   Hop limit   |
//  +--------------------------------+---------------+---------------+
//  |                       Source address (128)                     |
//  |                    Destination address (128)                   |
//  +----------------------------------------------------------------+
struct Ipv6Header {
  static constexpr uint32_t kBytes = 40;

  uint8_t traffic_class = 0;
  uint32_t flow_label = 0;  // 20 bits
  uint16_t payload_length = 0;
  uint8_t next_header = kProtocolUdp;
  uint8_t hop_limit = 0;
  std::array<uint8_t, 16> source{};
  std::array<uint8_t, 16> destination{};

  [[nodiscard]] static Ipv6Header read(const uint8_t* p);
  void write(uint8_t* p) const;
};

//  +--------------------------------+-------------------------------+
//  |          Source port           |       Destination port        |
//  |      Length, header and all    |      Checksum, 0 on RoCEv2    |
//  +--------------------------------+-------------------------------+
struct UdpHeader {
  static constexpr uint32_t kBytes = 8;

  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  uint16_t length = 0;
  uint16_t checksum = 0;

  [[nodiscard]] static UdpHeader read(const uint8_t* p) {
    return {load_be16(p), load_be16(p + 2), load_be16(p + 4), load_be16(p + 6)};
  }
  void write(uint8_t* p) const {
    store_be16(p, source_port);
    store_be16(p + 2, destination_port);
    store_be16(p + 4, length);
    store_be16(p + 6, checksum);
  }
};

enum class DissectError : uint8_t {
  kEthernetCut,    // no whole Ethernet header
  kNotIp,          // some other ethertype
  kIpCut,          // no whole IP header
  kIpVersion,      // the ethertype says one version, the header another
  kIpOptions,      // IPv4 header length is not 20: RoCEv2 has no options
  kIpChecksum,     // IPv4 header checksum wrong
  kIpLength,       // the IP length is smaller than its header or larger than the frame
  kFragment,       // a piece of a datagram
  kMappedAddress,  // IPv6 with an IPv4-mapped address: never on a wire; would pass for IPv4 here
  kNotUdp,         // some other protocol, or an IPv6 extension header
  kUdpCut,         // no whole UDP header
  kUdpLength,      // UDP and IP lengths disagree
  kNotRoce,        // UDP, but not to port 4791
  kCount,
};
[[nodiscard]] const char* to_string(DissectError error);

// A frame taken apart. flow.is_ipv4() says which of ipv4 and ipv6 holds; the spans point into the
// frame's bytes.
struct Frame {
  EthernetHeader ethernet;
  Ipv4Header ipv4;
  Ipv6Header ipv6;
  UdpHeader udp;
  IcrcFlow flow;
  uint8_t tos = 0;                     // IPv4 TOS or IPv6 traffic class
  uint8_t ttl = 0;                     // IPv4 TTL or IPv6 hop limit
  std::span<const uint8_t> transport;  // BTH to ICRC inclusive
  std::span<const uint8_t> trailer;    // after the datagram: Ethernet's padding of short frames

  [[nodiscard]] uint32_t header_bytes() const {
    return ethernet.bytes() + (flow.is_ipv4() ? Ipv4Header::kBytes : Ipv6Header::kBytes) +
           UdpHeader::kBytes;
  }
  [[nodiscard]] size_t bytes() const { return header_bytes() + transport.size() + trailer.size(); }
};

// Any bytes may be given. The transport packet inside is not looked at.
[[nodiscard]] Result<Frame, DissectError> dissect(std::span<const uint8_t> frame);

// The frame's headers as they stand in the struct, then transport and trailer; gives frame.bytes(),
// which `out` must hold. The inverse of dissect.
size_t write_frame(const Frame& frame, std::span<uint8_t> out);

// A frame for `transport` (BTH to ICRC inclusive, taken as it is), with right lengths and checksum,
// UDP checksum 0, and made-up MAC addresses that follow from the IP addresses.
[[nodiscard]] Frame make_frame(const IcrcFlow& flow, uint8_t ttl, uint8_t tos,
                               std::span<const uint8_t> transport);

// The bytes of a whole Ethernet frame around a transport packet that still lacks its ICRC.
[[nodiscard]] std::vector<uint8_t> build_frame(const IcrcFlow& flow, uint8_t ttl, uint8_t tos,
                                               std::span<const uint8_t> bth_to_pad);
// The same with the ICRC the packet already has, right or wrong: what a capture of a fault needs.
[[nodiscard]] std::vector<uint8_t> build_frame_as_is(const IcrcFlow& flow, uint8_t ttl, uint8_t tos,
                                                     std::span<const uint8_t> bth_to_icrc);

}  // namespace verbena::wire
