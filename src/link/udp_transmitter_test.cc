// SPDX-License-Identifier: Apache-2.0
// What leaves is what was given: through the kernel and back, on this host.
#include "link/udp_transmitter.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/endian.h"
#include "wire/headers.h"
#include "wire/packet.h"

namespace verbena::link {
namespace {

// Tests of several builds may run at once.
const auto kPort = static_cast<uint16_t>(20'000 + ::getpid() % 10'000);
constexpr wire::Gid kLoopback = wire::Gid::from_ipv4(127, 0, 0, 1);

class UdpTransmitterTest : public ::testing::Test {
 protected:
  UdpTransmitterTest()
      : sockets_(open_udp(Family::kIpv4, {.port = kPort, .receive_buffer_bytes = 1 << 20}, 1)) {
    EXPECT_TRUE(sockets_.has_value());
    transmitter_ = std::make_unique<UdpTransmitter>(&*sockets_, nullptr, kPort, nullptr);
  }

  void send(std::span<const uint8_t> payload) {
    // Packets that differ in this do not leave as one message.
    path_.traffic_class ^= 4;
    send_as_is(payload);
  }
  void send_as_is(std::span<const uint8_t> payload) {
    std::array<uint8_t, wire::Bth::kBytes> headers;
    wire::Bth{.opcode = 0x04}.write(headers.data());
    transmitter_->send({.path = &path_,
                        .headers = headers,
                        .payload = {&payload, 1},
                        .payload_bytes = static_cast<uint32_t>(payload.size())});
  }
  void send_staged(uint8_t value) {
    const auto room = transmitter_->staging().first(1024);
    std::ranges::fill(room, value);
    send(room);
  }
  // How many arrived whole, and how many did not.
  std::pair<int, int> arrived() const {
    std::pair<int, int> counts;
    std::vector<uint8_t> bytes(2048);
    for (;;) {
      const ssize_t n = ::recv(sockets_->receive.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (n < 0) return counts;
      const wire::IcrcFlow flow{.source = kLoopback,
                                .destination = kLoopback,
                                .source_port = sockets_->source_port,
                                .destination_port = kPort};
      const std::span packet(bytes.data(), static_cast<size_t>(n));
      ++(wire::icrc_solve(flow, packet) ? counts.first : counts.second);
    }
  }

  Result<UdpSockets, SocketError> sockets_;
  transport::Path path_{.source = kLoopback, .destination = kLoopback};
  std::unique_ptr<UdpTransmitter> transmitter_;
};

TEST_F(UdpTransmitterTest, WhatIsStagedStaysUntilItIsSent) {
  const std::array<uint8_t, 8> small{};
  for (uint8_t i = 0; i < 3; ++i) send_staged(i);
  for (int i = 0; i < 61; ++i) send(small);
  send_staged(3);  // one message too many: the others leave first
  for (uint8_t i = 4; i < 8; ++i) send_staged(i);
  transmitter_->flush();
  EXPECT_EQ(arrived(), std::pair(69, 0));
}

// An address was taken away while queue pairs used it (EINVAL, with IPv6). That is no reason to
// send one by one to everybody else.
TEST_F(UdpTransmitterTest, AnAddressThatIsGoneDoesNotEndBatches) {
  const auto sockets = open_udp(Family::kIpv6, {.port = kPort, .receive_buffer_bytes = 1 << 20}, 1);
  if (!sockets) GTEST_SKIP() << "no IPv6 here";
  transmitter_ = std::make_unique<UdpTransmitter>(nullptr, &*sockets, kPort, nullptr);
  wire::Gid loopback;
  loopback.bytes[15] = 1;
  const std::array<uint8_t, 512> payload{};
  const auto sends_for_four = [&](const wire::Gid& source) {
    path_.source = source;
    path_.destination = loopback;
    const uint64_t before = transmitter_->counters().sends;
    for (int i = 0; i < 4; ++i) send_as_is(payload);
    transmitter_->flush();
    return transmitter_->counters().sends - before;
  };
  EXPECT_EQ(sends_for_four(loopback), 1U);
  wire::Gid gone;  // 2001:db8::1, of documentation
  std::ranges::copy(std::array<uint8_t, 4>{0x20, 0x01, 0x0d, 0xb8}, gone.bytes.begin());
  gone.bytes[15] = 1;
  (void)sends_for_four(gone);
  EXPECT_GE(transmitter_->counters().errors, 1U);
  EXPECT_EQ(sends_for_four(loopback), 1U);
}

}  // namespace
}  // namespace verbena::link
