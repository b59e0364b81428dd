// SPDX-License-Identifier: Apache-2.0
// The parser: each reason to refuse, by name; and any bytes at all.
#include "wire/packet.h"

#include <array>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "wire/test_packets.h"

namespace verbena::wire {
namespace {

constexpr uint8_t kSendOnly = opcode_byte(Service::kRc, Op::kSendOnly);

// Headers of zeros for `opcode`, `body` bytes of which `pad` are pad, and room for the ICRC.
std::vector<uint8_t> raw(uint8_t opcode, size_t body, uint8_t pad = 0) {
  std::vector<uint8_t> bytes(opcode_info(opcode).header_bytes + body + kIcrcBytes);
  Bth bth{.opcode = opcode, .pad_bytes = pad};
  bth.write(bytes.data());
  return bytes;
}

ParseError parse_reason(const std::vector<uint8_t>& bytes) {
  const auto packet = parse(bytes);
  return packet ? ParseError::kCount : packet.error();
}

TEST(Parse, TooShort) {
  const auto whole = raw(kSendOnly, 0);
  EXPECT_EQ(parse_reason(whole), ParseError::kCount);
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_EQ(parse_reason({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length)}),
              ParseError::kTooShort);
  }
}

TEST(Parse, TooLong) {
  EXPECT_EQ(parse_reason(raw(kSendOnly, 4096)), ParseError::kCount);
  EXPECT_EQ(parse_reason(raw(kSendOnly, 4100, 3)), ParseError::kTooLong);  // 4097 of payload
  EXPECT_EQ(parse_reason(raw(kSendOnly, 70'000)), ParseError::kTooLong);
  EXPECT_EQ(parse_reason(raw(opcode_byte(Service::kRd, Op::kSendOnly), 4096)), ParseError::kCount);
}

TEST(Parse, UnknownOpcode) {
  for (int opcode = 0; opcode < 256; ++opcode) {
    auto bytes = raw(kSendOnly, 64);
    bytes[0] = static_cast<uint8_t>(opcode);
    EXPECT_EQ(parse_reason(bytes) == ParseError::kUnknownOpcode,
              !opcode_info(static_cast<uint8_t>(opcode)).exists())
        << opcode;
  }
}

TEST(Parse, BadVersion) {
  for (uint8_t version = 1; version < 16; ++version) {
    auto bytes = raw(kSendOnly, 0);
    bytes[1] |= version;
    EXPECT_EQ(parse_reason(bytes), ParseError::kBadVersion);
  }
}

TEST(Parse, BadPkey) {
  auto bytes = raw(kSendOnly, 0);
  for (const uint16_t pkey : std::to_array<uint16_t>({0xffff, 0x7fff})) {
    store_be16(bytes.data() + 2, pkey);
    EXPECT_EQ(parse_reason(bytes), ParseError::kCount);
  }
  for (const uint16_t pkey :
       std::to_array<uint16_t>({0x0000, 0x8000, 0x8001, 0xfffe, 0x7ffe, 0x3fff})) {
    store_be16(bytes.data() + 2, pkey);
    EXPECT_EQ(parse_reason(bytes), ParseError::kBadPkey) << pkey;
  }
}

TEST(Parse, HeadersCut) {
  for (int opcode = 0; opcode < 256; ++opcode) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    if (!info.exists()) continue;
    auto bytes = raw(static_cast<uint8_t>(opcode), 0);
    while (bytes.size() > Bth::kBytes + kIcrcBytes) {
      bytes.pop_back();
      EXPECT_EQ(parse_reason(bytes), ParseError::kHeadersCut) << info.name << " " << bytes.size();
    }
  }
}

TEST(Parse, BadPad) {
  for (const size_t body : {1, 2, 3, 5, 6, 7}) {
    EXPECT_EQ(parse_reason(raw(kSendOnly, body)), ParseError::kBadPad) << body;
  }
  for (const uint8_t pad : std::to_array<uint8_t>({1, 2, 3})) {
    EXPECT_EQ(parse_reason(raw(kSendOnly, 0, pad)), ParseError::kBadPad);
    EXPECT_EQ(parse_reason(raw(kSendOnly, 4, pad)), ParseError::kCount);
  }
}

TEST(Parse, PayloadForbidden) {
  for (const Op op : {Op::kReadRequest, Op::kAcknowledge, Op::kAtomicAcknowledge, Op::kCompareSwap,
                      Op::kFetchAdd, Op::kFlush}) {
    EXPECT_EQ(parse_reason(raw(opcode_byte(Service::kRc, op), 0)), ParseError::kCount);
    EXPECT_EQ(parse_reason(raw(opcode_byte(Service::kRc, op), 4)), ParseError::kPayloadForbidden);
    EXPECT_EQ(parse_reason(raw(opcode_byte(Service::kXrc, op), 4, 3)),
              ParseError::kPayloadForbidden);
  }
}

TEST(Parse, PayloadMissing) {
  for (const Op op :
       {Op::kSendFirst, Op::kSendMiddle, Op::kSendLast, Op::kSendLastImm, Op::kSendLastInvalidate,
        Op::kWriteFirst, Op::kWriteMiddle, Op::kWriteLast, Op::kWriteLastImm,
        Op::kReadResponseFirst, Op::kReadResponseMiddle, Op::kReadResponseLast}) {
    EXPECT_EQ(parse_reason(raw(opcode_byte(Service::kRc, op), 0)), ParseError::kPayloadMissing);
    EXPECT_EQ(parse_reason(raw(opcode_byte(Service::kRc, op), 4, 3)), ParseError::kCount);
  }
}

TEST(Parse, PayloadLength) {
  const uint8_t opcode = opcode_byte(Service::kRc, Op::kAtomicWrite);
  EXPECT_EQ(parse_reason(raw(opcode, 8)), ParseError::kCount);
  EXPECT_EQ(parse_reason(raw(opcode, 0)), ParseError::kPayloadLength);
  EXPECT_EQ(parse_reason(raw(opcode, 4)), ParseError::kPayloadLength);
  EXPECT_EQ(parse_reason(raw(opcode, 8, 1)), ParseError::kPayloadLength);
  EXPECT_EQ(parse_reason(raw(opcode, 12)), ParseError::kPayloadLength);
}

TEST(Parse, EveryReasonHasItsOwnWords) {
  std::set<std::string> words;
  for (int i = 0; i <= static_cast<int>(ParseError::kCount); ++i) {
    words.insert(to_string(static_cast<ParseError>(i)));
  }
  EXPECT_EQ(words.size(), static_cast<size_t>(ParseError::kCount) + 1);
}

TEST(Parse, ViewPointsIntoThePacket) {
  SeededRandom random(1);
  Headers headers = random_headers(random, opcode_byte(Service::kXrc, Op::kWriteOnlyImm));
  const std::vector<uint8_t> payload = random_bytes(random, 101);
  const auto bytes = seal(random_flow(random, true), encode(headers, payload));
  const auto packet = parse(bytes);
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->data, bytes.data());
  EXPECT_EQ(packet->payload.data(), bytes.data() + 36);
  EXPECT_EQ(packet->payload.size(), 101u);
  EXPECT_EQ(packet->bth.pad_bytes, 3);
  EXPECT_EQ(packet->xrceth().srq, headers.xrceth.srq);
  EXPECT_EQ(packet->reth().address, headers.reth.address);
  EXPECT_EQ(packet->imm().value, headers.imm.value);
}

TEST(Parse, CongestionNotificationAndReliableDatagramAreNamed) {
  const auto cnp = parse(raw(0x81, 16));
  ASSERT_TRUE(cnp);
  EXPECT_EQ(cnp->info->operation, Operation::kCongestionNotification);
  const auto rd = parse(raw(opcode_byte(Service::kRd, Op::kCompareSwap), 0));
  ASSERT_TRUE(rd);
  EXPECT_EQ(rd->info->service, Service::kRd);
}

// Any bytes: a view that stays inside them, or a reason. AddressSanitizer watches the edges.
TEST(Parse, RandomBytesNeverLeadOutside) {
  SeededRandom random(2);
  std::array<int, static_cast<size_t>(ParseError::kCount) + 1> outcomes{};
  for (int round = 0; round < 100'000; ++round) {
    auto bytes = random_bytes(random, random.below(random.below(100) == 0 ? 5000 : 80));
    if (bytes.size() >= 4 && random.below(4) != 0) {  // let most through the first gates
      bytes[1] &= 0xf0;
      bytes[2] |= 0x7f;
      bytes[3] = 0xff;
    }
    const auto packet = parse(bytes);
    ++outcomes[static_cast<size_t>(packet ? ParseError::kCount : packet.error())];
    if (!packet) continue;
    ASSERT_GE(packet->payload.data(), bytes.data() + packet->info->header_bytes);
    ASSERT_EQ(packet->payload.data() + packet->payload.size() + packet->bth.pad_bytes + kIcrcBytes,
              bytes.data() + bytes.size());
    const Headers headers = decode(*packet);  // reads every header
    ASSERT_EQ(headers.bth.opcode, bytes[0]);
  }
  for (size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_GT(outcomes[i], 0) << to_string(static_cast<ParseError>(i));
  }
}

}  // namespace
}  // namespace verbena::wire
