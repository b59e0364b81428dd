// SPDX-License-Identifier: Apache-2.0
// Hostile packets at the RoCE port, from a process of the same user: noise, cut and bent packets,
// real ones replayed (as they were, and with an ICRC made new), from another address, to wrong
// queue pairs, with wrong keys, nonsense with a right ICRC. Beside them a good connection goes on
// with right data; each kind is counted, memory is untouched, and nothing crashes.
//
// What nobody can defend against on this wire is left out: a packet with the peer's address, the
// right PSN and the right key is the peer's.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "attacker.h"
#include "budget.h"
#include "link/membership.h"
#include "pair.h"
#include "pattern.h"

namespace verbena::device::testing {
namespace {

using transport::Counter;
using transport::SendOp;
using wire::Op;
using wire::Service;

constexpr uint32_t kGood = 0;    // queue pairs
constexpr uint32_t kVictim = 1;  // may be brought into error
constexpr uint32_t kGoodBytes = 3000;
constexpr uint32_t kTheEnd = 0xffffffff;
constexpr uint64_t kGoodAt = kGuardBytes;
constexpr uint64_t kUntouched = 64 * 1024;
constexpr uint64_t kUntouchedBytes = 512 * 1024;

// Keeps what left, ICRC included. Called under the engine's lock.
class Recorder final : public link::TransmitTap {
 public:
  void on_transmit(const wire::IcrcFlow&, const transport::Path&,
                   std::span<const uint8_t> packet) override {
    if (packets.size() < 2000) packets.emplace_back(packet.begin(), packet.end());
  }
  std::vector<std::vector<uint8_t>> packets;
};

struct Target {
  Qpn good;
  Qpn victim;
  uint64_t addr = 0;
  uint32_t first_psn = 0;
};

// What an attacker knows and draws from.
class Hostility {
 public:
  Hostility(const Target& target, std::vector<std::vector<uint8_t>> recorded, bool ipv6)
      : target_(target),
        recorded_(std::move(recorded)),
        membership_(join()),
        near_(sockets(ipv6), loopback(ipv6), loopback(ipv6), engine_options().host.udp.port),
        // Another address of this host; IPv6 has only one on loopback.
        other_(sockets(ipv6), ipv6 ? loopback(true) : wire::Gid::from_ipv4(127, 0, 0, 2),
               loopback(ipv6), engine_options().host.udp.port),
        ipv6_(ipv6) {}

  void send(uint64_t count) {
    const std::array<void (Hostility::*)(), 9> kinds{
        &Hostility::noise,           &Hostility::bent,      &Hostility::replayed,
        &Hostility::replayed_as_new, &Hostility::spoofed,   &Hostility::wrong_qp,
        &Hostility::wrong_service,   &Hostility::wrong_key, &Hostility::nonsense};
    while (sent() < count) {
      const auto kind = kinds[random_.below(kinds.size())];
      for (int i = 0; i < 32; ++i) (this->*kind)();
      near_.flush();
      other_.flush();
    }
  }
  [[nodiscard]] uint64_t sent() const { return near_.sent() + other_.sent(); }

 private:
  [[nodiscard]] static std::unique_ptr<link::Membership> join() {
    SeededRandom random(7);
    auto joined = link::Membership::join(engine_options().host, random);
    if (!joined) throw Broken("the attacker is no member: " + joined.error().what);
    return std::move(*joined);
  }
  [[nodiscard]] const link::UdpSockets& sockets(bool ipv6) const {
    return ipv6 ? *membership_->ipv6() : *membership_->ipv4();
  }
  [[nodiscard]] std::vector<uint8_t> random_bytes(size_t n) {
    std::vector<uint8_t> bytes(n);
    for (size_t at = 0; at < n; at += 8) {
      const uint64_t word = random_.next();
      std::memcpy(bytes.data() + at, &word, std::min<size_t>(8, n - at));
    }
    return bytes;
  }
  [[nodiscard]] const std::vector<uint8_t>& any_recorded() {
    return recorded_[random_.below(recorded_.size())];
  }
  void sign_and_add(Attacker& attacker, std::vector<uint8_t> packet) {
    attacker.sign(packet);
    attacker.add(packet);
  }
  // A request of 64 bytes' payload to somewhere in the memory that must stay as it is.
  [[nodiscard]] std::vector<uint8_t> request(Service service, Op op, Qpn qpn, wire::Psn psn,
                                             RKey rkey) {
    wire::Headers headers;
    headers.bth.opcode = wire::opcode_byte(service, op);
    headers.bth.dest_qp = qpn;
    headers.bth.psn = psn;
    headers.bth.ack_request = true;
    headers.reth = {target_.addr + random_.below(kUntouchedBytes), rkey, 64};
    headers.atomic_eth = {target_.addr, rkey, 1, 0};
    const auto payload = random_bytes(64);
    const bool carries = op != Op::kReadRequest && op != Op::kFetchAdd && op != Op::kCompareSwap;
    return wire::encode(headers, carries ? payload : std::span<const uint8_t>());
  }

  void noise() { near_.add(random_bytes(random_.below(400))); }
  // A real one with some bits wrong.
  void bent() {
    auto packet = any_recorded();
    for (int i = 0; i < 9; ++i) packet[random_.below(packet.size())] ^= 0x5a;
    packet[5] = static_cast<uint8_t>(target_.good.value >> 16);
    near_.add(packet);
  }
  void replayed() { near_.add(any_recorded()); }
  void replayed_as_new() {
    auto packet = any_recorded();
    packet.resize(packet.size() - wire::kIcrcBytes);
    sign_and_add(near_, std::move(packet));
  }
  void spoofed() {
    const wire::Psn psn(static_cast<uint32_t>(random_.next()));
    if (ipv6_) return noise();
    sign_and_add(other_, request(Service::kRc, Op::kWriteOnly, target_.good, psn, any_key()));
  }
  void wrong_qp() {
    const wire::Psn psn(static_cast<uint32_t>(random_.next()));
    sign_and_add(near_, request(Service::kRc, Op::kWriteOnly, stranger(target_.good, random_), psn,
                                any_key()));
  }
  void wrong_service() {
    const Service service = random_.below(2) == 0 ? Service::kUc : Service::kXrc;
    sign_and_add(near_, request(service, Op::kWriteOnly, target_.good, {}, any_key()));
  }
  // The victim's next PSN, so that the key is what is looked at.
  void wrong_key() {
    constexpr std::array<Op, 4> kOps{Op::kWriteOnly, Op::kReadRequest, Op::kFetchAdd,
                                     Op::kCompareSwap};
    sign_and_add(near_, request(Service::kRc, kOps[random_.below(4)], target_.victim,
                                wire::Psn(target_.first_psn), any_key()));
  }
  // Any opcode, any header, a right ICRC; to the victim or to nobody.
  void nonsense() {
    auto packet = random_bytes(12 + 4 * random_.below(30));
    const Qpn qpn = random_.below(2) == 0 ? target_.victim : stranger(target_.good, random_);
    packet[1] &= 0xf0;
    packet[2] = packet[3] = 0xff;
    packet[5] = static_cast<uint8_t>(qpn.value >> 16);
    packet[6] = static_cast<uint8_t>(qpn.value >> 8);
    packet[7] = static_cast<uint8_t>(qpn.value);
    sign_and_add(near_, std::move(packet));
  }
  [[nodiscard]] RKey any_key() { return RKey(static_cast<uint32_t>(random_.next())); }

  Target target_;
  std::vector<std::vector<uint8_t>> recorded_;
  std::unique_ptr<link::Membership> membership_;
  SeededRandom random_{42};
  Attacker near_;
  Attacker other_;
  bool ipv6_;
};

void good_round(End& near, uint32_t round) {
  fill(near.bytes(kGoodAt, kGoodBytes), round);
  near.post(kGood, {.op = SendOp::kWriteImm,
                    .local = kGoodAt,
                    .bytes = kGoodBytes,
                    .remote = kGoodAt,
                    .imm = round});
  (void)near.sent();
  const uint64_t back = kGoodAt + 2 * kGoodBytes;
  guard(near.bytes(back, kGoodBytes));
  near.post(kGood, {.op = SendOp::kRead, .local = back, .bytes = kGoodBytes, .remote = kGoodAt});
  (void)near.sent();
  ASSERT_EQ(differs(near.bytes(back, kGoodBytes), round), "") << "round " << round;
  ASSERT_EQ(trespass(near.bytes(back, kGoodBytes)), "") << "round " << round;
}

void attacked_near(End& near, uint64_t packets) {
  near.barrier();
  Recorder recorder;
  near.engine().set_taps(&recorder, nullptr);
  uint32_t round = 0;
  while (round < 20) good_round(near, round++);
  near.engine().set_taps(nullptr, nullptr);
  ASSERT_GT(recorder.packets.size(), 20u);

  Hostility hostility({near.remote_qpn(kGood), near.remote_qpn(kVictim),
                       near.remote_addr(kUntouched), near.setup().first_psn},
                      recorder.packets, near.setup().ipv6);
  std::atomic<bool> over{false};
  std::jthread attack([&] {
    hostility.send(packets);
    over.store(true);
  });
  const uint32_t before = round;
  while (!over.load() && !::testing::Test::HasFatalFailure()) good_round(near, round++);
  attack.join();
  // And it still goes on.
  for (int i = 0; i < 20; ++i) good_round(near, round++);
  EXPECT_GT(round, before + 20) << "nothing was completed during the attack";
  EXPECT_GE(hostility.sent(), packets);
  near.post(kGood, {.op = SendOp::kWriteImm, .imm = kTheEnd});
  (void)near.sent();
}

void attacked_far(End& far, bool ipv6) {
  fill(far.bytes(kUntouched, kUntouchedBytes), 99);
  for (uint64_t i = 0; i < 16; ++i) far.post_recv(kGood, 0, 0);
  far.barrier();
  uint32_t round = 0;
  for (;; ++round) {
    const auto completion = far.received();
    far.post_recv(kGood, 0, 0);
    if (completion.imm_or_rkey == kTheEnd) break;
    ASSERT_EQ(completion.imm_or_rkey, round) << "the good connection's messages are not in order";
  }
  EXPECT_EQ(differs(far.bytes(kUntouched, kUntouchedBytes), 99), "");
  EXPECT_EQ(far.state(kGood), transport::QpState::kRts);
  EXPECT_EQ(far.state(kVictim), transport::QpState::kErr);
  uint64_t unparsable = 0;
  {
    const Engine::Locked locked(far.engine());
    for (const uint64_t n : far.engine().link().intake_counters().parse_errors) unparsable += n;
    EXPECT_GT(far.engine().link().intake_counters().bad_icrc, 0u);
  }
  EXPECT_GT(unparsable, 0u);
  EXPECT_GT(far.counter(Counter::kDropNoQp), 0u);
  EXPECT_GT(far.counter(Counter::kDropWrongService), 0u);
  EXPECT_GT(far.counter(Counter::kDropWrongState), 0u) << "the victim's, after its error";
  EXPECT_GT(far.counter(Counter::kDuplicateRequest), 0u) << "replays with a right ICRC";
  EXPECT_GT(
      far.counter(Counter::kNakRemoteAccessSent) + far.counter(Counter::kNakInvalidRequestSent),
      0u);
  if (!ipv6) {
    EXPECT_GT(far.counter(Counter::kDropWrongPeer), 0u);
  }
}

class Hostile : public ::testing::TestWithParam<bool> {};

TEST_P(Hostile, PacketsDoNotStopAGoodConnection) {
  const bool ipv6 = GetParam();
  const uint64_t packets = ipv6 ? repeat(100'000, 10'000) : repeat(1'000'000, 30'000);
  const PairOptions options{.ipv6 = ipv6,
                            .mtu = transport::Mtu::k1024,
                            .queue_pairs = 2,
                            .first_psn = 1000,
                            .timeout = 18};
  run_pair(
      options, [&](End& near) { attacked_near(near, packets); },
      [&](End& far) { attacked_far(far, ipv6); });
}

INSTANTIATE_TEST_SUITE_P(Families, Hostile, ::testing::Values(false, true),
                         [](const auto& which) { return which.param ? "Ipv6" : "Ipv4"; });

}  // namespace
}  // namespace verbena::device::testing
