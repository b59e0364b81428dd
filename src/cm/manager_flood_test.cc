// SPDX-License-Identifier: Apache-2.0
// Requests from addresses that are not their sender's: they cost others nothing, and the owners of
// these addresses little.
#include <map>
#include <vector>

#include "cm/testing.h"

namespace verbena::cm::testing {
namespace {

class Flood : public ManagerTest {
 protected:
  // Room for more than the other tests have.
  static constexpr uint32_t kRoom = 256;
  static constexpr uint32_t kEach = 64;
  Flood() { EXPECT_TRUE(server_.listen({.service_id = kService, .backlog = kBacklog})); }

  [[nodiscard]] static wire::Gid forged(uint32_t i) {
    return wire::Gid::from_ipv4(192, static_cast<uint8_t>(i >> 16), static_cast<uint8_t>(i >> 8),
                                static_cast<uint8_t>(i));
  }
  [[nodiscard]] static Req req_from(const wire::Gid& source, uint32_t id) {
    Req m = req(id, Qpn(0x100 + (id & 0xffff)));
    m.path.local = source;
    return m;
  }
  template <typename M>
  void deliver(const M& message, const wire::Gid& from) {
    MadBuffer bytes;
    encode({.transaction = 1}, message, bytes);
    server_.on_mad(kOur, from, bytes, now);
  }
  void flood(uint32_t requests, const wire::Gid* source = nullptr) {
    for (uint32_t i = 0; i < requests; ++i, ++requests_) {
      const wire::Gid from = source != nullptr ? *source : forged(requests_);
      deliver(req_from(from, 1 + requests_), from);
    }
  }
  [[nodiscard]] static Req to(uint64_t service, Req m) {
    m.service_id = service;
    return m;
  }
  // Another listener, until its backlog is full.
  void flood_other(uint64_t service) {
    ASSERT_TRUE(server_.listen({.service_id = service, .backlog = kBacklog}));
    for (uint32_t i = 0; i < kBacklog; ++i, ++requests_) {
      deliver(to(service, req_from(forged(requests_), 1 + requests_)), forged(requests_));
    }
  }
  // The program takes every request that it is told of.
  void accept_all() {
    while (!events.all.empty()) {
      const KeptEvent event = events.all.front();
      events.all.pop_front();
      if (event.kind != EventKind::kConnectRequest) continue;
      (void)server_.accept(event.id, {.qp = {.qpn = kOurQpn}}, now);
    }
  }
  void let_pass(Duration span) {
    const Time until = now + span;
    while (server_.next_timer() <= until) {
      now = std::max(now, server_.next_timer());
      server_.on_timer(now);
    }
    now = until;
  }
  // The messages to each, which are then forgotten.
  [[nodiscard]] std::map<wire::Gid, uint32_t> sent() {
    std::map<wire::Gid, uint32_t> count;
    for (const SentMad& mad : mads.all) ++count[mad.destination];
    mads.all.clear();
    return count;
  }
  // An honest peer asks once. Whether it is connected a millisecond later.
  [[nodiscard]] bool connects(const wire::Gid& peer, uint32_t id) {
    mads.all.clear();
    deliver(req_from(peer, id), peer);
    accept_all();
    const auto answer = std::ranges::find(mads.all, peer, &SentMad::destination);
    if (answer == mads.all.end()) return false;
    const auto mad = decode(answer->bytes);
    const auto* const rep = mad ? std::get_if<Rep>(&mad->message) : nullptr;
    if (rep == nullptr) return false;
    now += kMillisecond;
    Rtu ready;
    ready.local_id = id;
    ready.remote_id = rep->local_id;
    deliver(ready, peer);
    return server_.state(CommId(rep->local_id)) == State::kEstablished;
  }
  void TearDown() override {
    mads.all.clear();
    events.all.clear();
    server_.leave(now);
    EXPECT_EQ(server_.half_open(), 0u);
    mads.all.clear();
    ManagerTest::TearDown();
  }

  static constexpr uint32_t kBacklog = 64;
  Manager server_{
      {.slot = kSlot, .max_half_open = kRoom, .max_half_open_each = kEach}, mads, events, random};
  uint32_t requests_ = 0;
};

TEST_F(Flood, AnAddressThatNeverAnsweredGetsThreeMessagesForOne) {
  const wire::Gid owner = forged(7);
  flood(10, &owner);
  accept_all();
  let_pass(200 * kSecond);
  EXPECT_EQ(sent(), (std::map<wire::Gid, uint32_t>{{owner, 30}}));
  EXPECT_EQ(server_.half_open(), 0u);
  EXPECT_GT(server_.counters()[Counter::kKeptSilent], 0u);
}

// It was not the one who asked that was silent, but the way that lost its confirmation.
TEST_F(Flood, AnAddressThatAnswersSomethingElseIsToldAgain) {
  deliver(req_from(kPeer, 0x10), kPeer);
  accept_all();
  let_pass(10 * kSecond);
  EXPECT_EQ(sent()[kPeer], 3u);
  let_pass(10 * kSecond);
  EXPECT_EQ(sent()[kPeer], 0u);
  ASSERT_TRUE(connects(kPeer, 0x20));
  mads.all.clear();
  let_pass(20 * kSecond);
  EXPECT_GT(sent()[kPeer], 1u);
}

// What it repeats is answered, one for one.
TEST_F(Flood, RepetitionsAreAnsweredFromAnyAddress) {
  const wire::Gid owner = forged(7);
  deliver(req_from(owner, 1), owner);
  accept_all();
  let_pass(2 * kSecond);
  EXPECT_EQ(sent()[owner], 3u);
  for (int i = 0; i < 5; ++i) deliver(req_from(owner, 1), owner);
  EXPECT_EQ(sent()[owner], 5u);
}

TEST_F(Flood, APeerThatHasAnsweredIsToldToTheEnd) {
  ASSERT_TRUE(connects(kPeer, 0x500));
  (void)sent();
  deliver(req_from(kPeer, 0x501), kPeer);
  accept_all();
  let_pass(200 * kSecond);
  EXPECT_GT(sent()[kPeer], 10u);
}

TEST_F(Flood, AnHonestPeerConnectsAtItsFirstRequestThroughout) {
  uint32_t connected = 0;
  for (uint32_t round = 0; round < 200; ++round) {
    flood(50);
    accept_all();
    if (connects(wire::Gid::from_ipv4(10, 1, 0, static_cast<uint8_t>(round)), 0x10000 + round)) {
      ++connected;
    }
    let_pass(10 * kMillisecond);
    EXPECT_LE(server_.half_open(), kRoom);
  }
  EXPECT_EQ(connected, 200u);
  EXPECT_GT(server_.counters()[Counter::kEvicted], 5000u);
}

// From its own address it can fill no more than its share.
TEST_F(Flood, OneAddressHasABound) {
  const wire::Gid source = forged(1);
  flood(kBacklog, &source);
  accept_all();
  flood(10, &source);
  EXPECT_EQ(server_.counters()[Counter::kSourceFull], 10u);
  EXPECT_EQ(server_.half_open(), kEach);
  EXPECT_TRUE(connects(kPeer, 0x500));
}

// The program is slow and the flood from one address: another has its turn in the backlog.
TEST_F(Flood, OneAddressCannotKeepABacklogFull) {
  const wire::Gid source = forged(1);
  flood(kBacklog + 5, &source);
  EXPECT_EQ(events.all.size(), kBacklog);
  deliver(req_from(kPeer, 0x500), kPeer);
  ASSERT_EQ(events.all.size(), kBacklog + 2);
  EXPECT_EQ(events.all[kBacklog].kind, EventKind::kRejected);
  EXPECT_EQ(events.all[kBacklog + 1].kind, EventKind::kConnectRequest);
  EXPECT_EQ(events.all[kBacklog + 1].destination, kPeer);
}

// And from many: those that are known to be there go before those that are not.
TEST_F(Flood, AKnownPeerHasRoomInAFullBacklog) {
  ASSERT_TRUE(connects(kPeer, 0x500));
  flood(kBacklog + 5);
  EXPECT_EQ(server_.counters()[Counter::kBacklogFull], 5u);
  deliver(req_from(kPeer, 0x501), kPeer);
  ASSERT_FALSE(events.all.empty());
  EXPECT_EQ(events.all.back().kind, EventKind::kConnectRequest);
  EXPECT_EQ(events.all.back().destination, kPeer);
}

// However many wait at another listener, which came before.
TEST_F(Flood, AKnownPeerHasRoomInAFullBacklogBesideAnother) {
  ASSERT_TRUE(connects(kPeer, 0x500));
  flood(kBacklog);
  flood_other(kService + 1);
  deliver(to(kService + 1, req_from(kPeer, 0x501)), kPeer);
  EXPECT_EQ(events.all.back().kind, EventKind::kConnectRequest);
  EXPECT_EQ(events.all.back().destination, kPeer);
}

// Nor do listeners whose programs take no requests keep it from one that does.
TEST_F(Flood, AKnownPeerHasRoomThoughAllThatCanBeHalfOpenWaits) {
  ASSERT_TRUE(connects(kPeer, 0x500));
  for (uint64_t i = 1; i <= kRoom / kBacklog; ++i) flood_other(kService + i);
  ASSERT_EQ(server_.half_open(), kRoom);
  deliver(req_from(kPeer, 0x501), kPeer);
  EXPECT_EQ(events.all.back().kind, EventKind::kConnectRequest);
  EXPECT_EQ(events.all.back().destination, kPeer);
  EXPECT_EQ(server_.half_open(), kRoom);
}

// Many honest peers at once, none of them known: nobody's request is given up for another's while
// its answer is on the way.
TEST_F(Flood, ABurstOfNewPeersIsNotOne) {
  for (uint32_t i = 0; i < kRoom + 10; ++i) {
    deliver(req_from(forged(i), 1 + i), forged(i));
    accept_all();
  }
  EXPECT_EQ(server_.counters()[Counter::kEvicted], 0u);
  EXPECT_EQ(server_.counters()[Counter::kHalfOpenFull], 10u);
}

}  // namespace
}  // namespace verbena::cm::testing
