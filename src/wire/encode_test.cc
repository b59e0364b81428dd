// SPDX-License-Identifier: Apache-2.0
// decode and encode are inverse for every opcode, whatever the fields hold.
#include "wire/encode.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "wire/describe.h"
#include "wire/test_packets.h"

namespace verbena::wire {
namespace {

TEST(Encode, EveryOpcodeSurvivesTheRoundTrip) {
  SeededRandom random(1);
  for (int opcode = 0; opcode < 256; ++opcode) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    if (!info.exists()) continue;
    for (int round = 0; round < 200; ++round) {
      const Headers headers = random_headers(random, static_cast<uint8_t>(opcode));
      const auto payload = random_bytes(random, random_payload_length(random, info));
      std::vector<uint8_t> bytes = encode(headers, payload);
      ASSERT_EQ(bytes.size() % 4, 0u);
      const std::vector<uint8_t> covered = bytes;
      bytes.resize(bytes.size() + kIcrcBytes);

      const auto packet = parse(bytes);
      ASSERT_TRUE(packet) << info.name << ": " << to_string(packet.error());
      ASSERT_TRUE(std::ranges::equal(packet->payload, payload));
      ASSERT_EQ(encode(decode(*packet), packet->payload), covered) << describe(*packet);
    }
  }
}

TEST(Encode, KnownBytes) {
  // Frame 3 of corrupt-icrc-write: what rxe sent.
  Headers ack;
  ack.bth.opcode = opcode_byte(Service::kRc, Op::kAcknowledge);
  ack.bth.dest_qp = Qpn(0x3a);
  ack.bth.psn = Psn(0xc75ec8);
  ack.aeth = {syndrome::kAckNoCredits, 1};
  EXPECT_EQ(encode(ack, {}), from_hex("1100ffff 0000003a 00c75ec8 1f000001"));

  Headers send;
  send.bth.opcode = opcode_byte(Service::kUd, Op::kSendOnlyImm);
  send.bth.pad_bytes = 1;  // ignored: the payload decides
  send.deth = {0x11111111, 0, Qpn(0x12)};
  send.imm = {0xdeadbeef};
  EXPECT_EQ(encode(send, from_hex("010203040506")),
            from_hex("6520ffff 00000000 00000000 11111111 00000012 deadbeef 01020304 05060000"));
}

TEST(Encode, PadIsZeroAndCounted) {
  Headers send;
  send.bth.opcode = opcode_byte(Service::kRc, Op::kSendOnly);
  for (size_t length = 0; length < 9; ++length) {
    const auto bytes = encode(send, std::vector<uint8_t>(length, 0xee));
    const uint8_t pad = Bth::read(bytes.data()).pad_bytes;
    EXPECT_EQ((length + pad) % 4, 0u);
    EXPECT_LT(pad, 4);
    EXPECT_EQ(bytes.size(), Bth::kBytes + length + pad);
    for (size_t i = 0; i < pad; ++i) EXPECT_EQ(bytes[bytes.size() - 1 - i], 0);
  }
}

}  // namespace
}  // namespace verbena::wire
