// SPDX-License-Identifier: Apache-2.0
#include "rsocket/datagram_protocol.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace verbena::rsocket {
namespace {

using rdmacm::Address;

[[nodiscard]] Address ipv4_at(uint8_t last, uint16_t port) {
  return Address::of(wire::Gid::from_ipv4(10, 0, 0, last), port);
}
[[nodiscard]] Address ipv6_at(uint8_t last, uint16_t port) {
  wire::Gid gid{};
  gid.bytes[0] = 0xfd;
  gid.bytes[15] = last;
  return Address::of(gid, port);
}
[[nodiscard]] std::vector<uint8_t> with_payload(const HeaderBytes& header, std::string_view text) {
  std::vector<uint8_t> message(header.used().begin(), header.used().end());
  message.insert(message.end(), text.begin(), text.end());
  return message;
}

TEST(RsocketDatagramProtocol, HeadersAreAsRdmaCoreHasThem) {
  const HeaderBytes four = datagram_header(ipv4_at(7, 0x1234));
  const std::vector<uint8_t> wanted{4, 8, 0x12, 0x34, 10, 0, 0, 7};
  EXPECT_TRUE(std::ranges::equal(four.used(), wanted));
  const HeaderBytes six = datagram_header(ipv6_at(9, 0x1234));
  EXPECT_EQ(six.length, 24U);
  EXPECT_EQ(six.bytes[0], 6);
  EXPECT_EQ(six.bytes[1], 24);
  EXPECT_EQ(six.bytes[8], 0xfd);
  EXPECT_EQ(six.bytes[23], 9);
  const HeaderBytes udp = udp_header(UdpOp::kAnswer, 0x123456, ipv4_at(7, 1));
  const std::vector<uint8_t> wanted_udp{0x55, 0x55, 0x55, 0x55, 4,  7, 16, 0,
                                        0,    0x12, 0x34, 0x56, 10, 0, 0,  7};
  EXPECT_TRUE(std::ranges::equal(udp.used(), wanted_udp));
  EXPECT_EQ(udp_header(UdpOp::kData, 1, ipv6_at(1, 1)).length, 28U);
}

TEST(RsocketDatagramProtocol, WhatWasWrittenIsRead) {
  for (const Address& from : {ipv4_at(7, 99), ipv6_at(7, 99)}) {
    const auto message = with_payload(datagram_header(from), "text");
    const auto read = read_datagram(message);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->from, from);
    EXPECT_EQ(read->payload.size(), 4U);
    const auto udp = with_payload(udp_header(UdpOp::kData, 77, from), "text");
    const auto read_back = read_udp(udp);
    ASSERT_TRUE(read_back);
    EXPECT_EQ(read_back->op, UdpOp::kData);
    EXPECT_EQ(read_back->qpn, 77U);
    EXPECT_EQ(read_back->payload.size(), 4U);
  }
}

TEST(RsocketDatagramProtocol, WhatIsNoneIsNotRead) {
  for (const Address& from : {ipv4_at(7, 99), ipv6_at(7, 99)}) {
    const HeaderBytes header = datagram_header(from);
    const HeaderBytes udp = udp_header(UdpOp::kData, 77, from);
    for (size_t length = 0; length < header.length; ++length) {
      EXPECT_FALSE(read_datagram(header.used().first(length))) << length;
    }
    for (size_t length = 0; length < udp.length; ++length) {
      EXPECT_FALSE(read_udp(udp.used().first(length))) << length;
    }
    for (const size_t place : {0U, 1U}) {
      HeaderBytes changed = header;
      changed.bytes[place] = 5;
      EXPECT_FALSE(read_datagram(changed.used())) << place;
    }
    for (const size_t place : {0U, 4U, 5U, 6U}) {
      HeaderBytes changed = udp;
      changed.bytes[place] = 5;
      EXPECT_FALSE(read_udp(changed.used())) << place;
    }
  }
}

TEST(RsocketDatagramProtocol, TheSenderIsTheOneOnTheWire) {
  std::array<uint8_t, 40> four{};
  four[20] = 0x45;
  std::ranges::copy(std::array<uint8_t, 4>{10, 0, 0, 7}, &four[32]);
  EXPECT_TRUE(came_from(four, ipv4_at(7, 5)));
  EXPECT_FALSE(came_from(four, ipv4_at(8, 5)));
  std::array<uint8_t, 40> six{};
  six[0] = 0x60;
  std::ranges::copy(ipv6_at(7, 5).gid().bytes, &six[8]);
  EXPECT_TRUE(came_from(six, ipv6_at(7, 5)));
  EXPECT_FALSE(came_from(six, ipv6_at(8, 5)));
}

}  // namespace
}  // namespace verbena::rsocket
