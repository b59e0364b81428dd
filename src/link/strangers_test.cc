// SPDX-License-Identifier: Apache-2.0
// Packets from addresses of this host that are no member's: another user sends them, right to the
// last bit. None reaches the device.
#include <array>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/unique_fd.h"
#include "link/shared_link_test_fixture.h"
#include "support/nobody.h"
#include "wire/encode.h"
#include "wire/icrc.h"

namespace verbena::link::testing {
namespace {

using verbena::testing::can_become_nobody;
using verbena::testing::result_of;
using verbena::testing::start_as_nobody;

constexpr wire::Gid kLoopback6 = [] {
  wire::Gid gid;
  gid.bytes[15] = 1;
  return gid;
}();

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

[[nodiscard]] Address address_of(const wire::Gid& gid, uint16_t port) {
  Address address;
  if (gid.is_ipv4()) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&in.sin_addr, gid.ipv4(), 4);
    std::memcpy(&address.storage, &in, address.length = sizeof in);
  } else {
    sockaddr_in6 in6{};
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(port);
    std::memcpy(&in6.sin6_addr, gid.bytes.data(), 16);
    std::memcpy(&address.storage, &in6, address.length = sizeof in6);
  }
  return address;
}

struct Forgery {
  wire::Gid source;
  wire::Gid destination;
  Qpn qpn;
  uint16_t from_port = 0;  // 0: any
  uint32_t packets = 1;
  uint32_t first_psn = 100;
};

// Sends them, with ICRCs that are right. 0: done.
[[nodiscard]] int forge(const Forgery& forgery, uint16_t port) {
  const UniqueFd fd(::socket(forgery.source.is_ipv4() ? AF_INET : AF_INET6, SOCK_DGRAM, 0));
  Address own = address_of(forgery.source, forgery.from_port);
  auto* const at = reinterpret_cast<sockaddr*>(&own.storage);
  if (::bind(fd.get(), at, own.length) != 0) return 1;
  (void)::getsockname(fd.get(), at, &own.length);
  const wire::IcrcFlow flow{
      .source = forgery.source,
      .destination = forgery.destination,
      .source_port = ntohs(reinterpret_cast<const sockaddr_in*>(at)->sin_port),
      .destination_port = port};
  const Address to = address_of(forgery.destination, port);
  for (uint32_t i = 0; i < forgery.packets; ++i) {
    wire::Headers headers;
    headers.bth = {
        .opcode = kSendOnly, .dest_qp = forgery.qpn, .psn = wire::Psn(forgery.first_psn + i)};
    const std::array<uint8_t, 8> payload{};
    std::vector<uint8_t> packet = wire::encode(headers, payload);
    const uint32_t icrc = wire::icrc(flow, packet);
    packet.resize(packet.size() + wire::kIcrcBytes);
    wire::store_icrc(packet.data() + packet.size() - wire::kIcrcBytes, icrc);
    if (::sendto(fd.get(), packet.data(), packet.size(), 0,
                 reinterpret_cast<const sockaddr*>(&to.storage),
                 to.length) != static_cast<ssize_t>(packet.size())) {
      return 2;
    }
  }
  return 0;
}

class Strangers : public SharedLinkTest {
 protected:
  Strangers() {
    if (!can_become_nobody()) skipped_ = true;
  }
  void SetUp() override {
    if (skipped_) GTEST_SKIP() << "to be another user takes root";
  }
  // From a process of user nobody.
  [[nodiscard]] int attack(const Forgery& forgery) {
    return result_of(start_as_nobody([&] { return forge(forgery, options_.udp.port); }));
  }
  [[nodiscard]] static uint64_t refused(const Node& node) {
    return node.link->intake_counters().not_a_member;
  }

 private:
  bool skipped_ = false;
};

TEST_F(Strangers, PacketsOfAnotherUserAreNotTaken) {
  Node& victim = join(LinkKind::kUdp);
  uint64_t sent = 0;
  // 127.0.0.0/8 is this host's to the last address.
  for (const auto& source : {kLoopback, wire::Gid::from_ipv4(127, 9, 8, 7), kLoopback6}) {
    const wire::Gid& destination = source.is_ipv4() ? kLoopback : kLoopback6;
    const int result = attack({source, destination, victim.qpn(), 0, 10});
    if (!source.is_ipv4() && result == 1) continue;  // a host without IPv6
    ASSERT_EQ(result, 0);
    sent += 10;
  }
  (void)victim.serve();
  EXPECT_TRUE(victim.arrived.empty());
  EXPECT_EQ(refused(victim), sent);
}

// As the member that it claims to be has its port, there is none like it to be had.
TEST_F(Strangers, CannotHaveAMembersPort) {
  Node& victim = join(LinkKind::kUdp);
  Node& peer = join(LinkKind::kUdp);
  const uint16_t port = peer.link->host().ipv4()->source_port;
  EXPECT_EQ(attack({kLoopback, kLoopback, victim.qpn(), port}), 1) << "it was bound";
  EXPECT_EQ(attack({wire::Gid::from_ipv4(127, 0, 0, 2), kLoopback, victim.qpn(), port}), 1);
  (void)victim.serve();
  EXPECT_TRUE(victim.arrived.empty());
}

TEST_F(Strangers, MembersAreTakenAlsoWhenTheyHaveJustJoined) {
  Node& victim = join(LinkKind::kUdp);
  ASSERT_EQ(attack({kLoopback, kLoopback, victim.qpn()}), 0);
  for (uint32_t i = 0; i < 5; ++i) {
    Node& fresh = join(LinkKind::kUdp);
    fresh.send_and_flush(victim, i);
    ASSERT_EQ(attack({kLoopback, kLoopback, victim.qpn()}), 0);
    victim.send_and_flush(victim, 50 + i);
  }
  (void)victim.serve();
  EXPECT_EQ(victim.psns(), (std::vector<uint32_t>{0, 50, 1, 51, 2, 52, 3, 53, 4, 54}));
  EXPECT_EQ(refused(victim), 6U);
}

// What a member sent before it left is read afterwards; who takes its port then gains nothing.
TEST_F(Strangers, CannotSucceedAMemberThatLeft) {
  Node& victim = join(LinkKind::kUdp);
  Node& peer = join(LinkKind::kUdp);
  const uint16_t port = peer.link->host().ipv4()->source_port;
  peer.send_and_flush(victim, 1);
  (void)victim.serve();
  for (uint32_t psn = 2; psn < 5; ++psn) peer.send_and_flush(victim, psn);
  leave(peer);
  ASSERT_EQ(attack({kLoopback, kLoopback, victim.qpn(), port, 10}), 0);
  (void)victim.serve();
  EXPECT_EQ(victim.psns(), (std::vector<uint32_t>{1, 2, 3, 4}));
  EXPECT_EQ(refused(victim), 10U);
}

// Until a peer's first packet came the transport takes none for its port (hold.h).
TEST_F(Strangers, OfOtherHostsSendFromNoPortZero) {
  SeededRandom random(1);
  const auto host = Membership::join(options_, random);
  ASSERT_TRUE(host) << host.error().what;
  constexpr wire::Gid kElsewhere = wire::Gid::from_ipv4(192, 0, 2, 1);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE((*host)->is_sender(kElsewhere, 0));
    EXPECT_TRUE((*host)->is_sender(kElsewhere, 50'000));
  }
}

}  // namespace
}  // namespace verbena::link::testing
