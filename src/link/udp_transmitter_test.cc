// SPDX-License-Identifier: Apache-2.0
// What leaves is what was given: through the kernel and back, on this host.
#include "link/udp_transmitter.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/endian.h"
#include "link/local_addresses.h"
#include "link/seal.h"
#include "link/udp_receiver.h"
#include "wire/headers.h"
#include "wire/packet.h"

namespace verbena::link {
namespace {

// Tests of several builds may run at once.
const auto kTransmitterPort = static_cast<uint16_t>(20'000 + ::getpid() % 10'000);
constexpr wire::Gid kLoopback = wire::Gid::from_ipv4(127, 0, 0, 1);

class UdpTransmitterTest : public ::testing::Test {
 protected:
  UdpTransmitterTest()
      : sockets_(open_udp(Family::kIpv4,
                          {.port = kTransmitterPort, .receive_buffer_bytes = 1 << 20}, 1)) {
    EXPECT_TRUE(sockets_.has_value());
    transmitter_ = std::make_unique<UdpTransmitter>(&*sockets_, nullptr, kTransmitterPort, nullptr);
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
    struct Counter final : DatagramHandler {
      explicit Counter(uint16_t from) : source_port(from) {}
      void on_datagram(const Datagram& datagram) override {
        const wire::IcrcFlow flow{.source = kLoopback,
                                  .destination = kLoopback,
                                  .source_port = source_port,
                                  .destination_port = kTransmitterPort};
        ++(wire::icrc_solve(flow, datagram.bytes) ? counts.first : counts.second);
      }
      void on_consumed(const Datagram&, uint32_t) override {}
      uint16_t source_port;
      std::pair<int, int> counts;
    } counter(sockets_->source_port);
    UdpReceiver receiver;
    while (receiver.receive(sockets_->receive.get(), Family::kIpv4, counter,
                            UdpReceiver::Ask::kBatch) > 0) {}
    return counter.counts;
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

// Of each packet that arrives.
class HopLimits final : public DatagramHandler {
 public:
  void on_datagram(const Datagram& datagram) override { seen.push_back(datagram.hop_limit); }
  void on_consumed(const Datagram&, uint32_t) override {}
  std::vector<int> seen;
};

TEST_F(UdpTransmitterTest, TheHopLimitIsOnTheWireAndBatchesDoNotMixThem) {
  const std::array<uint8_t, 512> payload{};
  wire::Gid ipv6;
  ipv6.bytes[15] = 1;
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    SCOPED_TRACE(static_cast<int>(family));
    const bool is_ipv4 = family == Family::kIpv4;
    const auto port = static_cast<uint16_t>(kTransmitterPort + 1);
    const auto sockets = open_udp(family, {.port = port}, 1);
    if (!sockets) {
      ASSERT_FALSE(is_ipv4);
      GTEST_SKIP() << "no IPv6 here";
    }
    transmitter_ = std::make_unique<UdpTransmitter>(is_ipv4 ? &*sockets : nullptr,
                                                    is_ipv4 ? nullptr : &*sockets, port, nullptr);
    path_.source = path_.destination = is_ipv4 ? kLoopback : ipv6;
    // 0 is the default, and joins it.
    for (const uint8_t limit : std::to_array<uint8_t>({64, 0, 64, 9, 9, 255, 1, 64})) {
      path_.hop_limit = limit;
      send_as_is(payload);
    }
    transmitter_->flush();
    EXPECT_EQ(transmitter_->counters().errors, 0U);
    EXPECT_EQ(transmitter_->counters().sends, sockets->gso ? 5U : 8U);
    UdpReceiver receiver;
    HopLimits limits;
    while (receiver.receive(sockets->receive.get(), family, limits, UdpReceiver::Ask::kBatch) > 0) {
    }
    EXPECT_EQ(limits.seen, (std::vector<int>{64, 64, 64, 9, 9, 255, 1, 64}));
  }
}

// Tag and ICRC, as the receiving end looks at them.
class Opened final : public DatagramHandler {
 public:
  explicit Opened(const Seal& seal) : seal_(seal) {}
  void on_datagram(const Datagram& datagram) override {
    const auto packet = seal_.open(datagram);
    const bool good = packet && wire::icrc_solve({.source = datagram.source,
                                                  .destination = datagram.destination,
                                                  .source_port = datagram.source_port,
                                                  .destination_port = kTransmitterPort},
                                                 *packet) == 0;
    ++(good ? right : wrong);
  }
  void on_consumed(const Datagram&, uint32_t) override {}
  int right = 0;
  int wrong = 0;

 private:
  const Seal& seal_;
};

class TrafficClasses final : public DatagramHandler {
 public:
  void on_datagram(const Datagram& datagram) override { seen.push_back(datagram.traffic_class); }
  void on_consumed(const Datagram&, uint32_t) override {}
  std::vector<int> seen;
};

TEST_F(UdpTransmitterTest, TheTrafficClassIsOnTheWireAndBatchesDoNotMixThem) {
  const std::array<uint8_t, 512> payload{};
  for (const uint8_t traffic_class : std::to_array<uint8_t>({0, 0, 0x20, 0x20, 0x68, 0})) {
    path_.traffic_class = traffic_class;
    send_as_is(payload);
  }
  const std::span<const uint8_t> all(payload);
  for (const uint8_t traffic_class : std::to_array<uint8_t>({0x20, 0x68})) {
    path_.traffic_class = traffic_class;
    transmitter_->send_run({.path = &path_,
                            .first = {.opcode = 0x07},
                            .payload = {&all, 1},
                            .packet_payload = 256,
                            .packets = 2});
  }
  transmitter_->flush();
  EXPECT_EQ(transmitter_->counters().errors, 0U);
  EXPECT_EQ(transmitter_->counters().sends, sockets_->gso ? 6U : 10U);
  UdpReceiver receiver;
  TrafficClasses classes;
  while (receiver.receive(sockets_->receive.get(), Family::kIpv4, classes,
                          UdpReceiver::Ask::kBatch) > 0) {}
  EXPECT_EQ(classes.seen, (std::vector<int>{0, 0, 0x20, 0x20, 0x68, 0, 0x20, 0x20, 0x68, 0x68}));
}

// An address was taken away while queue pairs used it (EINVAL, with IPv6). That is no reason to
// send one by one to everybody else.
TEST_F(UdpTransmitterTest, AnAddressThatIsGoneDoesNotEndBatches) {
  const auto sockets =
      open_udp(Family::kIpv6, {.port = kTransmitterPort, .receive_buffer_bytes = 1 << 20}, 1);
  if (!sockets) GTEST_SKIP() << "no IPv6 here";
  transmitter_ = std::make_unique<UdpTransmitter>(nullptr, &*sockets, kTransmitterPort, nullptr);
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

// To a group, which is sealed as what leaves the host is. The kernel refuses batches of a socket
// that makes no checksums.
TEST_F(UdpTransmitterTest, PacketsWithATagGoApartWhereBatchesAreRefused) {
  const wire::Gid group = wire::Gid::from_ipv4(239, 255, 71, 9);
  ip_mreqn member{};
  std::memcpy(&member.imr_multiaddr, group.ipv4(), 4);
  std::memcpy(&member.imr_address, kLoopback.ipv4(), 4);
  ASSERT_EQ(
      ::setsockopt(sockets_->receive.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, sizeof member),
      0);
  LocalAddresses addresses;
  Seal seal(addresses, wire::tag_key_of(std::array<uint8_t, 4>{1, 2, 3, 4}));
  transmitter_->set_seal(&seal);
  path_.destination = group;
  const std::array<uint8_t, 512> payload{};
  Opened opened(seal);
  for (const int refused : {0, 1}) {
    ASSERT_EQ(::setsockopt(sockets_->send.get(), SOL_SOCKET, SO_NO_CHECK, &refused, sizeof refused),
              0);
    for (int i = 0; i < 4; ++i) send_as_is(payload);
    transmitter_->flush();
  }
  EXPECT_EQ(transmitter_->counters().gso_refused, sockets_->gso ? 1U : 0U);
  EXPECT_EQ(transmitter_->counters().sends, sockets_->gso ? 5U : 8U);
  EXPECT_EQ(transmitter_->counters().errors, 0U);
  UdpReceiver receiver;
  while (receiver.receive(sockets_->receive.get(), Family::kIpv4, opened,
                          UdpReceiver::Ask::kBatch) > 0) {}
  EXPECT_EQ(opened.right, 8);
  EXPECT_EQ(opened.wrong, 0);
}

// Runs and single packets of all lengths, mixed: each arrives with a right ICRC, and runs leave as
// one datagram.
TEST_F(UdpTransmitterTest, ARunLeavesAsOne) {
  std::vector<uint8_t> payload(64 * 1024);
  std::ranges::generate(payload, [n = 0u]() mutable { return static_cast<uint8_t>(++n * 37); });
  const std::array<uint8_t, 40> small{};
  int packets = 0;
  for (const uint32_t each : {256u, 1024u, 2048u}) {
    const uint32_t wanted = 20;
    const uint32_t run =
        transmitter_->room_for(path_, Qpn(5), each + wire::Bth::kBytes + wire::kIcrcBytes, wanted);
    EXPECT_EQ(run, wanted);
    // Side by side, in a few pieces, in many.
    for (const size_t cut : {size_t{run} * each, size_t{3001}, size_t{97}}) {
      std::vector<std::span<const uint8_t>> pieces;
      for (size_t at = 0; at < size_t{run} * each; at += cut) {
        pieces.push_back(std::span(payload).subspan(at, std::min(cut, size_t{run} * each - at)));
      }
      const uint64_t before = transmitter_->counters().sends;
      transmitter_->send_run({.path = &path_,
                              .first = {.opcode = 0x07, .dest_qp = Qpn(5), .ack_request = true},
                              .payload = pieces,
                              .packet_payload = each,
                              .packets = run});
      transmitter_->flush();
      EXPECT_EQ(transmitter_->counters().sends - before, 1u);
      packets += static_cast<int>(run);
      EXPECT_EQ(arrived(), std::pair(static_cast<int>(run), 0));
    }
  }
  // A shorter packet ends its datagram: a run does not join what it would be cut by.
  send_as_is(std::span(payload).first(512));
  EXPECT_EQ(transmitter_->room_for(path_, Qpn(0), 256 + 16, 20), 1u);
  send_as_is(std::span(payload).first(256));
  EXPECT_EQ(transmitter_->room_for(path_, Qpn(0), 256 + 16, 20), 20u);
  const std::span<const uint8_t> all = std::span(payload).first(size_t{20} * 256);
  transmitter_->send_run({.path = &path_,
                          .first = {.opcode = 0x07},
                          .payload = {&all, 1},
                          .packet_payload = 256,
                          .packets = 20});
  send_as_is(small);
  transmitter_->flush();
  EXPECT_EQ(arrived(), std::pair(23, 0));
  EXPECT_EQ(packets, 180);
}

}  // namespace
}  // namespace verbena::link
