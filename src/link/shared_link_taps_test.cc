// SPDX-License-Identifier: Apache-2.0
// Captures and faults see what goes through rings as packets of RoCEv2, with right ICRCs.
#include <deque>
#include <vector>

#include "link/receive_filter.h"
#include "link/shared_link_test_fixture.h"
#include "wire/icrc.h"
#include "wire/packet.h"

namespace verbena::link::testing {
namespace {

// What it saw, each found to be whole.
class Onlooker final : public TransmitTap, public ReceiveFilter {
 public:
  explicit Onlooker(uint16_t port) : port_(port) {}
  void on_transmit(const wire::IcrcFlow& flow, const transport::Path& path,
                   std::span<const uint8_t> packet) override {
    EXPECT_EQ(path.traffic_class, 32);
    EXPECT_GE(flow.source_port, 0xc000);
    EXPECT_EQ(flow.destination_port, port_);
    see(flow, packet);
  }
  void pass(const Datagram& datagram, Time, DatagramHandler& next) override {
    EXPECT_EQ(datagram.traffic_class, 32);
    EXPECT_EQ(datagram.hop_limit, 9);
    see({.source = datagram.source,
         .destination = datagram.destination,
         .source_port = datagram.source_port,
         .destination_port = port_},
        datagram.bytes);
    next.on_datagram(datagram);
  }
  [[nodiscard]] Time release(Time, DatagramHandler&) override { return kNever; }

  std::vector<Node::Arrived> seen;

 private:
  void see(const wire::IcrcFlow& flow, std::span<const uint8_t> packet) {
    ASSERT_GE(packet.size(), wire::Bth::kBytes + wire::kIcrcBytes);
    const auto covered = packet.first(packet.size() - wire::kIcrcBytes);
    EXPECT_EQ(wire::icrc(flow, covered), wire::load_icrc(packet.data() + covered.size()));
    const auto view = wire::parse(packet);
    ASSERT_TRUE(view);
    seen.push_back({view->bth, {view->payload.begin(), view->payload.end()}, flow.source});
  }
  uint16_t port_;
};

class SharedLinkTapsTest : public SharedLinkTest {
 protected:
  void use_ipv6() {
    wire::Gid loopback;
    loopback.bytes[15] = 1;
    path_.source = path_.destination = loopback;
  }
  Node& a_ = join();
  Node& b_ = join();
  Onlooker leaving_{options_.udp.port};
  Onlooker arriving_{options_.udp.port};
};

TEST_F(SharedLinkTapsTest, PacketsAreSeenAsOnTheWire) {
  a_.link->set_taps(&leaving_, nullptr);
  b_.link->set_taps(nullptr, &arriving_);
  const std::array<size_t, 9> lengths{0, 1, 2, 3, 4, 511, 512, 4095, 4096};
  const auto send_all = [&] {
    for (const size_t bytes : lengths) a_.send_and_flush(b_, static_cast<uint32_t>(bytes), bytes);
    (void)b_.serve();
  };
  send_all();
  use_ipv6();
  send_all();
  ASSERT_EQ(b_.arrived.size(), 2 * lengths.size());
  for (const Onlooker* const onlooker : {&leaving_, &arriving_}) {
    ASSERT_EQ(onlooker->seen.size(), 2 * lengths.size());
    for (size_t i = 0; i < onlooker->seen.size(); ++i) {
      EXPECT_EQ(onlooker->seen[i].payload, b_.arrived[i].payload);
      EXPECT_EQ(onlooker->seen[i].bth.psn, b_.arrived[i].bth.psn);
      EXPECT_EQ(onlooker->seen[i].source, b_.arrived[i].source);
    }
  }
  EXPECT_EQ(a_.datagrams_sent(), 0);
}

TEST_F(SharedLinkTapsTest, ARunIsSeenPacketByPacket) {
  a_.link->set_taps(&leaving_, nullptr);
  b_.link->set_taps(nullptr, &arriving_);
  a_.send_run(b_, 100, 8, 1024, true);
  (void)b_.serve();
  EXPECT_EQ(b_.runs, 0);
  ASSERT_EQ(b_.arrived.size(), 8);
  for (const Onlooker* const onlooker : {&leaving_, &arriving_}) {
    ASSERT_EQ(onlooker->seen.size(), 8);
    for (uint32_t i = 0; i < 8; ++i) {
      const Node::Arrived& seen = onlooker->seen[i];
      EXPECT_EQ(seen.bth.psn.value(), 100 + i);
      EXPECT_EQ(seen.bth.ack_request, i == 7);
      EXPECT_EQ(seen.payload, std::vector<uint8_t>(1024, static_cast<uint8_t>(100 + i)));
      EXPECT_EQ(b_.arrived[i].payload, seen.payload);
    }
  }
}

TEST_F(SharedLinkTapsTest, TapsThatAreTakenOutSeeNoMore) {
  a_.link->set_taps(&leaving_, nullptr);
  b_.link->set_taps(nullptr, &arriving_);
  a_.send_and_flush(b_, 1);
  (void)b_.serve();
  a_.link->set_taps(nullptr, nullptr);
  b_.link->set_taps(nullptr, nullptr);
  a_.send_run(b_, 2, 4, 64);
  (void)b_.serve();
  EXPECT_EQ(leaving_.seen.size(), 1);
  EXPECT_EQ(arriving_.seen.size(), 1);
  EXPECT_EQ(b_.runs, 1);
  EXPECT_EQ(b_.psns().size(), 5);
}

// --- faults

class ScriptedFaults final : public FaultSource {
 public:
  [[nodiscard]] Fate judge(std::span<const uint8_t>) override {
    if (fates.empty()) return {};
    const Fate fate = fates.front();
    fates.pop_front();
    return fate;
  }
  void corrupt(std::span<uint8_t> frame) override { frame[frame.size() / 2] ^= 4; }

  std::deque<Fate> fates;
};

class SharedLinkFaultsTest : public SharedLinkTapsTest {
 protected:
  SharedLinkFaultsTest() {
    use_ipv6();  // there the ICRC is checked exactly
    b_.link->set_taps(nullptr, &filter_);
  }
  // Four packets, and what became of them so far.
  [[nodiscard]] std::vector<uint32_t> send_four(std::deque<Fate> fates) {
    faults_.fates = std::move(fates);
    for (uint32_t i = 1; i <= 4; ++i) a_.send_and_flush(b_, i, 100);
    (void)b_.serve();
    return b_.psns();
  }
  // Some that come as one.
  [[nodiscard]] std::vector<uint32_t> send_run_of_four(std::deque<Fate> fates) {
    faults_.fates = std::move(fates);
    a_.send_run(b_, 1, 4, 256);
    (void)b_.serve();
    return b_.psns();
  }
  static constexpr Fate kGood{};
  static constexpr Fate kLost{.copies = 0};
  static constexpr Fate kTwice{.copies = 2};
  static constexpr Fate kLate{.copies = 1, .copy = {{{.wait = kSecond}, {}}}};
  static constexpr Fate kBent{.copies = 1, .copy = {{{.corrupted = true}, {}}}};

  ScriptedFaults faults_;
  FaultFilter filter_{faults_};
};

TEST_F(SharedLinkFaultsTest, LostPacketsDoNotArrive) {
  EXPECT_EQ(send_four({kGood, kLost, kLost, kGood}), (std::vector<uint32_t>{1, 4}));
}

TEST_F(SharedLinkFaultsTest, OfARunSomeAreLost) {
  EXPECT_EQ(send_run_of_four({kLost, kGood, kLost, kGood}), (std::vector<uint32_t>{2, 4}));
}

TEST_F(SharedLinkFaultsTest, DuplicatesArriveTwice) {
  EXPECT_EQ(send_four({kGood, kTwice, kGood, kTwice}), (std::vector<uint32_t>{1, 2, 2, 3, 4, 4}));
  for (const Node::Arrived& one : b_.arrived) {
    const auto value = static_cast<uint8_t>(one.bth.psn.value());
    EXPECT_EQ(one.payload, std::vector<uint8_t>(100, value));
  }
}

TEST_F(SharedLinkFaultsTest, LatePacketsAreOvertaken) {
  const Time before = monotonic_now();
  EXPECT_EQ(send_four({kGood, kLate, kGood, kGood}), (std::vector<uint32_t>{1, 3, 4}));
  b_.link->on_timer(monotonic_now());
  const Time due = b_.link->next_timer();
  EXPECT_GE(due, before + kSecond);
  EXPECT_LE(due, monotonic_now() + kSecond);
  // The ring was used for others meanwhile.
  for (uint32_t i = 5; i < 2000; ++i) {
    a_.send_and_flush(b_, i, 100);
    (void)b_.serve();
  }
  EXPECT_EQ(b_.arrived.size(), 3 + 1995);
  b_.link->on_timer(due);
  EXPECT_EQ(b_.arrived.size(), 4 + 1995);
  EXPECT_EQ(b_.arrived.back().bth.psn.value(), 2);
  EXPECT_EQ(b_.arrived.back().payload, std::vector<uint8_t>(100, 2));
}

TEST_F(SharedLinkFaultsTest, CorruptedPacketsAreFoundOut) {
  EXPECT_EQ(send_four({kGood, kBent, kBent, kGood}), (std::vector<uint32_t>{1, 4}));
  EXPECT_EQ(b_.link->intake_counters().bad_icrc, 2);
}

}  // namespace
}  // namespace verbena::link::testing
