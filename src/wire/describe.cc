// SPDX-License-Identifier: Apache-2.0
#include "wire/describe.h"

#include <bit>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>

#include "wire/extended_ack.h"

namespace verbena::wire {
namespace {

__attribute__((format(printf, 2, 3))) void add(std::string& line, const char* format, ...) {
  char text[160];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  line += text;
}

void add_bth(std::string& line, const Bth& bth) {
  add(line, " qp 0x%06" PRIx32 " psn 0x%06" PRIx32, bth.dest_qp.value, bth.psn.value());
  if (bth.ack_request) line += " ack";
  if (bth.solicited) line += " solicited";
  if (bth.migrated) line += " migrated";
  if (bth.fecn) line += " fecn";
  if (bth.becn) line += " becn";
}

void add_extensions(std::string& line, const PacketView& packet) {
  const OpcodeInfo& info = *packet.info;
  if (info.has(kRdeth)) add(line, " ee 0x%06" PRIx32, packet.rdeth().ee_context);
  if (info.has(kDeth)) {
    const Deth deth = packet.deth();
    add(line, " from qp 0x%06" PRIx32 " qkey 0x%08" PRIx32, deth.source_qp.value, deth.qkey);
  }
  if (info.has(kXrceth)) add(line, " srq 0x%06" PRIx32, packet.xrceth().srq.value);
  if (info.has(kFeth)) add(line, " flush 0x%02" PRIx32, packet.feth().word);
  if (info.has(kReth)) {
    const Reth reth = packet.reth();
    add(line, " va 0x%" PRIx64 " rkey 0x%08" PRIx32 " len %" PRIu32, reth.address, reth.rkey.value,
        reth.length);
  }
  if (info.has(kAtomicEth)) {
    const AtomicEth atomic = packet.atomic_eth();
    add(line, " va 0x%" PRIx64 " rkey 0x%08" PRIx32, atomic.address, atomic.rkey.value);
    if (info.operation == Operation::kFetchAdd) {
      add(line, " add 0x%" PRIx64, atomic.swap_add);
    } else {
      add(line, " compare 0x%" PRIx64 " swap 0x%" PRIx64, atomic.compare, atomic.swap_add);
    }
  }
  if (info.has(kAeth)) {
    const Aeth aeth = packet.aeth();
    line += ' ' + describe_syndrome(aeth.syndrome);
    add(line, " msn %" PRIu32, aeth.msn);
  }
  if (info.has(kAtomicAckEth)) add(line, " original 0x%" PRIx64, packet.atomic_ack_eth().original);
  if (info.has(kImmDt)) add(line, " imm 0x%08" PRIx32, packet.imm().value);
  if (info.has(kIeth)) add(line, " invalidate 0x%08" PRIx32, packet.ieth().rkey.value);
}

void add_extended_ack(std::string& line, const PacketView& packet) {
  const auto ack = ExtendedAck::read(packet.payload);
  if (!ack) return;
  uint32_t held = 0;
  for (uint32_t i = 0; i < ack->words(); ++i) held += std::popcount(ack->word(i));
  add(line, " holds %" PRIu32, held);
  if (ack->room != 0) add(line, " room %" PRIu32, uint32_t{ack->room} * ExtendedAck::kRoomUnit);
  if (ack->duplicate) add(line, " duplicate 0x%06" PRIx32, ack->duplicate->value());
}

const char* nak_name(uint8_t value) {
  switch (value) {
    case syndrome::kNakSequence:          return "NAK sequence error";
    case syndrome::kNakInvalidRequest:    return "NAK invalid request";
    case syndrome::kNakRemoteAccess:      return "NAK remote access error";
    case syndrome::kNakRemoteOperational: return "NAK remote operational error";
    case syndrome::kNakInvalidRdRequest:  return "NAK invalid RD request";
    default:                              return nullptr;
  }
}

}  // namespace

std::string describe_syndrome(uint8_t value) {
  std::string text;
  if (value == syndrome::kAckNoCredits) return "ACK";
  if ((value & syndrome::kKindMask) == syndrome::kAck) {
    add(text, "ACK credits %d", value & syndrome::kValueMask);
  } else if ((value & syndrome::kKindMask) == syndrome::kRnrNak) {
    add(text, "RNR NAK timer %d", value & syndrome::kValueMask);
  } else if (const char* name = nak_name(value)) {
    text = name;
  } else {
    add(text, "syndrome 0x%02x", value);
  }
  return text;
}

std::string describe(const PacketView& packet) {
  std::string line = packet.info->name;
  add_bth(line, packet.bth);
  add_extensions(line, packet);
  if (packet.info->operation == Operation::kAcknowledge) add_extended_ack(line, packet);
  if (!packet.payload.empty()) add(line, " | %zu bytes", packet.payload.size());
  return line;
}

}  // namespace verbena::wire
