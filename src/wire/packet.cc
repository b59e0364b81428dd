// SPDX-License-Identifier: Apache-2.0
#include "wire/packet.h"

#include "wire/extended_ack.h"

namespace verbena::wire {
namespace {

constexpr uint16_t kPkeyNumber = 0x7fff;  // all but the membership bit; the default partition's

bool obeys(PayloadRule rule, size_t length, ParseError& reason) {
  switch (rule) {
    case PayloadRule::kNone: reason = ParseError::kPayloadForbidden; return length == 0;
    case PayloadRule::kExtension:
      reason = ParseError::kPayloadForbidden;
      return length == 0 || ExtendedAck::is_length(length);
    case PayloadRule::kFullMtu:  // which MTU, only the queue pair knows
    case PayloadRule::kOneToMtu:   reason = ParseError::kPayloadMissing; return length != 0;
    case PayloadRule::kEightBytes: reason = ParseError::kPayloadLength; return length == 8;
    case PayloadRule::kUpToMtu:
    case PayloadRule::kOpaque:     return true;
  }
  return true;
}

using Checked = Result<void, ParseError>;

// `bytes`: at least a BTH.
[[nodiscard]] Checked read_headers(PacketView& view, std::span<const uint8_t> bytes) {
  view.data = bytes.data();
  view.bth.take(bytes.data());
  view.info = &opcode_info(view.bth.opcode);
  if (view.bth.version != 0) return fail(ParseError::kBadVersion);
  if (!view.info->exists()) return fail(ParseError::kUnknownOpcode);
  if ((view.bth.pkey & kPkeyNumber) != kPkeyNumber) return fail(ParseError::kBadPkey);
  if (bytes.size() < view.info->header_bytes) return fail(ParseError::kHeadersCut);
  return {};
}

[[nodiscard]] Checked add_payload(PacketView& view, std::span<const uint8_t> payload) {
  view.payload = payload;
  ParseError reason = ParseError::kTooLong;
  if (payload.size() > kMaxMtu || !obeys(view.info->payload, payload.size(), reason)) {
    return fail(reason);
  }
  return {};
}

}  // namespace

const char* to_string(ParseError error) {
  switch (error) {
    case ParseError::kTooShort:         return "shorter than BTH and ICRC";
    case ParseError::kTooLong:          return "longer than any MTU allows";
    case ParseError::kUnknownOpcode:    return "unknown opcode";
    case ParseError::kBadVersion:       return "transport version is not 0";
    case ParseError::kBadPkey:          return "P_Key is not the default partition's";
    case ParseError::kHeadersCut:       return "headers cut short";
    case ParseError::kBadPad:           return "pad count or alignment wrong";
    case ParseError::kPayloadForbidden: return "payload where there may be none";
    case ParseError::kPayloadMissing:   return "no payload where there must be some";
    case ParseError::kPayloadLength:    return "payload is not 8 bytes";
    case ParseError::kCount:            break;
  }
  return "no such reason";
}

Result<void, ParseError> parse(std::span<const uint8_t> packet, PacketView& view) {
  if (packet.size() < Bth::kBytes + kIcrcBytes) return fail(ParseError::kTooShort);
  if (packet.size() > kMaxPacketBytes) return fail(ParseError::kTooLong);
  const auto read = read_headers(view, packet.first(packet.size() - kIcrcBytes));
  if (!read) return read;
  const size_t header_bytes = view.info->header_bytes;
  const size_t body = packet.size() - header_bytes - kIcrcBytes;  // payload and pad
  if (body % 4 != 0 || view.bth.pad_bytes > body) return fail(ParseError::kBadPad);
  return add_payload(view, packet.subspan(header_bytes, body - view.bth.pad_bytes));
}

Result<void, ParseError> parse(std::span<const uint8_t> headers, std::span<const uint8_t> payload,
                               PacketView& view) {
  if (headers.size() < Bth::kBytes) return fail(ParseError::kTooShort);
  const auto read = read_headers(view, headers);
  if (!read) return read;
  if (headers.size() != view.info->header_bytes) return fail(ParseError::kHeadersCut);
  if ((payload.size() + view.bth.pad_bytes) % 4 != 0) return fail(ParseError::kBadPad);
  return add_payload(view, payload);
}

Result<PacketView, ParseError> parse(std::span<const uint8_t> packet) {
  PacketView view;
  if (const auto parsed = parse(packet, view); !parsed) return fail(parsed.error());
  return view;
}

Result<PacketView, ParseError> parse(std::span<const uint8_t> headers,
                                     std::span<const uint8_t> payload) {
  PacketView view;
  if (const auto parsed = parse(headers, payload, view); !parsed) return fail(parsed.error());
  return view;
}

}  // namespace verbena::wire
