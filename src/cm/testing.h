// SPDX-License-Identifier: Apache-2.0
// The tests of this folder: sinks that remember, and one manager whose peer is the test. A test
// says what arrives and what must come of it; said<M>() and happened() take the next message and
// event, and at the end of each test nothing may be left that it did not look at.
#pragma once

#include <algorithm>
#include <deque>
#include <ostream>
#include <span>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "cm/manager.h"
#include "cm/times.h"

namespace verbena::cm {

inline std::ostream& operator<<(std::ostream& out, EventKind kind) {
  return out << to_string(kind);
}
inline std::ostream& operator<<(std::ostream& out, State state) { return out << to_string(state); }

namespace testing {

struct SentMad {
  wire::Gid source;
  wire::Gid destination;
  MadBuffer bytes;
};

class RecordingMads final : public MadSink {
 public:
  void send_mad(const wire::Gid& source, const wire::Gid& destination, MadBytes mad) override {
    SentMad& sent = all.emplace_back(source, destination);
    std::ranges::copy(mad, sent.bytes.begin());
  }
  std::deque<SentMad> all;
};

// An event with bytes of its own.
struct KeptEvent : Event {
  explicit KeptEvent(const Event& event)
      : Event(event),
        data(event.private_data.begin(), event.private_data.end()),
        kept_info(event.info.begin(), event.info.end()) {
    private_data = {};
    info = {};
  }
  std::vector<uint8_t> data;
  std::vector<uint8_t> kept_info;
};

class RecordingEvents final : public EventSink {
 public:
  void on_event(const Event& event) override { all.emplace_back(event); }
  std::deque<KeptEvent> all;
};

inline constexpr wire::Gid kOur = wire::Gid::from_ipv4(10, 0, 0, 1);
inline constexpr wire::Gid kPeer = wire::Gid::from_ipv4(10, 0, 0, 2);
inline constexpr wire::Gid kStranger = wire::Gid::from_ipv4(10, 0, 0, 3);
inline constexpr uint64_t kService = service_id(PortSpace::kTcp, 7174);
inline constexpr uint32_t kPeerId = 0x77000001;
inline constexpr Qpn kOurQpn{0x123456};
inline constexpr Qpn kPeerQpn{0x17};
inline constexpr uint8_t kSlot = 0x5a;

class ManagerTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(mads.all.empty()) << mads.all.size() << " messages nobody expected";
    for (const KeptEvent& event : events.all) ADD_FAILURE() << "nobody expected: " << event.kind;
    // Whatever is left ends by itself, once the program lets go.
    manager.leave(now);
    EXPECT_EQ(manager.size(), 0u);
    EXPECT_EQ(manager.half_open(), 0u);
  }

  // ---- the peer
  template <typename M>
  void receive(const M& message, const wire::Gid& from = kPeer, const wire::Gid& to = kOur) {
    MadBuffer bytes;
    encode({.transaction = 0xabcd}, message, bytes);
    manager.on_mad(to, from, bytes, now);
  }
  [[nodiscard]] static Req req(uint32_t id = kPeerId, Qpn qpn = kPeerQpn) {
    Req m{.local_id = id,
          .service_id = kService,
          .qpn = qpn,
          .responder_resources = 3,
          .initiator_depth = 5,
          .remote_response_timeout = 20,
          .psn = wire::Psn(0x777777),
          .local_response_timeout = 20,
          .retry_count = 6,
          .pkey = 0xffff,
          .mtu = 3,
          .rnr_retry_count = 4,
          .max_cm_retries = 15,
          .path = {.local = kPeer, .remote = kOur, .hop_limit = 64, .local_ack_timeout = 19}};
    AddressHeader{.source_port = 999, .source = kPeer, .destination = kOur}.write(
        m.private_data.data());
    m.private_data[AddressHeader::kBytes] = 0x42;
    return m;
  }
  [[nodiscard]] static Rep rep(CommId to, uint32_t id = kPeerId, Qpn qpn = kPeerQpn) {
    Rep m{.local_id = id,
          .remote_id = to.value,
          .qpn = qpn,
          .psn = wire::Psn(0x888888),
          .responder_resources = 3,
          .initiator_depth = 5,
          .target_ack_delay = 15,
          .rnr_retry_count = 4};
    m.private_data[0] = 0x43;
    return m;
  }
  [[nodiscard]] static Rtu rtu(CommId to) {
    Rtu m;
    m.local_id = kPeerId;
    m.remote_id = to.value;
    return m;
  }
  [[nodiscard]] static Dreq dreq(CommId to, Qpn qpn = kOurQpn) {
    return {.local_id = kPeerId, .remote_id = to.value, .remote_qpn = qpn};
  }
  [[nodiscard]] static Drep drep(CommId to) {
    Drep m;
    m.local_id = kPeerId;
    m.remote_id = to.value;
    return m;
  }
  [[nodiscard]] static Rej rej(CommId to, RejectReason reason, uint32_t id = kPeerId) {
    return {.local_id = id, .remote_id = to.value, .reason = reason};
  }

  // ---- our program
  [[nodiscard]] static ConnectParams connect_params() {
    return {.source = kOur,
            .destination = kPeer,
            .service_id = kService,
            .addresses = AddressHeader{1000, kOur, kPeer},
            .qp = {.qpn = kOurQpn, .psn = wire::Psn(1)},
            .context = 11};
  }
  CommId connect() {
    const auto id = manager.connect(connect_params(), now);
    EXPECT_TRUE(id.has_value());
    EXPECT_EQ(said<Req>().local_id, id->value);
    return *id;
  }
  ListenerId listen(uint32_t backlog = 8) {
    return *manager.listen({.service_id = kService, .backlog = backlog, .context = 22});
  }
  // A request of the peer's, before our program.
  CommId asked(uint32_t id = kPeerId, Qpn qpn = kPeerQpn) {
    if (!listening) listen();
    listening = true;
    receive(req(id, qpn));
    return happened(EventKind::kConnectRequest).id;
  }
  CommId accepted() {
    const CommId id = asked();
    EXPECT_TRUE(manager.accept(id, {.qp = {.qpn = kOurQpn}}, now).has_value());
    EXPECT_EQ(said<Rep>().remote_id, kPeerId);
    return id;
  }
  CommId established_passive() {
    const CommId id = accepted();
    receive(rtu(id));
    happened(EventKind::kEstablished);
    return id;
  }
  // It is no stranger any more (half_open.h).
  void peer_answers() {
    receive(rej(connect(), RejectReason::kConsumerDefined));
    happened(EventKind::kRejected);
  }
  CommId answered() {
    const CommId id = connect();
    receive(rep(id));
    happened(EventKind::kConnectResponse);
    return id;
  }
  CommId established_active() {
    const CommId id = answered();
    EXPECT_TRUE(manager.establish(id, {}, now).has_value());
    EXPECT_EQ(said<Rtu>().remote_id, kPeerId);
    return id;
  }

  // ---- what came of it
  template <typename M>
  M said(const wire::Gid& to = kPeer) {
    if (mads.all.empty()) {
      ADD_FAILURE() << "said nothing";
      return {};
    }
    const SentMad sent = mads.all.front();
    mads.all.pop_front();
    EXPECT_EQ(sent.source, kOur);
    EXPECT_EQ(sent.destination, to);
    const auto mad = decode(sent.bytes);
    EXPECT_TRUE(mad.has_value());
    const M* const message = std::get_if<M>(&mad->message);
    EXPECT_NE(message, nullptr) << "said something else: variant " << mad->message.index();
    transaction = mad->header.transaction;
    return message != nullptr ? *message : M{};
  }
  // The same again after this time, and no sooner.
  template <typename M>
  M said_again(Duration after) {
    pass(after - 1);
    EXPECT_TRUE(mads.all.empty()) << "too soon";
    pass(1);
    return said<M>();
  }
  KeptEvent happened(EventKind kind) {
    if (events.all.empty()) {
      ADD_FAILURE() << "nothing happened, expected: " << kind;
      return KeptEvent({});
    }
    KeptEvent event = events.all.front();
    events.all.pop_front();
    EXPECT_EQ(event.kind, kind);
    return event;
  }
  [[nodiscard]] bool is_gone(CommId id) const { return !manager.state(id).has_value(); }
  [[nodiscard]] uint64_t counter(Counter which) const { return manager.counters()[which]; }
  // Time passes; timers fire when they are due.
  void pass(Duration span) {
    const Time until = now + span;
    while (manager.next_timer() <= until) {
      now = std::max(now, manager.next_timer());
      manager.on_timer(now);
    }
    now = until;
  }

  Time now = 1'000'000;
  uint64_t transaction = 0;  // of the last message said
  bool listening = false;
  Config config{.slot = kSlot, .ca_guid = 0x0123456789abcdef, .max_half_open = 4};
  SeededRandom random{1};
  RecordingMads mads;
  RecordingEvents events;
  Manager manager{config, mads, events, random};
};

}  // namespace testing
}  // namespace verbena::cm
