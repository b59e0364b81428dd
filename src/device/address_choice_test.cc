// SPDX-License-Identifier: Apache-2.0
#include "device/address_choice.h"

#include <cstring>

#include <gtest/gtest.h>

namespace verbena::device {
namespace {

using wire::Gid;

Gid ipv6(std::initializer_list<uint8_t> first, uint8_t last) {
  Gid gid;
  std::ranges::copy(first, gid.bytes.begin());
  gid.bytes[15] = last;
  return gid;
}

TEST(AddressChoice, OffersAllWhenNothingIsChosen) {
  const auto choice = AddressChoice::parse("");
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->place_of(Gid::from_ipv4(10, 0, 0, 1), "eth0"), 0u);
}

TEST(AddressChoice, KnowsInterfacesAddressesAndNetworksInTheirOrder) {
  const auto choice = AddressChoice::parse("eth1,10.64.0.0/10,fd99::1,fe80::/10");
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->place_of(Gid::from_ipv4(192, 168, 0, 1), "eth1"), 0u);
  EXPECT_EQ(choice->place_of(Gid::from_ipv4(10, 127, 0, 1), "eth0"), 1u);
  EXPECT_EQ(choice->place_of(Gid::from_ipv4(10, 128, 0, 1), "eth0"), std::nullopt);
  EXPECT_EQ(choice->place_of(ipv6({0xfd, 0x99}, 1), "eth0"), 2u);
  EXPECT_EQ(choice->place_of(ipv6({0xfd, 0x99}, 2), "eth0"), std::nullopt);
  EXPECT_EQ(choice->place_of(ipv6({0xfe, 0xbf}, 2), "eth0"), 3u);
}

TEST(AddressChoice, TakesAnyNetworkOfOneFamily) {
  const auto choice = AddressChoice::parse("0.0.0.0/0");
  ASSERT_TRUE(choice);
  EXPECT_TRUE(choice->place_of(Gid::from_ipv4(1, 2, 3, 4), "eth0"));
  EXPECT_FALSE(choice->place_of(ipv6({0xfd}, 1), "eth0"));
}

TEST(AddressChoice, SaysWhatIsWrong) {
  for (const char* const wrong : {"10.0.0.0/33", "fd99::/129", "10.0.0.0/", "10.0.0.0/8x", "eth0/8",
                                  "eth0,,lo", "a-name-that-is-too-long"}) {
    EXPECT_FALSE(AddressChoice::parse(wrong)) << wrong;
  }
  EXPECT_NE(AddressChoice::parse("eth0,10.0.0.0/33").error().find("10.0.0.0/33"),
            std::string::npos);
}

}  // namespace
}  // namespace verbena::device
