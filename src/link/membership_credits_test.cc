// SPDX-License-Identifier: Apache-2.0
// Credits on real sockets: whatever senders on this host do, a slow reader's buffer (SO_RCVBUF
// 212,992) does not overflow, as the kernel itself counts it (SO_RXQ_OVFL).
#include <netinet/udp.h>

#include "link/clock.h"
#include "link/membership_test_fixture.h"

namespace verbena::link::testing {
namespace {

// Sends `segments` packets of `bytes` in one datagram to `slot`, if credits allow.
struct Blast {
  uint32_t bytes;
  uint32_t segments;
  Family family = Family::kIpv4;
  bool run = false;  // asked for together
};

bool blast_once(Membership& host, uint8_t slot, const Blast& blast, std::vector<uint8_t>& buffer) {
  const bool v4 = blast.family == Family::kIpv4;
  wire::Gid destination = wire::Gid::from_ipv4(127, 0, 0, 1);
  if (!v4) {
    destination = {};
    destination.bytes[15] = 1;
  }
  const Qpn qpn(uint32_t{slot} << 16 | 77);
  uint32_t got = 0;
  uint32_t spent = 0;
  if (blast.run) {
    got = host.packets_available(destination, qpn, blast.bytes, blast.segments);
    if (got != 0) host.spend(destination, qpn, datagram_cost(got * blast.bytes, blast.bytes));
  }
  for (; !blast.run && got < blast.segments && host.available(destination, qpn); ++got) {
    const uint32_t cost = datagram_cost((got + 1) * blast.bytes, blast.bytes);
    host.spend(destination, qpn, cost - spent);
    spent = cost;
  }
  host.settle();
  if (got == 0) return false;
  buffer.assign(size_t{got} * blast.bytes, 0);
  for (uint32_t i = 0; i < got; ++i) {
    buffer[size_t{i} * blast.bytes + 5] = slot;
    store_be32(buffer.data() + size_t{i} * blast.bytes + 8, 0xffffffff);
  }
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_addr = in6addr_loopback;
  // The port is the group's; the member learns it from its own receive socket.
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  const UdpSockets& sockets = v4 ? *host.ipv4() : *host.ipv6();
  (void)::getsockname(sockets.receive.get(), reinterpret_cast<sockaddr*>(&own), &length);
  in.sin_port = reinterpret_cast<const sockaddr_in*>(&own)->sin_port;
  in6.sin6_port = reinterpret_cast<const sockaddr_in6*>(&own)->sin6_port;
  iovec piece{buffer.data(), buffer.size()};
  msghdr msg{};
  msg.msg_name = v4 ? static_cast<void*>(&in) : static_cast<void*>(&in6);
  msg.msg_namelen = v4 ? sizeof in : sizeof in6;
  msg.msg_iov = &piece;
  msg.msg_iovlen = 1;
  alignas(cmsghdr) std::array<uint8_t, CMSG_SPACE(sizeof(uint16_t))> control{};
  if (got > 1) {
    msg.msg_control = control.data();
    msg.msg_controllen = control.size();
    cmsghdr* const item = CMSG_FIRSTHDR(&msg);
    item->cmsg_level = SOL_UDP;
    item->cmsg_type = kUdpSegment;
    item->cmsg_len = CMSG_LEN(sizeof(uint16_t));
    const auto segment = static_cast<uint16_t>(blast.bytes);
    std::memcpy(CMSG_DATA(item), &segment, sizeof segment);
  }
  EXPECT_EQ(::sendmsg(sockets.send.get(), &msg, 0), static_cast<ssize_t>(buffer.size()));
  return true;
}

class MembershipCreditsTest : public MembershipTest {
 protected:
  // A member that sends to `slot` for as long as it is not told to stop; sleeps when refused, until
  // woken.
  Member start_blaster(uint8_t slot, const Blast& blast) {
    return start_joined([slot, blast](Membership& host, Report& report, Shared& shared) {
      Server server(host, report, shared);
      std::vector<uint8_t> buffer;
      while (report.leave == 0) {
        const uint64_t received = report.bytes;
        if (blast_once(host, slot, blast, buffer)) {
          report.bytes = received + buffer.size();
        } else {
          ++report.refused;
          server.serve(100);
        }
      }
      report.stage = 1;
      while (report.leave == 1) server.serve(5);
    });
  }
  // Reads a datagram now and then.
  static void serve_slowly(Membership& host, Report& report, Shared& shared) {
    Server server(host, report, shared);
    while (report.leave == 0) {
      if (report.stage != 0) ::usleep(report.stage);
      server.serve(5);
    }
  }
  void run_blast(const std::vector<Blast>& blasts, uint32_t pause_us, int span_ms) {
    const Member reader = start_joined(serve_slowly);
    reader.report->stage = pause_us;
    std::vector<Member> senders;
    for (const Blast& blast : blasts) senders.push_back(start_blaster(reader.slot(), blast));
    std::vector<uint64_t> before;
    for (const Member& sender : senders) before.push_back(sender.report->bytes);
    ::usleep(static_cast<useconds_t>(span_ms) * 1000);
    for (size_t i = 0; i < senders.size(); ++i) {
      EXPECT_TRUE(wait_until([&] { return senders[i].report->bytes > before[i]; }))
          << "a sender was starved";
    }
    uint64_t sent = 0;
    for (const Member& sender : senders) sender.report->leave = 1;
    for (const Member& sender : senders) {
      ASSERT_TRUE(wait_until([&] { return sender.report->stage == 1; }));
      sent += sender.report->bytes;
    }
    reader.report->stage = 0;
    EXPECT_TRUE(wait_until([&] { return reader.report->bytes == sent; }));
    EXPECT_EQ(reader.report->bytes, sent);
    EXPECT_EQ(reader.report->overflow, 0U);
    for (const Member& sender : senders) {
      sender.report->leave = 2;
      reap(sender);
    }
    leave(reader);
  }
};

TEST_F(MembershipCreditsTest, SinglesOfTheWorstSizeNeverOverflow) {
  // 3,720 bytes are charged 8,448: the worst of all sizes.
  run_blast({{3720, 1}, {3720, 1}, {3720, 1}}, 300, 250);
  run_blast({{3708, 1, Family::kIpv6}, {3720, 1}, {3708, 1, Family::kIpv6}}, 300, 150);
}

TEST_F(MembershipCreditsTest, SmallAndMixedNeverOverflow) {
  run_blast({{16, 1}, {16, 1}, {16, 1}}, 300, 150);
  run_blast({{648, 1}, {1672, 1}, {4156, 1}}, 300, 150);
}

TEST_F(MembershipCreditsTest, GsoBatchesNeverOverflow) {
  run_blast({{4140, 15}, {4140, 15}, {4140, 15}}, 300, 250);
  run_blast({{1060, 60}, {300, 64}, {4140, 3}}, 300, 150);
  run_blast({{4140, 15, Family::kIpv6}, {4140, 15}, {3720, 1}}, 300, 150);
}

// One leaves, the reader's socket takes its index, and nobody has attached a program since.
TEST_F(MembershipCreditsTest, DataWaitsUntilItGoesStraight) {
  const Member leaving = start_joined();
  const Member sender = start_joined([](Membership& host, Report& report, Shared& shared) {
    while (report.stage == 0) ::usleep(500);
    const auto slot = static_cast<uint8_t>(report.stage.load());
    Server server(host, report, shared);
    std::vector<uint8_t> buffer;
    for (int sent = 0; sent < 10;) {
      if (blast_once(host, slot, {1000, 1}, buffer)) {
        ++sent;
      } else {
        ++report.refused;
        server.serve(1000);
      }
    }
    report.stage = 0;
    serve_until_told(host, report, shared);
  });
  const Member reader = start_joined([](Membership& host, Report& report, Shared& shared) {
    while (report.stage == 0) ::usleep(500);
    serve_until_told(host, report, shared);
  });
  leave(leaving);
  sender.report->stage = reader.slot();
  EXPECT_TRUE(wait_until([&] { return sender.report->stage == 0; }));
  reader.report->stage = 1;
  EXPECT_TRUE(wait_until([&] { return reader.report->bytes == 10'000; }));
  EXPECT_GT(sender.report->refused, 0U);
  EXPECT_EQ(total_misdelivered({sender, reader}), 0U);
}

TEST_F(MembershipCreditsTest, AKilledSendersCreditsComeBack) {
  const Member reader = start_joined(serve_slowly);
  reader.report->stage = 2000;
  for (int round = 0; round < 5; ++round) {
    const Member doomed = start_blaster(reader.slot(), {4140, 15});
    const Member steady = start_blaster(reader.slot(), {4140, 15});
    ASSERT_TRUE(wait_until([&] { return doomed.report->refused > 3; }));
    end(doomed, SIGKILL);
    const uint64_t before = steady.report->bytes;
    EXPECT_TRUE(wait_until([&] { return steady.report->bytes > before + 2'000'000; }));
    end(steady, SIGKILL);
  }
  EXPECT_EQ(reader.report->overflow, 0U);
  EXPECT_TRUE(wait_until([&] { return reader.report->members == 1; }));
}

// Runs that are refused now and then, for longer than kUnresponsiveAfter, and have room in between.
TEST_F(MembershipCreditsTest, AMemberWithRoomNowAndThenIsNotUnresponsive) {
  const Member reader = start_joined(serve_slowly);
  reader.report->stage = 2000;
  const Member sender =
      start_joined([slot = reader.slot()](Membership& host, Report& report, Shared& shared) {
        Server server(host, report, shared);
        std::vector<uint8_t> buffer;
        const Time end = monotonic_now() + Membership::kUnresponsiveAfter * 3 / 2;
        Time heard = monotonic_now();
        bool wrong = false;
        while (monotonic_now() < end && !wrong) {
          const bool sent =
              blast_once(host, slot, {.bytes = 4140, .segments = 15, .run = true}, buffer);
          wrong = host.anyone_unresponsive() &&
                  monotonic_now() - heard < Membership::kUnresponsiveAfter / 2;
          if (sent) heard = monotonic_now();
          if (sent) continue;
          ++report.refused;
          server.serve(1);
        }
        report.misdelivered = wrong ? 1 : 0;
        report.stage = 1;
        serve_until_told(host, report, shared);
      });
  ASSERT_TRUE(wait_until([&] { return sender.report->stage != 0; }));
  EXPECT_EQ(sender.report->misdelivered, 0U) << "taken as unresponsive";
  EXPECT_GT(sender.report->refused, 3U);
  EXPECT_EQ(reader.report->overflow, 0U);
}

// Who has no room wakes who has it: something on the way to it may have been lost.
TEST_F(MembershipCreditsTest, WhoIsWokenLooksForWhatWasLost) {
  const Member waker = start_joined([](Membership& host, Report& report, Shared& shared) {
    Server server(host, report, shared);
    while (report.stage == 0) server.serve(5);
    const auto slot = static_cast<uint8_t>(report.stage.load());
    while (report.leave == 0) {
      (void)host.wake(slot);
      server.serve(5);
    }
  });
  const Member woken = start_joined([](Membership& host, Report& report, Shared& shared) {
    Server server(host, report, shared);
    while (report.leave == 0 && host.next_look() != kNever) server.serve(5);
    report.stage = 1;
    while (report.leave == 0 && host.next_look() == kNever) {
      pollfd ready{host.fd(), POLLIN, 0};
      if (::poll(&ready, 1, 5) > 0) host.on_ready(server);
    }
    report.stage = 2;
    serve_until_told(host, report, shared);
  });
  ASSERT_TRUE(wait_until([&] { return woken.report->stage == 1; }));
  ::usleep(50'000);
  EXPECT_EQ(woken.report->stage, 1U) << "without a word";
  waker.report->stage = woken.slot();
  EXPECT_TRUE(wait_until([&] { return woken.report->stage == 2; }));
}

TEST_F(MembershipCreditsTest, AStoppedReaderHoldsOnlyItsOwnTraffic) {
  const Member stopped = start_joined();
  const Member reader = start_joined();
  const Member to_stopped = start_blaster(stopped.slot(), {4140, 15});
  const Member to_reader = start_blaster(reader.slot(), {4140, 15});
  ::kill(stopped.pid, SIGSTOP);
  ASSERT_TRUE(wait_until([&] { return to_stopped.report->refused > 3; }));
  const uint64_t before = to_reader.report->bytes;
  EXPECT_TRUE(wait_until([&] { return to_reader.report->bytes > before + 20'000'000; }));
  ::kill(stopped.pid, SIGCONT);
  const uint64_t held = to_stopped.report->bytes;
  EXPECT_TRUE(wait_until([&] { return to_stopped.report->bytes > held + 1'000'000; }));
  EXPECT_EQ(stopped.report->overflow, 0U);
  EXPECT_EQ(reader.report->overflow, 0U);
}

}  // namespace
}  // namespace verbena::link::testing
