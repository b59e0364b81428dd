// SPDX-License-Identifier: Apache-2.0
#include "link/udp_receiver.h"

#include <array>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <unistd.h>

namespace verbena::link {
namespace {

// Tests of several builds may run at once.
const auto kPort = static_cast<uint16_t>(30'000 + ::getpid() % 10'000);

class Nobody final : public DatagramHandler {
 public:
  void on_datagram(const Datagram& /*datagram*/) override {}
  void on_consumed(const Datagram&, uint32_t) override {}
};

constexpr size_t kBytes = 1000;

void send_some(const UdpSockets& sockets, Family family, int datagrams, size_t length = kBytes) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(kPort);
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(kPort);
  in6.sin6_addr = in6addr_loopback;
  const bool is_ipv4 = family == Family::kIpv4;
  const auto* const to =
      is_ipv4 ? reinterpret_cast<const sockaddr*>(&in) : reinterpret_cast<const sockaddr*>(&in6);
  const std::array<uint8_t, kBytes> bytes{};
  for (int i = 0; i < datagrams; ++i) {
    EXPECT_EQ(
        ::sendto(sockets.send.get(), bytes.data(), length, 0, to, is_ipv4 ? sizeof in : sizeof in6),
        static_cast<ssize_t>(length));
  }
}

// The kernel tells of what it dropped with a datagram that came later.
TEST(UdpReceiver, OverflowsOfBothFamiliesAreAddedUp) {
  Nobody nobody;
  UdpReceiver receiver;
  uint64_t lost = 0;
  const auto sockets4 = open_udp(Family::kIpv4, {.port = kPort, .receive_buffer_bytes = 8192}, 1);
  const auto sockets6 = open_udp(Family::kIpv6, {.port = kPort, .receive_buffer_bytes = 8192}, 1);
  ASSERT_TRUE(sockets4.has_value());
  if (!sockets6) GTEST_SKIP() << "no IPv6 here";
  const auto drain = [&](const UdpSockets& sockets, Family family) {
    const uint64_t before = receiver.counters().datagrams;
    while (receiver.receive(sockets.receive.get(), family, nobody, UdpReceiver::Ask::kBatch) > 0) {}
    return receiver.counters().datagrams - before;
  };
  constexpr int kMany = 100;
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const UdpSockets& sockets = family == Family::kIpv4 ? *sockets4 : *sockets6;
    send_some(sockets, family, kMany);
    const uint64_t got = drain(sockets, family);
    EXPECT_LT(got, uint64_t{kMany});
    lost += kMany - got;
    send_some(sockets, family, 1);
    EXPECT_EQ(drain(sockets, family), 1U);
    EXPECT_EQ(receiver.counters().overflow, lost);
  }
  send_some(*sockets4, Family::kIpv4, 1);
  EXPECT_EQ(drain(*sockets4, Family::kIpv4), 1U);
  EXPECT_EQ(receiver.counters().overflow, lost);
}

// Anybody can send one, and it has no length to divide by.
TEST(UdpReceiver, AnEmptyDatagramIsNothing) {
  class Counts final : public DatagramHandler {
   public:
    void on_datagram(const Datagram& datagram) override { bytes += datagram.bytes.size(); }
    void on_consumed(const Datagram&, uint32_t) override {}
    size_t bytes = 0;
  };
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const auto sockets = open_udp(family, {.port = kPort}, 1);
    if (!sockets) continue;  // no IPv6 here
    Counts counts;
    UdpReceiver receiver;
    send_some(*sockets, family, 1, 0);
    send_some(*sockets, family, 2);
    send_some(*sockets, family, 1, 0);
    size_t got = 0;
    for (int i = 0; i < 10; ++i) {
      got += receiver.receive(sockets->receive.get(), family, counts, UdpReceiver::Ask::kBatch);
    }
    EXPECT_EQ(got, receiver.counters().datagrams);
    EXPECT_EQ(counts.bytes, 2000U);
  }
}

// The limit is the host's, and not every machine has the same; but none takes less than the
// kernel's default.
TEST(UdpReceiver, TheBufferIsAsLargeAsTheSystemGives) {
  const auto few = open_udp(Family::kIpv4, {.port = kPort, .receive_buffer_bytes = 8192}, 1);
  const auto many = open_udp(Family::kIpv4, {.port = kPort}, 2);
  ASSERT_TRUE(few.has_value() && many.has_value());
  EXPECT_EQ(few->receive_buffer, 2 * 8192U);
  EXPECT_GE(many->receive_buffer, 2 * kCommonReceiveBuffer);
  EXPECT_LE(many->receive_buffer, 2 * kWantedReceiveBuffer);
}

}  // namespace
}  // namespace verbena::link
