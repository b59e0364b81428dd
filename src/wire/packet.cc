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

// These fill a view where it stays: it was written byte by byte a moment ago, and a processor that
// copies it in larger pieces waits for each.
using Parsed = Result<PacketView, ParseError>;

// `bytes`: at least a BTH.
[[nodiscard]] bool read_headers(Parsed& parsed, std::span<const uint8_t> bytes) {
  const auto refuse = [&](ParseError reason) {
    parsed = fail(reason);
    return false;
  };
  PacketView& view = *parsed;
  view.data = bytes.data();
  view.bth = Bth::read(bytes.data());
  view.info = &opcode_info(view.bth.opcode);
  if (view.bth.version != 0) return refuse(ParseError::kBadVersion);
  if (!view.info->exists()) return refuse(ParseError::kUnknownOpcode);
  if ((view.bth.pkey & kPkeyNumber) != kPkeyNumber) return refuse(ParseError::kBadPkey);
  if (bytes.size() < view.info->header_bytes) return refuse(ParseError::kHeadersCut);
  return true;
}

void add_payload(Parsed& parsed, std::span<const uint8_t> payload) {
  parsed->payload = payload;
  ParseError reason = ParseError::kTooLong;
  if (payload.size() > kMaxMtu || !obeys(parsed->info->payload, payload.size(), reason)) {
    parsed = fail(reason);
  }
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
  Parsed parsed;
  if (packet.size() < Bth::kBytes + kIcrcBytes) {
    parsed = fail(ParseError::kTooShort);
  } else if (packet.size() > kMaxPacketBytes) {
    parsed = fail(ParseError::kTooLong);
  } else if (read_headers(parsed, packet.first(packet.size() - kIcrcBytes))) {
    const size_t header_bytes = parsed->info->header_bytes;
    const size_t body = packet.size() - header_bytes - kIcrcBytes;  // payload and pad
    if (body % 4 != 0 || parsed->bth.pad_bytes > body) {
      parsed = fail(ParseError::kBadPad);
    } else {
      add_payload(parsed, packet.subspan(header_bytes, body - parsed->bth.pad_bytes));
    }
  }
  return parsed;
}

Result<PacketView, ParseError> parse(std::span<const uint8_t> headers,
                                     std::span<const uint8_t> payload) {
  Parsed parsed;
  if (headers.size() < Bth::kBytes) {
    parsed = fail(ParseError::kTooShort);
  } else if (read_headers(parsed, headers)) {
    if (headers.size() != parsed->info->header_bytes) {
      parsed = fail(ParseError::kHeadersCut);
    } else if ((payload.size() + parsed->bth.pad_bytes) % 4 != 0) {
      parsed = fail(ParseError::kBadPad);
    } else {
      add_payload(parsed, payload);
    }
  }
  return parsed;
}

}  // namespace verbena::wire
