// SPDX-License-Identifier: Apache-2.0
// The table against the standard's, opcode by opcode, and what must hold for all of it.
#include "wire/opcode.h"

#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "wire/headers.h"
#include "wire/packet.h"

namespace verbena::wire {
namespace {

// Name, header bytes with BTH: IBA table 38 and annexes A14, A17, A19, not taken from the code.
const std::map<int, std::pair<std::string, int>> kExpected = {
    {0x00, {"RC SEND_FIRST", 12}},
    {0x01, {"RC SEND_MIDDLE", 12}},
    {0x02, {"RC SEND_LAST", 12}},
    {0x03, {"RC SEND_LAST_IMM", 16}},
    {0x04, {"RC SEND_ONLY", 12}},
    {0x05, {"RC SEND_ONLY_IMM", 16}},
    {0x06, {"RC WRITE_FIRST", 28}},
    {0x07, {"RC WRITE_MIDDLE", 12}},
    {0x08, {"RC WRITE_LAST", 12}},
    {0x09, {"RC WRITE_LAST_IMM", 16}},
    {0x0a, {"RC WRITE_ONLY", 28}},
    {0x0b, {"RC WRITE_ONLY_IMM", 32}},
    {0x0c, {"RC READ_REQUEST", 28}},
    {0x0d, {"RC READ_RESPONSE_FIRST", 16}},
    {0x0e, {"RC READ_RESPONSE_MIDDLE", 12}},
    {0x0f, {"RC READ_RESPONSE_LAST", 16}},
    {0x10, {"RC READ_RESPONSE_ONLY", 16}},
    {0x11, {"RC ACKNOWLEDGE", 16}},
    {0x12, {"RC ATOMIC_ACKNOWLEDGE", 24}},
    {0x13, {"RC COMPARE_SWAP", 40}},
    {0x14, {"RC FETCH_ADD", 40}},
    {0x16, {"RC SEND_LAST_INVALIDATE", 16}},
    {0x17, {"RC SEND_ONLY_INVALIDATE", 16}},
    {0x1c, {"RC FLUSH", 32}},
    {0x1d, {"RC ATOMIC_WRITE", 28}},
    {0x20, {"UC SEND_FIRST", 12}},
    {0x21, {"UC SEND_MIDDLE", 12}},
    {0x22, {"UC SEND_LAST", 12}},
    {0x23, {"UC SEND_LAST_IMM", 16}},
    {0x24, {"UC SEND_ONLY", 12}},
    {0x25, {"UC SEND_ONLY_IMM", 16}},
    {0x26, {"UC WRITE_FIRST", 28}},
    {0x27, {"UC WRITE_MIDDLE", 12}},
    {0x28, {"UC WRITE_LAST", 12}},
    {0x29, {"UC WRITE_LAST_IMM", 16}},
    {0x2a, {"UC WRITE_ONLY", 28}},
    {0x2b, {"UC WRITE_ONLY_IMM", 32}},
    {0x40, {"RD SEND_FIRST", 24}},
    {0x41, {"RD SEND_MIDDLE", 24}},
    {0x42, {"RD SEND_LAST", 24}},
    {0x43, {"RD SEND_LAST_IMM", 28}},
    {0x44, {"RD SEND_ONLY", 24}},
    {0x45, {"RD SEND_ONLY_IMM", 28}},
    {0x46, {"RD WRITE_FIRST", 40}},
    {0x47, {"RD WRITE_MIDDLE", 24}},
    {0x48, {"RD WRITE_LAST", 24}},
    {0x49, {"RD WRITE_LAST_IMM", 28}},
    {0x4a, {"RD WRITE_ONLY", 40}},
    {0x4b, {"RD WRITE_ONLY_IMM", 44}},
    {0x4c, {"RD READ_REQUEST", 40}},
    {0x4d, {"RD READ_RESPONSE_FIRST", 20}},
    {0x4e, {"RD READ_RESPONSE_MIDDLE", 16}},
    {0x4f, {"RD READ_RESPONSE_LAST", 20}},
    {0x50, {"RD READ_RESPONSE_ONLY", 20}},
    {0x51, {"RD ACKNOWLEDGE", 20}},
    {0x52, {"RD ATOMIC_ACKNOWLEDGE", 28}},
    {0x53, {"RD COMPARE_SWAP", 52}},
    {0x54, {"RD FETCH_ADD", 52}},
    {0x55, {"RD RESYNC", 24}},
    {0x64, {"UD SEND_ONLY", 20}},
    {0x65, {"UD SEND_ONLY_IMM", 24}},
    {0x81, {"CNP", 12}},
    {0xa0, {"XRC SEND_FIRST", 16}},
    {0xa1, {"XRC SEND_MIDDLE", 16}},
    {0xa2, {"XRC SEND_LAST", 16}},
    {0xa3, {"XRC SEND_LAST_IMM", 20}},
    {0xa4, {"XRC SEND_ONLY", 16}},
    {0xa5, {"XRC SEND_ONLY_IMM", 20}},
    {0xa6, {"XRC WRITE_FIRST", 32}},
    {0xa7, {"XRC WRITE_MIDDLE", 16}},
    {0xa8, {"XRC WRITE_LAST", 16}},
    {0xa9, {"XRC WRITE_LAST_IMM", 20}},
    {0xaa, {"XRC WRITE_ONLY", 32}},
    {0xab, {"XRC WRITE_ONLY_IMM", 36}},
    {0xac, {"XRC READ_REQUEST", 32}},
    {0xad, {"XRC READ_RESPONSE_FIRST", 16}},
    {0xae, {"XRC READ_RESPONSE_MIDDLE", 12}},
    {0xaf, {"XRC READ_RESPONSE_LAST", 16}},
    {0xb0, {"XRC READ_RESPONSE_ONLY", 16}},
    {0xb1, {"XRC ACKNOWLEDGE", 16}},
    {0xb2, {"XRC ATOMIC_ACKNOWLEDGE", 24}},
    {0xb3, {"XRC COMPARE_SWAP", 44}},
    {0xb4, {"XRC FETCH_ADD", 44}},
    {0xb6, {"XRC SEND_LAST_INVALIDATE", 20}},
    {0xb7, {"XRC SEND_ONLY_INVALIDATE", 20}},
    {0xbc, {"XRC FLUSH", 36}},
    {0xbd, {"XRC ATOMIC_WRITE", 32}},
};

TEST(Opcode, EveryByteIsWhatTheStandardSays) {
  for (int opcode = 0; opcode < 256; ++opcode) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    const auto expected = kExpected.find(opcode);
    ASSERT_EQ(info.exists(), expected != kExpected.end()) << std::hex << opcode;
    if (!info.exists()) continue;
    EXPECT_EQ(info.name, expected->second.first);
    EXPECT_EQ(info.header_bytes, expected->second.second) << info.name;
    EXPECT_EQ(opcode_byte(info.service, info.op), opcode) << info.name;
  }
}

TEST(Opcode, HeadersLieBehindOneAnotherInOrder) {
  constexpr uint32_t kSizes[kHeaderKinds] = {4, 8, 4, 4, 16, 28, 4, 8, 4, 4};
  for (const OpcodeInfo& info : kOpcodes) {
    if (!info.exists()) continue;
    uint32_t offset = Bth::kBytes;
    for (size_t kind = 0; kind < kHeaderKinds; ++kind) {
      const auto header = static_cast<HeaderSet>(1 << kind);
      if (!info.has(header)) {
        EXPECT_EQ(info.offsets[kind], 0) << info.name;
        continue;
      }
      EXPECT_EQ(info.offset_of(header), offset) << info.name;
      offset += kSizes[kind];
    }
    EXPECT_EQ(info.header_bytes, offset) << info.name;
    EXPECT_EQ(info.header_bytes % 4, 0) << info.name;
    EXPECT_LE(info.header_bytes, kMaxHeaderBytes) << info.name;
  }
}

TEST(Opcode, FlushCarriesFethBeforeReth) {
  const OpcodeInfo& flush = opcode_info(opcode_byte(Service::kXrc, Op::kFlush));
  EXPECT_LT(flush.offset_of(kXrceth), flush.offset_of(kFeth));
  EXPECT_LT(flush.offset_of(kFeth), flush.offset_of(kReth));
}

TEST(Opcode, NamesSayPositionAndHeaders) {
  for (const OpcodeInfo& info : kOpcodes) {
    if (!info.exists()) continue;
    const std::string name = info.name;
    EXPECT_EQ(info.position == Position::kFirst, name.contains("FIRST")) << name;
    EXPECT_EQ(info.position == Position::kMiddle, name.contains("MIDDLE")) << name;
    EXPECT_EQ(info.position == Position::kLast, name.contains("LAST")) << name;
    EXPECT_EQ(info.has(kImmDt), name.contains("IMM")) << name;
    EXPECT_EQ(info.has(kIeth), name.contains("INVALIDATE")) << name;
    EXPECT_EQ(info.is_response(), name.contains("RESPONSE") || name.contains("ACKNOWLEDGE"))
        << name;
    EXPECT_EQ(info.has(kRdeth), info.service == Service::kRd) << name;
    EXPECT_EQ(info.has(kXrceth), info.service == Service::kXrc && !info.is_response()) << name;
    EXPECT_EQ(info.has(kAtomicEth), name.contains("COMPARE_SWAP") || name.contains("FETCH_ADD"));
    // A middle says nothing of its message, so a response's carries no AETH either.
    EXPECT_EQ(info.has(kAeth), info.is_response() && info.position != Position::kMiddle) << name;
    const bool starts_remote_access =
        (info.operation == Operation::kWrite && info.starts_message()) ||
        name.contains("READ_REQUEST") || name.contains("FLUSH") || name.contains("ATOMIC_WRITE");
    EXPECT_EQ(info.has(kReth), starts_remote_access) << name;
  }
}

TEST(Opcode, PayloadRulesFollowPosition) {
  for (const OpcodeInfo& info : kOpcodes) {
    if (!info.exists()) continue;
    if (info.service == Service::kRd || info.service == Service::kCnp) {
      EXPECT_EQ(info.payload, PayloadRule::kOpaque) << info.name;
      continue;
    }
    const bool carries_data = info.operation == Operation::kSend ||
                              info.operation == Operation::kWrite ||
                              info.operation == Operation::kReadResponse;
    if (!carries_data) {
      const PayloadRule rule = info.operation == Operation::kAtomicWrite ? PayloadRule::kEightBytes
                               : info.operation == Operation::kAcknowledge ? PayloadRule::kExtension
                                                                           : PayloadRule::kNone;
      EXPECT_EQ(info.payload, rule) << info.name;
    } else if (info.position == Position::kOnly) {
      EXPECT_EQ(info.payload, PayloadRule::kUpToMtu) << info.name;
    } else if (info.position == Position::kLast) {
      EXPECT_EQ(info.payload, PayloadRule::kOneToMtu) << info.name;
    } else {
      EXPECT_EQ(info.payload, PayloadRule::kFullMtu) << info.name;
    }
  }
}

TEST(Opcode, UnreliableServicesHaveNothingToAnswer) {
  for (const OpcodeInfo& info : kOpcodes) {
    if (!info.exists() || (info.service != Service::kUc && info.service != Service::kUd)) continue;
    EXPECT_FALSE(info.is_response()) << info.name;
    EXPECT_TRUE(info.operation == Operation::kSend || info.operation == Operation::kWrite);
  }
}

}  // namespace
}  // namespace verbena::wire
