// SPDX-License-Identifier: Apache-2.0
// The end that asks: connect() to establish(), and everything that can come between.
#include <set>
#include <vector>

#include "cm/testing.h"

namespace verbena::cm::testing {
namespace {

using Active = ManagerTest;

TEST_F(Active, RequestSaysWhatLinuxSays) {
  ConnectParams p = connect_params();
  const std::vector<uint8_t> data{1, 2, 3};
  p.private_data = data;
  p.qp = {
      .qpn = Qpn(0x17), .psn = wire::Psn(0xb5da29), .responder_resources = 1, .initiator_depth = 1};
  p.flow_label = 0x89de4;
  const CommId id = *manager.connect(p, now);
  EXPECT_EQ(id.value >> 24, kSlot);
  // Frame 1 of cm-rping.pcap, with our addresses.
  Req expected{.local_id = id.value,
               .service_id = kService,
               .ca_guid = config.ca_guid,
               .qpn = Qpn(0x17),
               .responder_resources = 1,
               .initiator_depth = 1,
               .remote_response_timeout = 20,
               .psn = wire::Psn(0xb5da29),
               .local_response_timeout = 20,
               .retry_count = 7,
               .pkey = 0xffff,
               .mtu = 3,
               .rnr_retry_count = 7,
               .max_cm_retries = 15,
               .path = {.local_lid = 0xffff,
                        .remote_lid = 0xffff,
                        .local = kOur,
                        .remote = kPeer,
                        .flow_label = 0x89de4,
                        .hop_limit = 64,
                        .local_ack_timeout = 19}};
  p.addresses->write(expected.private_data.data());
  std::ranges::copy(data, expected.private_data.begin() + 36);
  EXPECT_EQ(said<Req>(), expected);
  EXPECT_EQ(manager.state(id), State::kReqSent);
}

TEST_F(Active, OtherKindsOfQueuePair) {
  ConnectParams p = connect_params();
  p.kind = QpKind::kUc;
  ASSERT_TRUE(manager.connect(p, now).has_value());
  EXPECT_EQ(said<Req>().transport_service, 1);
  p.kind = QpKind::kXrc;
  const CommId id = *manager.connect(p, now);
  const Req m = said<Req>();
  EXPECT_EQ(m.transport_service, 3);
  EXPECT_EQ(m.extended_transport, 1);
  // The target's number stands where RD has its EE context.
  Rep reply = rep(id, kPeerId, Qpn(0));
  reply.eecn = 0x99;
  receive(reply);
  EXPECT_EQ(happened(EventKind::kConnectResponse).qp.qpn, Qpn(0x99));
}

TEST_F(Active, WhatMakesNoSenseIsRefused) {
  const auto refusal = [&](auto&& change) {
    ConnectParams p = connect_params();
    change(p);
    return manager.connect(p, now).error();
  };
  const std::vector<uint8_t> data(57);
  EXPECT_EQ(refusal([&](auto& p) { p.private_data = data; }), Error::kTooLong);
  EXPECT_EQ(refusal([](auto& p) { p.mtu = 6; }), Error::kInvalid);
  EXPECT_EQ(refusal([](auto& p) { p.max_cm_retries = 16; }), Error::kInvalid);
  EXPECT_EQ(refusal([](auto& p) { p.source = {}; }), Error::kInvalid);
  EXPECT_EQ(refusal([](auto& p) { p.qp.qpn = Qpn(1 << 24); }), Error::kInvalid);
  EXPECT_EQ(manager.size(), 0u);
}

TEST_F(Active, ReplyThenEstablish) {
  const CommId id = connect();
  receive(rep(id));
  const KeptEvent event = happened(EventKind::kConnectResponse);
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(event.context, 11u);
  EXPECT_EQ(event.qp.qpn, kPeerQpn);
  EXPECT_EQ(event.qp.psn, wire::Psn(0x888888));
  EXPECT_EQ(event.qp.responder_resources, 5);  // turned round
  EXPECT_EQ(event.qp.initiator_depth, 3);
  EXPECT_EQ(event.qp.rnr_retry_count, 4);
  EXPECT_EQ(event.target_ack_delay, 15);
  EXPECT_EQ(event.data.size(), kRepPrivateBytes);
  EXPECT_EQ(event.data[0], 0x43);
  EXPECT_EQ(manager.state(id), State::kRepReceived);

  const std::vector<uint8_t> data{9};
  ASSERT_TRUE(manager.establish(id, data, now).has_value());
  const Rtu m = said<Rtu>();
  EXPECT_EQ(m.local_id, id.value);
  EXPECT_EQ(m.remote_id, kPeerId);
  EXPECT_EQ(m.private_data[0], 9);
  EXPECT_EQ(transaction, 0xabcdu);
  EXPECT_EQ(manager.state(id), State::kEstablished);
  EXPECT_EQ(manager.establish(id, {}, now).error(), Error::kWrongState);
  pass(1000 * kSecond);
}

TEST_F(Active, PeerThatIsNotHeardAgainBeforeWeAreReady) {
  const CommId id = answered();
  pass(20 * kSecond);
  EXPECT_EQ(manager.state(id), State::kRepReceived);
  pass(10 * kSecond);
  EXPECT_EQ(said<Rej>().reason, RejectReason::kTimeout);
  EXPECT_EQ(happened(EventKind::kRejected).reason, RejectReason::kTimeout);
  EXPECT_TRUE(is_gone(id));
}

TEST_F(Active, UnansweredRequestGoesAgainAndFailsInTheEnd) {
  const CommId id = connect();
  const Req first = said_again<Req>(250 * kMillisecond);
  EXPECT_EQ(first.local_id, id.value);
  said_again<Req>(500 * kMillisecond);
  said_again<Req>(kSecond);
  said_again<Req>(2 * kSecond);
  said_again<Req>(4 * kSecond);
  // From here on as often as Linux does: twice the packet's life and the time to answer.
  const Duration timeout = 2 * from_code(18) + from_code(20);
  said_again<Req>(timeout);
  pass(16 * timeout);
  while (mads.all.size() > 1) EXPECT_EQ(said<Req>().local_id, id.value);
  const Rej m = said<Rej>();
  EXPECT_EQ(m.reason, RejectReason::kTimeout);
  EXPECT_EQ(m.remote_id, 0u);
  EXPECT_EQ(m.info_bytes, 8);
  EXPECT_EQ(happened(EventKind::kUnreachable).context, 11u);
  EXPECT_TRUE(is_gone(id));
  EXPECT_EQ(counter(Counter::kGaveUp), 1u);
  EXPECT_EQ(manager.size(), 0u);
}

TEST_F(Active, PatienceIsWhatTheProgramSaid) {
  ConnectParams p = connect_params();
  p.max_cm_retries = 0;
  p.response_timeout = 16;
  p.packet_life_time = 14;
  const Duration timeout = 2 * from_code(14) + from_code(16);
  ASSERT_TRUE(manager.connect(p, now).has_value());
  said<Req>();
  pass(timeout - 1);
  while (!mads.all.empty()) said<Req>();
  pass(1);
  said<Rej>();
  happened(EventKind::kUnreachable);
}

TEST_F(Active, ReplyAgainIsAnsweredAgain) {
  const CommId id = answered();
  receive(rep(id));
  EXPECT_EQ(said<Mra>().about, About::kRep);
  ASSERT_TRUE(manager.establish(id, {}, now).has_value());
  said<Rtu>();
  receive(rep(id));
  EXPECT_EQ(said<Rtu>().remote_id, kPeerId);
  EXPECT_EQ(counter(Counter::kDuplicateRep), 2u);
  EXPECT_EQ(counter(Counter::kMraSent), 1u);
}

TEST_F(Active, ReplyFromAnotherIsNoReply) {
  const CommId id = connect();
  receive(rep(id), kStranger);
  EXPECT_EQ(counter(Counter::kWrongPeer), 1u);
  receive(rep(id), kPeer, kStranger);
  EXPECT_EQ(counter(Counter::kWrongPeer), 2u);
  EXPECT_EQ(manager.state(id), State::kReqSent);
}

TEST_F(Active, ReplyToNothingIsRefused) {
  receive(rep(CommId(0x5a000005)));
  const Rej m = said<Rej>();
  EXPECT_EQ(m.reason, RejectReason::kInvalidCommId);
  EXPECT_EQ(m.about, About::kRep);
  EXPECT_EQ(m.remote_id, kPeerId);
  EXPECT_EQ(m.local_id, 0u);
  EXPECT_EQ(counter(Counter::kUnknownId), 1u);
}

// A request that was duplicated and came very late became a second one over there.
TEST_F(Active, SecondReplyOfAnotherIdIsRefused) {
  const CommId id = established_active();
  receive(rep(id, kPeerId + 1, Qpn(0x18)));
  EXPECT_EQ(said<Rej>().remote_id, kPeerId + 1);
  EXPECT_EQ(manager.state(id), State::kEstablished);
}

TEST_F(Active, ReplyWithAStaleQueuePair) {
  const CommId old = established_active();
  const CommId fresh = connect();
  receive(rep(fresh, kPeerId + 1));
  EXPECT_EQ(said<Rej>().reason, RejectReason::kStaleConnection);
  EXPECT_EQ(said<Dreq>().remote_id, kPeerId);
  EXPECT_EQ(happened(EventKind::kDisconnected).id, old);
  const KeptEvent event = happened(EventKind::kRejected);
  EXPECT_EQ(event.id, fresh);
  EXPECT_EQ(event.reason, RejectReason::kStaleConnection);
  EXPECT_TRUE(is_gone(fresh));
}

TEST_F(Active, RejectedByWhoHasNoEntry) {
  const CommId id = connect();
  receive(rej(id, RejectReason::kInvalidServiceId, 0));
  const KeptEvent event = happened(EventKind::kRejected);
  EXPECT_EQ(event.reason, RejectReason::kInvalidServiceId);
  EXPECT_EQ(event.data.size(), kRejPrivateBytes);
  EXPECT_TRUE(is_gone(id));
}

TEST_F(Active, AServiceThatNobodyOffersYetIsAskedForAgainForAWhile) {
  SeededRandom own(3);
  Manager patient({.slot = kSlot, .listener_grace = 5 * kMillisecond}, mads, events, own);
  const CommId id = patient.connect(connect_params(), now).value();
  const auto refuse = [&] {
    MadBuffer bytes;
    encode({}, rej(id, RejectReason::kInvalidServiceId, 0), bytes);
    patient.on_mad(kOur, kPeer, bytes, now);
  };
  const Req first = said<Req>();
  refuse();
  EXPECT_TRUE(mads.all.empty());
  now = patient.next_timer();
  patient.on_timer(now);
  EXPECT_EQ(said<Req>(), first);
  EXPECT_EQ(patient.counters()[Counter::kAskedAgain], 1u);
  now += 5 * kMillisecond;
  refuse();
  EXPECT_EQ(happened(EventKind::kRejected).reason, RejectReason::kInvalidServiceId);
  EXPECT_EQ(patient.size(), 0u);
}

TEST_F(Active, RejectedWithInformation) {
  const CommId id = connect();
  Rej m = rej(id, RejectReason::kConsumerDefined);
  m.info_bytes = 3;
  m.info[2] = 7;
  m.private_data[147] = 8;
  receive(m);
  const KeptEvent event = happened(EventKind::kRejected);
  EXPECT_EQ(event.kept_info, (std::vector<uint8_t>{0, 0, 7}));
  EXPECT_EQ(event.data[147], 8);
}

TEST_F(Active, RejectFromAnotherIsIgnored) {
  const CommId id = connect();
  receive(rej(id, RejectReason::kConsumerDefined), kStranger);
  EXPECT_EQ(counter(Counter::kWrongPeer), 1u);
  receive(rej(CommId(0x5a000009), RejectReason::kConsumerDefined));
  EXPECT_EQ(counter(Counter::kUnknownId), 1u);
  EXPECT_EQ(manager.state(id), State::kReqSent);
}

TEST_F(Active, PeerTakesItBackBeforeEstablish) {
  const CommId id = answered();
  receive(rej(id, RejectReason::kTimeout));
  happened(EventKind::kRejected);
  EXPECT_EQ(manager.establish(id, {}, now).error(), Error::kGone);
}

TEST_F(Active, WeRejectTheReply) {
  const CommId id = answered();
  const std::vector<uint8_t> data{5};
  ASSERT_TRUE(manager.reject(id, {.private_data = data}, now).has_value());
  const Rej m = said<Rej>();
  EXPECT_EQ(m.about, About::kRep);
  EXPECT_EQ(m.reason, RejectReason::kConsumerDefined);
  EXPECT_EQ(m.private_data[0], 5);
  EXPECT_TRUE(is_gone(id));
  // It was lost.
  receive(rep(id));
  EXPECT_EQ(said<Rej>().private_data[0], 5);
  pass(10 * kSecond);
  EXPECT_EQ(manager.size(), 0u);
}

TEST_F(Active, MraGivesThePeerMoreTimeOnce) {
  ConnectParams p = connect_params();
  p.max_cm_retries = 0;
  const CommId id = *manager.connect(p, now);
  said<Req>();
  const Mra m{
      .local_id = kPeerId, .remote_id = id.value, .about = About::kReq, .service_timeout = 24};
  receive(m);
  receive(m);
  EXPECT_EQ(counter(Counter::kMraHonoured), 1u);
  pass(from_code(24));
  EXPECT_EQ(manager.state(id), State::kReqSent);
  while (!mads.all.empty()) said<Req>();
  receive(m);  // and no more
  pass(10 * kSecond);
  while (mads.all.size() > 1) said<Req>();
  said<Rej>();
  happened(EventKind::kUnreachable);
}

TEST_F(Active, WeAskForTime) {
  const CommId id = answered();
  ASSERT_TRUE(manager.ask_for_time(id, 22, now).has_value());
  const Mra m = said<Mra>();
  EXPECT_EQ(m.about, About::kRep);
  EXPECT_EQ(m.service_timeout, 22);
  EXPECT_EQ(manager.ask_for_time(id, 32, now).error(), Error::kInvalid);
}

TEST_F(Active, ReleasedBeforeTheReply) {
  const CommId id = connect();
  manager.release(id, now);
  EXPECT_EQ(said<Rej>().reason, RejectReason::kTimeout);
  EXPECT_EQ(manager.size(), 0u);
  receive(rep(id));
  EXPECT_EQ(said<Rej>().reason, RejectReason::kInvalidCommId);
}

TEST_F(Active, ReleasedAfterTheReply) {
  manager.release(answered(), now);
  EXPECT_EQ(said<Rej>().about, About::kRep);
}

TEST_F(Active, TheTableHasABound) {
  Manager small({.max_connections = 2}, mads, events, random);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(small.connect(connect_params(), now).has_value());
    said<Req>();
  }
  EXPECT_EQ(small.connect(connect_params(), now).error(), Error::kTooMany);
}

TEST_F(Active, IdsAreNotUsedTwice) {
  std::set<uint32_t> seen;
  for (int i = 0; i < 20'000; ++i) {
    const CommId id = *manager.connect(connect_params(), now);
    manager.release(id, now);
    mads.all.clear();
    EXPECT_EQ(id.value >> 24, kSlot);
    EXPECT_TRUE(seen.insert(id.value).second);
  }
}

}  // namespace
}  // namespace verbena::cm::testing
