// SPDX-License-Identifier: Apache-2.0
#include "wire/network.h"

#include <algorithm>

#include "base/check.h"
#include "wire/packet.h"

namespace verbena::wire {

Ipv4Header Ipv4Header::read(const uint8_t* p) {
  Ipv4Header h;
  h.tos = p[1];
  h.total_length = load_be16(p + 2);
  h.id = load_be16(p + 4);
  h.reserved_flag = (p[6] & 0x80) != 0;
  h.dont_fragment = (p[6] & 0x40) != 0;
  h.more_fragments = (p[6] & 0x20) != 0;
  h.fragment_offset = load_be16(p + 6) & 0x1fff;
  h.ttl = p[8];
  h.protocol = p[9];
  h.checksum = load_be16(p + 10);
  std::copy_n(p + 12, 4, h.source.begin());
  std::copy_n(p + 16, 4, h.destination.begin());
  return h;
}

void Ipv4Header::write(uint8_t* p) const {
  p[0] = kVersionAndLength;
  p[1] = tos;
  store_be16(p + 2, total_length);
  store_be16(p + 4, id);
  store_be16(p + 6,
             static_cast<uint16_t>((reserved_flag ? 0x8000 : 0) | (dont_fragment ? 0x4000 : 0) |
                                   (more_fragments ? 0x2000 : 0) | (fragment_offset & 0x1fff)));
  p[8] = ttl;
  p[9] = protocol;
  store_be16(p + 10, checksum);
  std::copy_n(source.begin(), 4, p + 12);
  std::copy_n(destination.begin(), 4, p + 16);
}

uint16_t ipv4_checksum(const uint8_t* p) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < Ipv4Header::kBytes; i += 2) sum += load_be16(p + i);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

Ipv6Header Ipv6Header::read(const uint8_t* p) {
  Ipv6Header h;
  const uint32_t word = load_be32(p);
  h.traffic_class = static_cast<uint8_t>(word >> 20);
  h.flow_label = word & 0xfffff;
  h.payload_length = load_be16(p + 4);
  h.next_header = p[6];
  h.hop_limit = p[7];
  std::copy_n(p + 8, 16, h.source.begin());
  std::copy_n(p + 24, 16, h.destination.begin());
  return h;
}

void Ipv6Header::write(uint8_t* p) const {
  store_be32(p, (uint32_t{6} << 28) | (uint32_t{traffic_class} << 20) | (flow_label & 0xfffff));
  store_be16(p + 4, payload_length);
  p[6] = next_header;
  p[7] = hop_limit;
  std::copy_n(source.begin(), 16, p + 8);
  std::copy_n(destination.begin(), 16, p + 24);
}

const char* to_string(DissectError error) {
  switch (error) {
    case DissectError::kEthernetCut:   return "Ethernet header cut short";
    case DissectError::kNotIp:         return "not IP";
    case DissectError::kIpCut:         return "IP header cut short";
    case DissectError::kIpVersion:     return "IP version is not the ethertype's";
    case DissectError::kIpOptions:     return "IPv4 options";
    case DissectError::kIpChecksum:    return "IPv4 header checksum wrong";
    case DissectError::kIpLength:      return "IP length does not fit the frame";
    case DissectError::kFragment:      return "IPv4 fragment";
    case DissectError::kMappedAddress: return "IPv4-mapped address in an IPv6 header";
    case DissectError::kNotUdp:        return "not UDP";
    case DissectError::kUdpCut:        return "UDP header cut short";
    case DissectError::kUdpLength:     return "UDP length is not the IP payload's";
    case DissectError::kNotRoce:       return "not UDP port 4791";
    case DissectError::kCount:         break;
  }
  return "no such reason";
}

namespace {

using Bytes = std::span<const uint8_t>;

constexpr size_t kIpv4ProtocolOffset = 9;

// What an IP header leaves of the bytes after the Ethernet header.
struct Split {
  Bytes datagram;  // UDP header and payload
  Bytes trailer;
};

Result<EthernetHeader, DissectError> read_ethernet(Bytes frame) {
  if (frame.size() < EthernetHeader::kBytes) return fail(DissectError::kEthernetCut);
  EthernetHeader h;
  std::copy_n(frame.begin(), 6, h.destination.begin());
  std::copy_n(frame.begin() + 6, 6, h.source.begin());
  h.ethertype = load_be16(frame.data() + 12);
  if (h.ethertype != kEthertypeVlan) return h;
  if (frame.size() < EthernetHeader::kBytes + EthernetHeader::kVlanBytes) {
    return fail(DissectError::kEthernetCut);
  }
  h.has_vlan = true;
  h.vlan_tag = load_be16(frame.data() + 14);
  h.ethertype = load_be16(frame.data() + 16);
  return h;
}

Result<Split, DissectError> read_ipv4(Bytes bytes, Frame& out) {
  if (bytes.size() < Ipv4Header::kBytes) return fail(DissectError::kIpCut);
  if (bytes[0] >> 4 != 4) return fail(DissectError::kIpVersion);
  // First, for other protocols do have options.
  if (bytes[kIpv4ProtocolOffset] != kProtocolUdp) return fail(DissectError::kNotUdp);
  if (bytes[0] != Ipv4Header::kVersionAndLength) return fail(DissectError::kIpOptions);
  if (ipv4_checksum(bytes.data()) != 0) return fail(DissectError::kIpChecksum);
  const Ipv4Header h = Ipv4Header::read(bytes.data());
  if (h.total_length < Ipv4Header::kBytes || h.total_length > bytes.size()) {
    return fail(DissectError::kIpLength);
  }
  // The reserved flag is not in IcrcFlow: a packet that has it set is not RoCEv2's either.
  if (h.more_fragments || h.fragment_offset != 0 || h.reserved_flag) {
    return fail(DissectError::kFragment);
  }
  out.ipv4 = h;
  out.flow.source = Gid::from_ipv4(h.source[0], h.source[1], h.source[2], h.source[3]);
  out.flow.destination =
      Gid::from_ipv4(h.destination[0], h.destination[1], h.destination[2], h.destination[3]);
  out.flow.ipv4_id = h.id;
  out.flow.ipv4_dont_fragment = h.dont_fragment;
  out.tos = h.tos;
  out.ttl = h.ttl;
  return Split{bytes.subspan(Ipv4Header::kBytes, h.total_length - Ipv4Header::kBytes),
               bytes.subspan(h.total_length)};
}

Result<Split, DissectError> read_ipv6(Bytes bytes, Frame& out) {
  if (bytes.size() < Ipv6Header::kBytes) return fail(DissectError::kIpCut);
  if (bytes[0] >> 4 != 6) return fail(DissectError::kIpVersion);
  const Ipv6Header h = Ipv6Header::read(bytes.data());
  if (h.payload_length > bytes.size() - Ipv6Header::kBytes) return fail(DissectError::kIpLength);
  if (h.next_header != kProtocolUdp) return fail(DissectError::kNotUdp);
  out.ipv6 = h;
  out.flow.source.bytes = h.source;
  out.flow.destination.bytes = h.destination;
  if (out.flow.source.is_ipv4() || out.flow.destination.is_ipv4()) {
    return fail(DissectError::kMappedAddress);
  }
  out.tos = h.traffic_class;
  out.ttl = h.hop_limit;
  return Split{bytes.subspan(Ipv6Header::kBytes, h.payload_length),
               bytes.subspan(Ipv6Header::kBytes + h.payload_length)};
}

}  // namespace

Result<Frame, DissectError> dissect(std::span<const uint8_t> frame) {
  const auto ethernet = read_ethernet(frame);
  if (!ethernet) return fail(ethernet.error());
  Frame out;
  out.ethernet = *ethernet;
  const Bytes ip = frame.subspan(ethernet->bytes());

  Result<Split, DissectError> split = fail(DissectError::kNotIp);
  if (ethernet->ethertype == kEthertypeIpv4) split = read_ipv4(ip, out);
  if (ethernet->ethertype == kEthertypeIpv6) split = read_ipv6(ip, out);
  if (!split) return fail(split.error());

  const Bytes datagram = split->datagram;
  if (datagram.size() < UdpHeader::kBytes) return fail(DissectError::kUdpCut);
  out.udp = UdpHeader::read(datagram.data());
  if (out.udp.destination_port != kRoceUdpPort) return fail(DissectError::kNotRoce);
  // The ICRC covers both lengths, and IcrcFlow knows only one.
  if (out.udp.length != datagram.size()) return fail(DissectError::kUdpLength);
  out.flow.source_port = out.udp.source_port;
  out.flow.destination_port = out.udp.destination_port;
  out.transport = datagram.subspan(UdpHeader::kBytes);
  out.trailer = split->trailer;
  return out;
}

size_t write_frame(const Frame& frame, std::span<uint8_t> out) {
  VERBENA_CHECK(out.size() >= frame.bytes());
  uint8_t* p = out.data();
  frame.ethernet.write(p);
  p += frame.ethernet.bytes();
  if (frame.flow.is_ipv4()) {
    frame.ipv4.write(p);
    p += Ipv4Header::kBytes;
  } else {
    frame.ipv6.write(p);
    p += Ipv6Header::kBytes;
  }
  frame.udp.write(p);
  p += UdpHeader::kBytes;
  // Not by std::ranges::copy, which GCC 12 makes a loop of single bytes.
  p = std::copy(frame.transport.begin(), frame.transport.end(), p);
  std::copy(frame.trailer.begin(), frame.trailer.end(), p);
  return frame.bytes();
}

namespace {

// Multicast as RFC 1112 and RFC 2464 map it; others are locally administered and end as the
// address.
MacAddress mac_for(const Gid& gid) {
  const auto& b = gid.bytes;
  if (gid.is_ipv4() && gid.is_multicast()) {
    return {0x01, 0x00, 0x5e, static_cast<uint8_t>(b[13] & 0x7f), b[14], b[15]};
  }
  if (gid.is_multicast()) return {0x33, 0x33, b[12], b[13], b[14], b[15]};
  return {0x02, gid.is_ipv4() ? uint8_t{0} : b[11], b[12], b[13], b[14], b[15]};
}

}  // namespace

Frame make_frame(const IcrcFlow& flow, uint8_t ttl, uint8_t tos,
                 std::span<const uint8_t> transport) {
  VERBENA_CHECK(transport.size() <= 0xffff - Ipv4Header::kBytes - UdpHeader::kBytes);
  const auto udp_length = static_cast<uint16_t>(UdpHeader::kBytes + transport.size());
  Frame frame;
  frame.flow = flow;
  frame.tos = tos;
  frame.ttl = ttl;
  frame.transport = transport;
  frame.ethernet.destination = mac_for(flow.destination);
  frame.ethernet.source = mac_for(flow.source);
  frame.udp = {flow.source_port, flow.destination_port, udp_length, 0};
  if (flow.is_ipv4()) {
    frame.ethernet.ethertype = kEthertypeIpv4;
    Ipv4Header& ip = frame.ipv4;
    ip.tos = tos;
    ip.total_length = static_cast<uint16_t>(Ipv4Header::kBytes + udp_length);
    ip.id = flow.ipv4_id;
    ip.dont_fragment = flow.ipv4_dont_fragment;
    ip.ttl = ttl;
    std::copy_n(flow.source.ipv4(), 4, ip.source.begin());
    std::copy_n(flow.destination.ipv4(), 4, ip.destination.begin());
    uint8_t bytes[Ipv4Header::kBytes];
    ip.write(bytes);
    ip.checksum = ipv4_checksum(bytes);
  } else {
    frame.ethernet.ethertype = kEthertypeIpv6;
    Ipv6Header& ip = frame.ipv6;
    ip.traffic_class = tos;
    ip.payload_length = udp_length;
    ip.hop_limit = ttl;
    ip.source = flow.source.bytes;
    ip.destination = flow.destination.bytes;
  }
  return frame;
}

std::vector<uint8_t> build_frame_as_is(const IcrcFlow& flow, uint8_t ttl, uint8_t tos,
                                       std::span<const uint8_t> bth_to_icrc) {
  const Frame frame = make_frame(flow, ttl, tos, bth_to_icrc);
  std::vector<uint8_t> bytes(frame.bytes());
  write_frame(frame, bytes);
  return bytes;
}

std::vector<uint8_t> build_frame(const IcrcFlow& flow, uint8_t ttl, uint8_t tos,
                                 std::span<const uint8_t> bth_to_pad) {
  std::vector<uint8_t> packet(bth_to_pad.size() + kIcrcBytes);
  std::copy(bth_to_pad.begin(), bth_to_pad.end(), packet.begin());
  store_icrc(packet.data() + bth_to_pad.size(), icrc(flow, bth_to_pad));
  return build_frame_as_is(flow, ttl, tos, packet);
}

}  // namespace verbena::wire
