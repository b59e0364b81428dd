// SPDX-License-Identifier: Apache-2.0
#include "wire/extended_ack.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "wire/test_packets.h"

namespace verbena::wire {
namespace {

using Bytes = std::array<uint8_t, ExtendedAck::kMaxBytes>;

std::vector<uint8_t> written(const std::vector<uint32_t>& bits, uint16_t room = 0,
                             std::optional<Psn> duplicate = std::nullopt) {
  Bytes bytes;
  bytes.fill(0xaa);
  ExtendedAckWriter writer(bytes);
  for (const uint32_t word : bitmap_of(bits)) writer.append(word);
  const auto made = writer.finish(room, duplicate);
  return {made.begin(), made.end()};
}

TEST(ExtendedAck, HasItsBitsInTheirPlaces) {
  const std::vector<uint8_t> expected = {0x11, 0x02, 0x12, 0x34, 0x00, 0xab, 0xcd, 0xef,
                                         0x80, 0x00, 0x00, 0x01, 0x40, 0x00, 0x00, 0x00};
  EXPECT_EQ(written({0, 31, 33}, 0x1234, Psn(0xabcdef)), expected);
}

TEST(ExtendedAck, IsTrimmedToWhatIsHeld) {
  EXPECT_EQ(written({}).size(), ExtendedAck::kHeaderBytes);
  EXPECT_EQ(written({0}).size(), ExtendedAck::kHeaderBytes + 4);
  EXPECT_EQ(written({ExtendedAck::kMaxBits - 1}).size(), size_t{ExtendedAck::kMaxBytes});
  EXPECT_EQ(written({ExtendedAck::kMaxBits}).size(), size_t{ExtendedAck::kMaxBytes});  // cut off
}

TEST(ExtendedAck, ReadsWhatWasWritten) {
  SeededRandom random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint32_t> bits;
    std::array<bool, ExtendedAck::kMaxBits> held{};
    for (uint64_t i = random.below(50); i != 0; --i) {
      bits.push_back(static_cast<uint32_t>(random.below(ExtendedAck::kMaxBits)));
      held[bits.back()] = true;
    }
    const auto room = static_cast<uint16_t>(random.below(0x10000));
    std::optional<Psn> duplicate;
    if (random.below(2) == 0) duplicate = Psn(static_cast<uint32_t>(random.below(1 << 24)));
    const std::vector<uint8_t> bytes = written(bits, room, duplicate);
    const auto ack = ExtendedAck::read(bytes);
    ASSERT_TRUE(ack);
    EXPECT_EQ(ack->room, room);
    EXPECT_EQ(ack->duplicate, duplicate);
    for (uint32_t bit = 0; bit < ExtendedAck::kMaxBits + 40; ++bit) {
      ASSERT_EQ(ack->holds(bit), bit < ExtendedAck::kMaxBits && held[bit]) << bit;
    }
  }
}

TEST(ExtendedAck, RefusesWhatIsNone) {
  EXPECT_FALSE(ExtendedAck::read({}));
  std::vector<uint8_t> bytes = written({40});
  EXPECT_TRUE(ExtendedAck::read(bytes));
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(ExtendedAck::read(std::span(bytes).first(n))) << n;
  }
  std::vector<uint8_t> longer = bytes;
  longer.insert(longer.end(), 4, 0);
  EXPECT_FALSE(ExtendedAck::read(longer));
  std::vector<uint8_t> other_version = bytes;
  other_version[0] = 0x20;
  EXPECT_FALSE(ExtendedAck::read(other_version));
  for (const size_t words : {size_t{ExtendedAck::kMaxWords} + 1, size_t{256} + 255}) {
    std::vector<uint8_t> too_long(ExtendedAck::kHeaderBytes + words * 4, 0);
    too_long[0] = 0x10;
    too_long[1] = static_cast<uint8_t>(words);
    EXPECT_FALSE(ExtendedAck::read(too_long)) << words;
  }
}

TEST(ExtendedAck, IgnoresWhatIsReserved) {
  std::vector<uint8_t> bytes = written({3}, 7);
  bytes[0] |= 0x0e;
  bytes[4] = 0xff;
  const auto ack = ExtendedAck::read(bytes);
  ASSERT_TRUE(ack);
  EXPECT_FALSE(ack->duplicate);
  EXPECT_EQ(ack->room, 7);
  EXPECT_TRUE(ack->holds(3));
}

// The packet around it.
TEST(ExtendedAck, IsTakenBehindAnAcknowledge) {
  Headers headers;
  headers.bth.opcode = opcode_byte(Service::kRc, Op::kAcknowledge);
  std::vector<uint8_t> packet = encode(headers, written({1}));
  packet.resize(packet.size() + kIcrcBytes);
  const auto view = parse(packet);
  ASSERT_TRUE(view);
  const auto ack = ExtendedAck::read(view->payload);
  ASSERT_TRUE(ack);
  EXPECT_TRUE(ack->holds(1));

  std::vector<uint8_t> too_long = encode(headers, std::vector<uint8_t>(ExtendedAck::kMaxBytes + 4));
  too_long.resize(too_long.size() + kIcrcBytes);
  const auto refused = parse(too_long);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), ParseError::kPayloadForbidden);
}

}  // namespace
}  // namespace verbena::wire
