// SPDX-License-Identifier: Apache-2.0
#include "link/framing.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "wire/icrc.h"
#include "wire/network.h"

namespace verbena::link {

std::vector<uint8_t> frame_of(const transport::OutPacket& packet, uint16_t ipv4_id) {
  std::array<uint8_t, wire::kMaxPacketBytes> bytes;
  VERBENA_CHECK(packet.headers.size() + packet.payload_bytes + packet.pad_bytes <= bytes.size());
  // Not by std::ranges::copy, which GCC 12 makes a loop of single bytes.
  auto end = std::copy(packet.headers.begin(), packet.headers.end(), bytes.begin());
  for (const auto& piece : packet.payload) end = std::copy(piece.begin(), piece.end(), end);
  end = std::fill_n(end, packet.pad_bytes, uint8_t{0});
  const auto length = static_cast<size_t>(end - bytes.begin());
  VERBENA_CHECK(length == packet.headers.size() + packet.payload_bytes + packet.pad_bytes);
  const wire::IcrcFlow flow{.source = packet.path->source,
                            .destination = packet.path->destination,
                            .source_port = packet.path->source_port,
                            .destination_port = wire::kRoceUdpPort,
                            .ipv4_id = ipv4_id};
  return wire::build_frame(flow, packet.path->hops(), packet.path->class_sent(),
                           {bytes.data(), length});
}

const char* to_string(FrameError error) {
  switch (error) {
    case FrameError::kNotRoce:   return "not RoCEv2";
    case FrameError::kBadIcrc:   return "ICRC is wrong";
    case FrameError::kMalformed: return "malformed";
  }
  return "?";
}

Result<transport::InPacket, FrameError> open_frame(std::span<const uint8_t> bytes) {
  const auto frame = wire::dissect(bytes);
  if (!frame) return fail(FrameError::kNotRoce);
  const std::span<const uint8_t> packet = frame->transport;
  if (packet.size() < wire::Bth::kBytes + wire::kIcrcBytes) return fail(FrameError::kMalformed);
  const auto covered = packet.first(packet.size() - wire::kIcrcBytes);
  if (wire::icrc(frame->flow, covered) != wire::load_icrc(packet.data() + covered.size())) {
    return fail(FrameError::kBadIcrc);
  }
  const auto view = wire::parse(packet);
  if (!view) return fail(FrameError::kMalformed);
  return transport::InPacket{.view = *view,
                             .source = frame->flow.source,
                             .destination = frame->flow.destination,
                             .traffic_class = frame->tos,
                             .hop_limit = frame->ttl};
}

}  // namespace verbena::link
