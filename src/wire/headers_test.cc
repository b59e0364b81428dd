// SPDX-License-Identifier: Apache-2.0
// Each header's bits in their places, and read and write as inverses over every bit of it.
#include "wire/headers.h"

#include <vector>

#include <gtest/gtest.h>

#include "wire/test_packets.h"

namespace verbena::wire {
namespace {

template <typename Header>
std::vector<uint8_t> written(const Header& header) {
  std::vector<uint8_t> bytes(Header::kBytes, 0xaa);
  header.write(bytes.data());
  return bytes;
}

template <typename Header>
class EveryHeader : public testing::Test {};
using AllHeaders = testing::Types<Bth, Rdeth, Deth, Xrceth, Feth, Reth, AtomicEth, Aeth,
                                  AtomicAckEth, ImmDt, Ieth>;
TYPED_TEST_SUITE(EveryHeader, AllHeaders);

// Random bytes to a struct and back: no bit is lost, moved or invented.
TYPED_TEST(EveryHeader, ReadThenWriteGivesTheSameBytes) {
  SeededRandom random(1);
  for (int round = 0; round < 10'000; ++round) {
    const std::vector<uint8_t> bytes = random_bytes(random, TypeParam::kBytes);
    ASSERT_EQ(written(TypeParam::read(bytes.data())), bytes);
  }
}

TYPED_TEST(EveryHeader, WritesExactlyItsBytes) {
  std::vector<uint8_t> bytes(TypeParam::kBytes + 16, 0x5c);
  TypeParam{}.write(bytes.data() + 8);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(bytes[i], 0x5c);
    EXPECT_EQ(bytes[bytes.size() - 1 - i], 0x5c);
  }
}

TEST(Bth, BitsInTheirPlaces) {
  const Bth bth{.opcode = 0x0a,
                .solicited = true,
                .migrated = false,
                .pad_bytes = 3,
                .version = 0,
                .pkey = 0x7fff,
                .fecn = false,
                .becn = true,
                .reserved6 = 0x15,
                .dest_qp = Qpn(0x123456),
                .ack_request = true,
                .reserved7 = 0x2a,
                .psn = Psn(0xabcdef)};
  EXPECT_EQ(written(bth), from_hex("0ab07fff 55123456 aaabcdef"));
  const Bth migrated{.migrated = true, .version = 0xf, .fecn = true};
  EXPECT_EQ(written(migrated), from_hex("004fffff 80000000 00000000"));
}

TEST(Bth, ReadsARealAcknowledge) {
  const auto bytes = from_hex("1100ffff 0000003a 00c75ec8 1f000001");
  const Bth bth = Bth::read(bytes.data());
  EXPECT_EQ(bth.opcode, 0x11);
  EXPECT_FALSE(bth.solicited || bth.migrated || bth.ack_request || bth.fecn || bth.becn);
  EXPECT_EQ(bth.pkey, 0xffff);
  EXPECT_EQ(bth.dest_qp, Qpn(0x3a));
  EXPECT_EQ(bth.psn, Psn(0xc75ec8));
  const Aeth aeth = Aeth::read(bytes.data() + Bth::kBytes);
  EXPECT_EQ(aeth.syndrome, syndrome::kAckNoCredits);
  EXPECT_EQ(aeth.msn, 1u);
}

TEST(Headers, FieldsInTheirPlaces) {
  EXPECT_EQ(written(Reth{0x0102030405060708, RKey(0x090a0b0c), 0x0d0e0f10}),
            from_hex("0102030405060708 090a0b0c 0d0e0f10"));
  EXPECT_EQ(written(AtomicEth{0x0102030405060708, RKey(0x090a0b0c), 0x1112131415161718,
                              0x2122232425262728}),
            from_hex("0102030405060708 090a0b0c 1112131415161718 2122232425262728"));
  EXPECT_EQ(written(Aeth{syndrome::kNakRemoteAccess, 0x010203}), from_hex("62010203"));
  EXPECT_EQ(written(AtomicAckEth{0x0102030405060708}), from_hex("0102030405060708"));
  EXPECT_EQ(written(ImmDt{0x01020304}), from_hex("01020304"));
  EXPECT_EQ(written(Ieth{RKey(0x01020304)}), from_hex("01020304"));
  EXPECT_EQ(written(Deth{0x80010000, 0xee, Qpn(0x010203)}), from_hex("80010000 ee010203"));
  EXPECT_EQ(written(Xrceth{0xee, SrqId(0x010203)}), from_hex("ee010203"));
  EXPECT_EQ(written(Rdeth{0xee, 0x010203}), from_hex("ee010203"));
  EXPECT_EQ(written(Feth{0x00000021}), from_hex("00000021"));
}

}  // namespace
}  // namespace verbena::wire
