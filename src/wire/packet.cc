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

  PacketView view;
  view.data = packet.data();
  view.bth = Bth::read(packet.data());
  view.info = &opcode_info(view.bth.opcode);
  if (view.bth.version != 0) return fail(ParseError::kBadVersion);
  if (!view.info->exists()) return fail(ParseError::kUnknownOpcode);
  if ((view.bth.pkey & kPkeyNumber) != kPkeyNumber) return fail(ParseError::kBadPkey);

  const size_t header_bytes = view.info->header_bytes;
  if (packet.size() < header_bytes + kIcrcBytes) return fail(ParseError::kHeadersCut);
  const size_t body = packet.size() - header_bytes - kIcrcBytes;  // payload and pad
  if (body % 4 != 0 || view.bth.pad_bytes > body) return fail(ParseError::kBadPad);
  view.payload = packet.subspan(header_bytes, body - view.bth.pad_bytes);
  if (view.payload.size() > kMaxMtu) return fail(ParseError::kTooLong);

  ParseError reason{};
  if (!obeys(view.info->payload, view.payload.size(), reason)) return fail(reason);
  return view;
}

}  // namespace verbena::wire
