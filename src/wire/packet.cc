// SPDX-License-Identifier: Apache-2.0
#include "wire/packet.h"

namespace verbena::wire {
namespace {

constexpr uint16_t kPkeyNumber = 0x7fff;  // all but the membership bit; the default partition's

bool obeys(PayloadRule rule, size_t length, ParseError& reason) {
  switch (rule) {
    case PayloadRule::kNone:       reason = ParseError::kPayloadForbidden; return length == 0;
    case PayloadRule::kFullMtu:    // which MTU, only the queue pair knows
    case PayloadRule::kOneToMtu:   reason = ParseError::kPayloadMissing; return length != 0;
    case PayloadRule::kEightBytes: reason = ParseError::kPayloadLength; return length == 8;
    case PayloadRule::kUpToMtu:
    case PayloadRule::kOpaque:     return true;
  }
  return true;
}

// `bytes`: at least a BTH.
[[nodiscard]] Result<PacketView, ParseError> parse_headers(std::span<const uint8_t> bytes) {
  PacketView view;
  view.data = bytes.data();
  view.bth = Bth::read(bytes.data());
  view.info = &opcode_info(view.bth.opcode);
  if (view.bth.version != 0) return fail(ParseError::kBadVersion);
  if (!view.info->exists()) return fail(ParseError::kUnknownOpcode);
  if ((view.bth.pkey & kPkeyNumber) != kPkeyNumber) return fail(ParseError::kBadPkey);
  if (bytes.size() < view.info->header_bytes) return fail(ParseError::kHeadersCut);
  return view;
}

[[nodiscard]] Result<PacketView, ParseError> with_payload(PacketView view,
                                                          std::span<const uint8_t> payload) {
  view.payload = payload;
  if (payload.size() > kMaxMtu) return fail(ParseError::kTooLong);
  ParseError reason{};
  if (!obeys(view.info->payload, payload.size(), reason)) return fail(reason);
  return view;
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

Result<PacketView, ParseError> parse(std::span<const uint8_t> packet) {
  if (packet.size() < Bth::kBytes + kIcrcBytes) return fail(ParseError::kTooShort);
  if (packet.size() > kMaxPacketBytes) return fail(ParseError::kTooLong);
  auto view = parse_headers(packet.first(packet.size() - kIcrcBytes));
  if (!view) return view;

  const size_t header_bytes = view->info->header_bytes;
  const size_t body = packet.size() - header_bytes - kIcrcBytes;  // payload and pad
  if (body % 4 != 0 || view->bth.pad_bytes > body) return fail(ParseError::kBadPad);
  return with_payload(*view, packet.subspan(header_bytes, body - view->bth.pad_bytes));
}

Result<PacketView, ParseError> parse(std::span<const uint8_t> headers,
                                     std::span<const uint8_t> payload) {
  if (headers.size() < Bth::kBytes) return fail(ParseError::kTooShort);
  auto view = parse_headers(headers);
  if (!view) return view;
  if (headers.size() != view->info->header_bytes) return fail(ParseError::kHeadersCut);
  if ((payload.size() + view->bth.pad_bytes) % 4 != 0) return fail(ParseError::kBadPad);
  return with_payload(*view, payload);
}

}  // namespace verbena::wire
