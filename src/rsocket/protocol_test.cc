// SPDX-License-Identifier: Apache-2.0
#include "rsocket/protocol.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace verbena::rsocket {
namespace {

TEST(RsocketProtocol, MessagesAreAsRdmaCoreHasThem) {
  EXPECT_EQ(encode(Op::kData, 5), 0x00000005U);
  EXPECT_EQ(encode(Op::kGrant, 384), 0x80000180U);
  EXPECT_EQ(encode(Op::kIomap, 3), 0xc0000003U);
  EXPECT_EQ(encode(Control::kDisconnect), 0xe0000000U);
  EXPECT_EQ(encode(Control::kShutdown), 0xe0000002U);
  const auto message = decode(0x80000180U);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->op, Op::kGrant);
  EXPECT_EQ(message->data, 384U);
}

TEST(RsocketProtocol, WhatNoPeerMaySayIsNone) {
  for (const uint32_t op : {1U, 2U, 3U, 5U}) EXPECT_FALSE(decode(op << 29 | 1)) << op;
  EXPECT_FALSE(decode(0xe0000003U));  // no such control message
}

[[nodiscard]] Greeting some_greeting() {
  return {.order = std::endian::little,
          .credits = 0x0180,
          .iomap_entries = 2,
          .list = {.address = 0x1122334455667788, .key = 0x01020304, .length = 2},
          .buffer = {.address = 0x99aabbccddeeff00, .key = 0x05060708, .length = 0x10000}};
}

TEST(RsocketProtocol, AGreetingHasTheseBytes) {
  const GreetingBytes wanted{1,    2,    0x01, 0x80, 0,    0,    0,    2,     // flags: has mappings
                             0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,  // list
                             1,    2,    3,    4,    0,    0,    0,    2,     //
                             0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x00,  // buffer
                             5,    6,    7,    8,    0,    1,    0,    0};
  EXPECT_EQ(encode(some_greeting()), wanted);
  const auto read = decode_greeting(wanted);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->order, std::endian::little);
  EXPECT_EQ(read->credits, 0x0180);
  EXPECT_EQ(read->iomap_entries, 2);
  EXPECT_EQ(read->list, some_greeting().list);
  EXPECT_EQ(read->buffer, some_greeting().buffer);
}

TEST(RsocketProtocol, AGreetingThatCouldNotWorkIsNone) {
  const GreetingBytes good = encode(some_greeting());
  EXPECT_FALSE(decode_greeting(std::span(good).first(kGreetingBytes - 1)));
  EXPECT_FALSE(decode_greeting({}));
  const auto with = [&](size_t place, uint8_t value) {
    GreetingBytes bytes = good;
    bytes[place] = value;
    return decode_greeting(bytes);
  };
  EXPECT_FALSE(with(0, 2));   // another version
  EXPECT_FALSE(with(23, 1));  // a list of one
  EXPECT_FALSE(with(37, 0));  // no buffer
  GreetingBytes no_credits = good;
  no_credits[2] = no_credits[3] = 0;
  EXPECT_FALSE(decode_greeting(no_credits));
  // Without the flag there are no mappings, whatever the byte says.
  EXPECT_EQ(with(1, 0)->iomap_entries, 0);
  EXPECT_EQ(with(1, 3)->order, std::endian::big);
}

TEST(RsocketProtocol, EntriesAreInTheOrderOfWhoseMemoryItIs) {
  const Mapping mapping{.offset = 1, .entry = {.address = 2, .key = 3, .length = 4}};
  const MappingBytes big = encode(mapping, std::endian::big);
  EXPECT_EQ(big[7], 1);
  EXPECT_EQ(big[15], 2);
  EXPECT_EQ(big[19], 3);
  EXPECT_EQ(big[23], 4);
  EXPECT_EQ(decode_mapping(big, std::endian::big), mapping);
  const MappingBytes little = encode(mapping, std::endian::little);
  EXPECT_EQ(little[0], 1);
  EXPECT_EQ(decode_mapping(little, std::endian::little), mapping);
}

TEST(RsocketProtocol, LargeNumbersOfMappingsAreRounded) {
  EXPECT_EQ(from_scale(to_scale(0)), 0);
  EXPECT_EQ(from_scale(to_scale(128)), 128);
  EXPECT_EQ(from_scale(to_scale(600)), 512);
  EXPECT_EQ(from_scale(to_scale(1U << 30)), 127 * 256);
}

}  // namespace
}  // namespace verbena::rsocket
