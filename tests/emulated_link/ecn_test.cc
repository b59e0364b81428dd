// SPDX-License-Identifier: Apache-2.0
#include "emulated_link/ecn.h"

#include <array>
#include <cstdint>

#include <gtest/gtest.h>

#include "base/random.h"

namespace verbena::emulated {
namespace {

using Header = std::array<uint8_t, 20>;

// The sum of an IPv4 header, its checksum included: 0xffff if that is right.
[[nodiscard]] uint32_t sum_of(const Header& header) {
  uint32_t sum = 0;
  for (size_t i = 0; i < header.size(); i += 2) sum += uint32_t{header[i]} << 8 | header[i + 1];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

[[nodiscard]] Header ipv4_header(RandomSource& random, uint8_t ecn) {
  Header header{};
  for (uint8_t& byte : header) byte = static_cast<uint8_t>(random.next());
  header[0] = 0x45;
  header[1] = static_cast<uint8_t>((header[1] & 0xfc) | ecn);
  header[10] = header[11] = 0;
  const uint32_t sum = ~sum_of(header) & 0xffff;
  header[10] = static_cast<uint8_t>(sum >> 8);
  header[11] = static_cast<uint8_t>(sum);
  return header;
}

TEST(Ecn, MarkedIpv4HasARightChecksum) {
  SeededRandom random(1);
  for (int i = 0; i < 10'000; ++i) {
    for (const uint8_t ecn : std::array<uint8_t, 3>{1, 2, 3}) {
      Header header = ipv4_header(random, ecn);
      ASSERT_EQ(sum_of(header), 0xffffu);
      ASSERT_TRUE(is_ect(header));
      const auto dscp = static_cast<uint8_t>(header[1] & 0xfc);
      mark_ce(header);
      ASSERT_EQ(header[1], dscp | 3);
      ASSERT_EQ(sum_of(header), 0xffffu);
    }
  }
}

TEST(Ecn, Ipv6IsMarkedBesideTheTrafficClassAndTheFlow) {
  std::array<uint8_t, 40> header{0x6a, 0xaf};  // class 0xaa: ECT(0); flow 0xf....
  EXPECT_TRUE(is_ect(header));
  mark_ce(header);
  EXPECT_EQ(header[0], 0x6a);
  EXPECT_EQ(header[1], 0xbf);
}

TEST(Ecn, WhatIsNotCapableOrNotIpIsNotMarked) {
  SeededRandom random(1);
  EXPECT_FALSE(is_ect(ipv4_header(random, 0)));
  EXPECT_FALSE(is_ect(std::array<uint8_t, 40>{0x6a, 0x8f}));
  EXPECT_FALSE(is_ect(std::array<uint8_t, 20>{0x55, 0xff}));
  EXPECT_FALSE(is_ect(std::array<uint8_t, 19>{0x45, 0xff}));
  EXPECT_FALSE(is_ect({}));
}

}  // namespace
}  // namespace verbena::emulated
