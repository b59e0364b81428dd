// SPDX-License-Identifier: Apache-2.0
// Builds the opcode table at compile time: the shape of each operation is stated once (IBA table
// 38), and each transport service says which of them it has and which headers it puts in front.
#include "wire/opcode.h"

#include <string_view>

#include "wire/headers.h"
#include "wire/packet.h"

namespace verbena::wire {
namespace {

// An operation as RC has it.
struct Shape {
  Op op;
  std::string_view name;
  Operation operation;
  Position position;
  uint16_t headers;
  PayloadRule payload;
};

using enum Position;
constexpr Shape kShapes[] = {
    {Op::kSendFirst, "SEND_FIRST", Operation::kSend, kFirst, kNoHeaders, PayloadRule::kFullMtu},
    {Op::kSendMiddle, "SEND_MIDDLE", Operation::kSend, kMiddle, kNoHeaders, PayloadRule::kFullMtu},
    {Op::kSendLast, "SEND_LAST", Operation::kSend, kLast, kNoHeaders, PayloadRule::kOneToMtu},
    {Op::kSendLastImm, "SEND_LAST_IMM", Operation::kSend, kLast, kImmDt, PayloadRule::kOneToMtu},
    {Op::kSendOnly, "SEND_ONLY", Operation::kSend, kOnly, kNoHeaders, PayloadRule::kUpToMtu},
    {Op::kSendOnlyImm, "SEND_ONLY_IMM", Operation::kSend, kOnly, kImmDt, PayloadRule::kUpToMtu},
    {Op::kWriteFirst, "WRITE_FIRST", Operation::kWrite, kFirst, kReth, PayloadRule::kFullMtu},
    {Op::kWriteMiddle, "WRITE_MIDDLE", Operation::kWrite, kMiddle, kNoHeaders,
     PayloadRule::kFullMtu},
    {Op::kWriteLast, "WRITE_LAST", Operation::kWrite, kLast, kNoHeaders, PayloadRule::kOneToMtu},
    {Op::kWriteLastImm, "WRITE_LAST_IMM", Operation::kWrite, kLast, kImmDt, PayloadRule::kOneToMtu},
    {Op::kWriteOnly, "WRITE_ONLY", Operation::kWrite, kOnly, kReth, PayloadRule::kUpToMtu},
    {Op::kWriteOnlyImm, "WRITE_ONLY_IMM", Operation::kWrite, kOnly, kReth | kImmDt,
     PayloadRule::kUpToMtu},
    {Op::kReadRequest, "READ_REQUEST", Operation::kReadRequest, kOnly, kReth, PayloadRule::kNone},
    {Op::kReadResponseFirst, "READ_RESPONSE_FIRST", Operation::kReadResponse, kFirst, kAeth,
     PayloadRule::kFullMtu},
    {Op::kReadResponseMiddle, "READ_RESPONSE_MIDDLE", Operation::kReadResponse, kMiddle, kNoHeaders,
     PayloadRule::kFullMtu},
    {Op::kReadResponseLast, "READ_RESPONSE_LAST", Operation::kReadResponse, kLast, kAeth,
     PayloadRule::kOneToMtu},
    {Op::kReadResponseOnly, "READ_RESPONSE_ONLY", Operation::kReadResponse, kOnly, kAeth,
     PayloadRule::kUpToMtu},
    {Op::kAcknowledge, "ACKNOWLEDGE", Operation::kAcknowledge, kOnly, kAeth,
     PayloadRule::kExtension},
    {Op::kAtomicAcknowledge, "ATOMIC_ACKNOWLEDGE", Operation::kAtomicAcknowledge, kOnly,
     kAeth | kAtomicAckEth, PayloadRule::kNone},
    {Op::kCompareSwap, "COMPARE_SWAP", Operation::kCompareSwap, kOnly, kAtomicEth,
     PayloadRule::kNone},
    {Op::kFetchAdd, "FETCH_ADD", Operation::kFetchAdd, kOnly, kAtomicEth, PayloadRule::kNone},
    {Op::kResync, "RESYNC", Operation::kResync, kOnly, kNoHeaders, PayloadRule::kNone},
    {Op::kSendLastInvalidate, "SEND_LAST_INVALIDATE", Operation::kSend, kLast, kIeth,
     PayloadRule::kOneToMtu},
    {Op::kSendOnlyInvalidate, "SEND_ONLY_INVALIDATE", Operation::kSend, kOnly, kIeth,
     PayloadRule::kUpToMtu},
    {Op::kFlush, "FLUSH", Operation::kFlush, kOnly, kFeth | kReth, PayloadRule::kNone},
    {Op::kAtomicWrite, "ATOMIC_WRITE", Operation::kAtomicWrite, kOnly, kReth,
     PayloadRule::kEightBytes},
};

struct Profile {
  Service service;
  std::string_view name;
  uint16_t request_headers;  // in front of the operation's own
  uint16_t response_headers;
};
constexpr Profile kProfiles[] = {
    {Service::kRc, "RC", kNoHeaders, kNoHeaders}, {Service::kUc, "UC", kNoHeaders, kNoHeaders},
    {Service::kRd, "RD", kRdeth | kDeth, kRdeth}, {Service::kUd, "UD", kDeth, kNoHeaders},
    {Service::kXrc, "XRC", kXrceth, kNoHeaders},
};

constexpr bool has_operation(Service service, Op op) {
  switch (service) {
    case Service::kRc:
    case Service::kXrc: return op != Op::kResync;
    case Service::kUc:  return op <= Op::kWriteOnlyImm;
    case Service::kRd:  return op <= Op::kResync;
    case Service::kUd:  return op == Op::kSendOnly || op == Op::kSendOnlyImm;
    case Service::kCnp: return false;
  }
  return false;
}

constexpr std::array<uint32_t, kHeaderKinds> kSizes = {
    Rdeth::kBytes,     Deth::kBytes, Xrceth::kBytes,       Feth::kBytes,  Reth::kBytes,
    AtomicEth::kBytes, Aeth::kBytes, AtomicAckEth::kBytes, ImmDt::kBytes, Ieth::kBytes,
};

constexpr void lay_out(OpcodeInfo& info) {
  uint32_t offset = Bth::kBytes;
  for (size_t kind = 0; kind < kHeaderKinds; ++kind) {
    if ((info.headers & (1u << kind)) == 0) continue;
    info.offsets[kind] = static_cast<uint8_t>(offset);
    offset += kSizes[kind];
  }
  info.header_bytes = static_cast<uint8_t>(offset);
}

using Name = std::array<char, 32>;  // ends in at least one NUL

constexpr Name join(std::string_view service, std::string_view operation) {
  Name name{};
  size_t length = 0;
  for (const char c : service) name[length++] = c;
  name[length++] = ' ';
  for (const char c : operation) name[length++] = c;
  return name;
}

constexpr std::array<Name, 256> kNames = [] {
  std::array<Name, 256> names{};
  for (const Profile& profile : kProfiles) {
    for (const Shape& shape : kShapes) {
      names[opcode_byte(profile.service, shape.op)] = join(profile.name, shape.name);
    }
  }
  return names;
}();

constexpr std::array<OpcodeInfo, 256> build() {
  std::array<OpcodeInfo, 256> table{};
  for (const Profile& profile : kProfiles) {
    for (const Shape& shape : kShapes) {
      if (!has_operation(profile.service, shape.op)) continue;
      const uint8_t opcode = opcode_byte(profile.service, shape.op);
      OpcodeInfo& info = table[opcode];
      info.name = kNames[opcode].data();
      info.service = profile.service;
      info.op = shape.op;
      info.operation = shape.operation;
      info.position = shape.position;
      info.headers =
          static_cast<uint16_t>(shape.headers | (info.is_response() ? profile.response_headers
                                                                    : profile.request_headers));
      info.payload = profile.service == Service::kRd ? PayloadRule::kOpaque : shape.payload;
      lay_out(info);
    }
  }
  OpcodeInfo& cnp = table[opcode_byte(Service::kCnp, kCnpOp)];
  cnp.name = "CNP";
  cnp.service = Service::kCnp;
  cnp.op = kCnpOp;
  cnp.operation = Operation::kCongestionNotification;
  cnp.payload = PayloadRule::kOpaque;
  lay_out(cnp);
  return table;
}

constexpr bool fits(const std::array<OpcodeInfo, 256>& table) {
  for (const OpcodeInfo& info : table) {
    if (info.header_bytes > kMaxHeaderBytes) return false;
  }
  return true;
}

}  // namespace

constexpr std::array<OpcodeInfo, 256> kOpcodes = build();
static_assert(fits(kOpcodes), "a header chain is longer than kMaxHeaderBytes");

}  // namespace verbena::wire
