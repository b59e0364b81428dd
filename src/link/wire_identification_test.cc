// SPDX-License-Identifier: Apache-2.0
// The ICRC covers the IPv4 identification, which the kernel writes. Our own receiver solves for it
// and so takes any; a NIC does not. Here the packets are taken off the wire, and each ICRC must be
// that of the identification in its own header. Needs a network namespace of its own, and so root.
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/endian.h"
#include "link/udp_transmitter.h"
#include "wire/headers.h"
#include "wire/packet.h"

namespace verbena::link {
namespace {

constexpr wire::Gid kOnWireLoopback = wire::Gid::from_ipv4(127, 0, 0, 1);
constexpr uint16_t kOnWirePort = 4791;

[[nodiscard]] bool ask_loopback(int fd, unsigned long question, void* about) {
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_data = static_cast<char*>(about);
  return ::ioctl(fd, question, &request) == 0;
}

// The number of a feature of devices, by its name.
[[nodiscard]] std::optional<uint32_t> feature_number(int fd, std::string_view name) {
  std::vector<uint8_t> room(sizeof(ethtool_sset_info) + sizeof(uint32_t));
  auto* const sets = reinterpret_cast<ethtool_sset_info*>(room.data());
  sets->cmd = ETHTOOL_GSSET_INFO;
  sets->sset_mask = uint64_t{1} << ETH_SS_FEATURES;
  if (!ask_loopback(fd, SIOCETHTOOL, sets)) return std::nullopt;
  const uint32_t count = sets->data[0];
  room.assign(sizeof(ethtool_gstrings) + size_t{count} * ETH_GSTRING_LEN, 0);
  auto* const strings = reinterpret_cast<ethtool_gstrings*>(room.data());
  strings->cmd = ETHTOOL_GSTRINGS;
  strings->string_set = ETH_SS_FEATURES;
  strings->len = count;
  if (!ask_loopback(fd, SIOCETHTOOL, strings)) return std::nullopt;
  for (uint32_t i = 0; i < count; ++i) {
    const auto* const at = strings->data + size_t{i} * ETH_GSTRING_LEN;
    if (name == reinterpret_cast<const char*>(at)) return i;
  }
  return std::nullopt;
}

// Loopback up, and batches cut there before they leave, as for a NIC: by itself loopback passes
// them on whole.
[[nodiscard]] bool prepare_loopback() {
  const UniqueFd any(::socket(AF_INET, SOCK_DGRAM, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  if (::ioctl(any.get(), SIOCSIFFLAGS, &request) != 0) return false;
  const auto number = feature_number(any.get(), "tx-udp-segmentation");
  if (!number) return false;
  std::vector<uint8_t> room(sizeof(ethtool_sfeatures) + 4 * sizeof(ethtool_set_features_block));
  auto* const change = reinterpret_cast<ethtool_sfeatures*>(room.data());
  change->cmd = ETHTOOL_SFEATURES;
  change->size = *number / 32 + 1;
  change->features[*number / 32].valid = uint32_t{1} << (*number % 32);
  return *number < 128 && ask_loopback(any.get(), SIOCETHTOOL, change);
}

struct OnWire {
  uint16_t id = 0;
  uint8_t tos = 0;
  std::vector<uint8_t> packet;  // BTH to ICRC
};

// What came over loopback so far.
[[nodiscard]] std::vector<OnWire> taken_from(int capture) {
  constexpr size_t kIpv4 = 20;
  constexpr size_t kUdp = 8;
  std::vector<OnWire> all;
  std::array<uint8_t, 65'536> frame;
  for (;;) {
    sockaddr_ll from{};
    socklen_t length = sizeof from;
    const ssize_t n = ::recvfrom(capture, frame.data(), frame.size(), MSG_DONTWAIT,
                                 reinterpret_cast<sockaddr*>(&from), &length);
    if (n < 0) return all;
    // Each is seen as it leaves, too.
    if (from.sll_pkttype == PACKET_OUTGOING || static_cast<size_t>(n) < kIpv4 + kUdp) continue;
    all.push_back({.id = load_be16(frame.data() + 4),
                   .tos = frame[1],
                   .packet = {frame.begin() + kIpv4 + kUdp, frame.begin() + n}});
  }
}

class WireIdentification : public ::testing::Test {
 protected:
  // In a thread of its own, which alone is in the namespace. False: it may not.
  template <typename Test>
  static bool in_namespace(Test&& test) {
    bool ran = false;
    std::thread([&] {
      if (::unshare(CLONE_NEWNET) != 0 || !prepare_loopback()) return;
      ran = true;
      const UniqueFd capture(::socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_IP)));
      ASSERT_GE(capture.get(), 0);
      const auto sockets =
          open_udp(Family::kIpv4, {.port = kOnWirePort, .receive_buffer_bytes = 1 << 20}, 1);
      ASSERT_TRUE(sockets.has_value());
      if (!sockets->gso) return;
      UdpTransmitter transmitter(&*sockets, nullptr, kOnWirePort, nullptr);
      test(capture.get(), *sockets, transmitter);
    }).join();
    return ran;
  }

  static void send_one(UdpTransmitter& transmitter, const transport::Path& path,
                       std::span<const uint8_t> payload) {
    std::array<uint8_t, wire::Bth::kBytes> headers;
    wire::Bth{.opcode = 0x04}.write(headers.data());
    transmitter.send({.path = &path,
                      .headers = headers,
                      .payload = {&payload, 1},
                      .payload_bytes = static_cast<uint32_t>(payload.size())});
  }

  // Each is right by its own header. Gives how often each identification was there.
  static std::map<uint16_t, int> check(const std::vector<OnWire>& all, const UdpSockets& sockets) {
    std::map<uint16_t, int> ids;
    const wire::IcrcFlow flow{.source = kOnWireLoopback,
                              .destination = kOnWireLoopback,
                              .source_port = sockets.source_port,
                              .destination_port = kOnWirePort};
    for (const OnWire& each : all) {
      EXPECT_EQ(wire::icrc_solve(flow, each.packet), each.id);
      ++ids[each.id];
    }
    return ids;
  }
};

TEST_F(WireIdentification, IsThatOfTheIcrcInEachPacketOfABatch) {
  const bool ran = in_namespace([](int capture, const UdpSockets& sockets, UdpTransmitter& out) {
    const transport::Path path{.source = kOnWireLoopback, .destination = kOnWireLoopback};
    const std::vector<uint8_t> payload(20 * 1024, 7);
    const std::span<const uint8_t> all(payload);
    const auto run = [&](std::span<const uint8_t> bytes, uint32_t packets) {
      out.send_run({.path = &path,
                    .first = {.opcode = 0x07, .ack_request = true},
                    .payload = {&bytes, 1},
                    .packet_payload = 1024,
                    .packets = packets});
    };
    // Single packets, of which the last ends the batch.
    for (int i = 0; i < 4; ++i) send_one(out, path, all.first(512));
    send_one(out, path, all.first(64));
    out.flush();
    EXPECT_EQ(check(taken_from(capture), sockets),
              (std::map<uint16_t, int>{{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}}));
    // A run by itself; one behind a packet and before another, in one batch.
    run(all.first(4 * 1024), 4);
    out.flush();
    EXPECT_EQ(check(taken_from(capture), sockets),
              (std::map<uint16_t, int>{{0, 1}, {1, 1}, {2, 1}, {3, 1}}));
    send_one(out, path, all.first(1024));
    run(all.first(3 * 1024), 3);
    send_one(out, path, all.first(1024));
    out.flush();
    EXPECT_EQ(check(taken_from(capture), sockets),
              (std::map<uint16_t, int>{{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}}));
    EXPECT_EQ(out.counters().sends, 3u) << "each was one batch";
    EXPECT_EQ(out.counters().gso_refused, 0u);
  });
  if (!ran) GTEST_SKIP() << "no network namespace: needs root";
}

// What a BTH says beside AckReq and PSN, each packet of a run says.
TEST_F(WireIdentification, ReservedBitsAreThoseOfTheRun) {
  const bool ran = in_namespace([](int capture, const UdpSockets& sockets, UdpTransmitter& out) {
    const transport::Path path{.source = kOnWireLoopback, .destination = kOnWireLoopback};
    const std::vector<uint8_t> payload(4 * 1024, 7);
    const std::span<const uint8_t> all(payload);
    out.send_run({.path = &path,
                  .first = {.opcode = 0x07, .ack_request = true, .reserved7 = 0x01},
                  .payload = {&all, 1},
                  .packet_payload = 1024,
                  .packets = 4});
    out.flush();
    const auto seen = taken_from(capture);
    (void)check(seen, sockets);
    ASSERT_EQ(seen.size(), 4u);
    for (const OnWire& each : seen) EXPECT_EQ(wire::Bth::read(each.packet.data()).reserved7, 0x01);
  });
  if (!ran) GTEST_SKIP() << "no network namespace: needs root";
}

TEST_F(WireIdentification, ABatchHasOneTrafficClass) {
  const bool ran = in_namespace([](int capture, const UdpSockets& sockets, UdpTransmitter& out) {
    transport::Path path{.source = kOnWireLoopback, .destination = kOnWireLoopback};
    const std::vector<uint8_t> payload(512, 7);
    std::vector<uint8_t> sent;
    for (const uint8_t traffic_class : std::to_array<uint8_t>({0, 0, 0x20, 0x20, 0, 0x68})) {
      path.traffic_class = traffic_class;
      sent.push_back(traffic_class);
      send_one(out, path, payload);
    }
    out.flush();
    const auto all = taken_from(capture);
    (void)check(all, sockets);
    std::vector<uint8_t> seen;
    for (const OnWire& each : all) seen.push_back(each.tos);
    EXPECT_EQ(seen, sent);
    EXPECT_EQ(out.counters().sends, 4u);
  });
  if (!ran) GTEST_SKIP() << "no network namespace: needs root";
}

}  // namespace
}  // namespace verbena::link
