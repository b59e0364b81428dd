// SPDX-License-Identifier: Apache-2.0
// The end of a connection, from either end, from both at once, and from neither.
#include <vector>

#include "cm/testing.h"

namespace verbena::cm::testing {
namespace {

using End = ManagerTest;

TEST_F(End, WeDisconnect) {
  const CommId id = established_active();
  const std::vector<uint8_t> data{6};
  ASSERT_TRUE(manager.disconnect(id, data, now).has_value());
  const Dreq m = said<Dreq>();
  EXPECT_EQ(m.local_id, id.value);
  EXPECT_EQ(m.remote_id, kPeerId);
  EXPECT_EQ(m.remote_qpn, kPeerQpn);
  EXPECT_EQ(m.private_data[0], 6);
  EXPECT_EQ(manager.state(id), State::kDreqSent);
  EXPECT_TRUE(manager.disconnect(id, {}, now).has_value());  // twice is once
  receive(drep(id));
  happened(EventKind::kDisconnected);
  EXPECT_EQ(manager.state(id), State::kTimewait);
  EXPECT_TRUE(manager.disconnect(id, {}, now).has_value());
  receive(drep(id));
  EXPECT_EQ(counter(Counter::kWrongState), 1u);
  pass(from_code(19));
  EXPECT_EQ(happened(EventKind::kTimewaitExit).id, id);
  EXPECT_EQ(manager.disconnect(id, {}, now).error(), Error::kGone);
  EXPECT_EQ(manager.size(), 0u);
}

TEST_F(End, OnlyWhatWasAgreedToCanBeDisconnected) {
  EXPECT_EQ(manager.disconnect(connect(), {}, now).error(), Error::kWrongState);
  EXPECT_EQ(manager.disconnect(asked(), {}, now).error(), Error::kWrongState);
}

TEST_F(End, WeDisconnectBeforeThePeerIsReady) {
  const CommId id = accepted();
  ASSERT_TRUE(manager.disconnect(id, {}, now).has_value());
  EXPECT_EQ(said<Dreq>().remote_qpn, kPeerQpn);
  receive(rtu(id));  // crosses it
  EXPECT_EQ(manager.state(id), State::kDreqSent);
  receive(drep(id));
  happened(EventKind::kDisconnected);
  EXPECT_EQ(manager.state(id), State::kTimewait);
}

TEST_F(End, WeDisconnectAndThePeerNeverHadOurAnswer) {
  const CommId id = accepted();
  ASSERT_TRUE(manager.disconnect(id, {}, now).has_value());
  said<Dreq>();
  receive(req());
  EXPECT_EQ(said<Rej>().reason, RejectReason::kStaleConnection);
}

TEST_F(End, UnansweredDisconnectEndsAnyway) {
  const CommId id = established_passive();
  ASSERT_TRUE(manager.disconnect(id, {}, now).has_value());
  pass(config.max_disconnect_patience - 1);
  EXPECT_GT(mads.all.size(), 4u);
  while (!mads.all.empty()) said<Dreq>();
  pass(1);
  happened(EventKind::kDisconnected);
  EXPECT_EQ(counter(Counter::kGaveUp), 1u);
  pass(10 * kSecond);
  happened(EventKind::kTimewaitExit);
}

TEST_F(End, PeerDisconnects) {
  const CommId id = established_active();
  Dreq m = dreq(id);
  m.private_data[0] = 2;
  receive(m);
  EXPECT_EQ(said<Drep>().remote_id, kPeerId);
  EXPECT_EQ(transaction, 0xabcdu);
  EXPECT_EQ(happened(EventKind::kDisconnectRequested).data[0], 2);
  EXPECT_EQ(manager.state(id), State::kTimewait);
  EXPECT_TRUE(manager.disconnect(id, {}, now).has_value());
  // The DREP was lost.
  receive(m);
  said<Drep>();
  EXPECT_EQ(counter(Counter::kDuplicateDreq), 1u);
  pass(10 * kSecond);
  happened(EventKind::kTimewaitExit);
  // And again, when nothing is left.
  receive(m);
  const Drep last = said<Drep>();
  EXPECT_EQ(last.local_id, id.value);
  EXPECT_EQ(last.remote_id, kPeerId);
  EXPECT_EQ(counter(Counter::kUnknownDreq), 1u);
}

TEST_F(End, BothAtOnce) {
  const CommId id = established_active();
  ASSERT_TRUE(manager.disconnect(id, {}, now).has_value());
  said<Dreq>();
  receive(dreq(id));
  said<Drep>();
  happened(EventKind::kDisconnected);
  receive(drep(id));  // to ours
  pass(10 * kSecond);
  happened(EventKind::kTimewaitExit);
}

TEST_F(End, DisconnectOvertakesReady) {
  const CommId id = accepted();
  receive(dreq(id));
  said<Drep>();
  happened(EventKind::kEstablished);
  happened(EventKind::kDisconnectRequested);
  receive(rtu(id));
  EXPECT_EQ(manager.state(id), State::kTimewait);
}

TEST_F(End, DisconnectOvertakesOurReady) {
  const CommId id = answered();
  receive(dreq(id));
  said<Drep>();
  happened(EventKind::kDisconnectRequested);
  EXPECT_EQ(manager.establish(id, {}, now).error(), Error::kWrongState);
  receive(rep(id));
  EXPECT_EQ(said<Rej>().reason, RejectReason::kStaleConnection);
}

TEST_F(End, DisconnectMustNameBothEnds) {
  const CommId id = established_active();
  receive(dreq(id), kStranger);
  receive(dreq(id, Qpn(0x55)));
  Dreq wrong = dreq(id);
  wrong.local_id = kPeerId + 1;
  receive(wrong);
  EXPECT_EQ(counter(Counter::kWrongPeer), 3u);
  EXPECT_EQ(manager.state(id), State::kEstablished);
}

TEST_F(End, DisconnectBeforeTheAnswer) {
  const CommId id = asked();
  receive(dreq(id, Qpn(0)));
  EXPECT_EQ(counter(Counter::kWrongState), 1u);
}

TEST_F(End, PeerForgotTheConnection) {
  const CommId id = established_active();
  receive(rej(id, RejectReason::kInvalidCommId, 0));
  EXPECT_EQ(happened(EventKind::kDisconnected).reason, RejectReason::kInvalidCommId);
  EXPECT_EQ(manager.state(id), State::kTimewait);
  receive(rej(id, RejectReason::kInvalidCommId, 0));
  EXPECT_EQ(counter(Counter::kWrongState), 1u);
}

TEST_F(End, ConnectionLost) {
  const CommId id = established_passive();
  ASSERT_TRUE(manager.connection_lost(id, now).has_value());
  said<Dreq>();
  happened(EventKind::kDisconnected);
  EXPECT_TRUE(manager.connection_lost(id, now).has_value());  // twice is once
  EXPECT_TRUE(manager.disconnect(id, {}, now).has_value());
  said_again<Dreq>(250 * kMillisecond);
  receive(drep(id));  // it was there after all
  EXPECT_EQ(manager.state(id), State::kTimewait);
  pass(from_code(19));
  happened(EventKind::kTimewaitExit);
  EXPECT_EQ(manager.connection_lost(id, now).error(), Error::kGone);
}

TEST_F(End, ConnectionLostAndNobodyThere) {
  const CommId id = established_active();
  ASSERT_TRUE(manager.connection_lost(id, now).has_value());
  happened(EventKind::kDisconnected);
  pass(config.max_disconnect_patience);
  while (!mads.all.empty()) said<Dreq>();
  EXPECT_EQ(manager.state(id), State::kTimewait);
  pass(from_code(19));
  happened(EventKind::kTimewaitExit);
}

TEST_F(End, ConnectionLostWhileDisconnecting) {
  const CommId id = established_passive();
  ASSERT_TRUE(manager.disconnect(id, {}, now).has_value());
  said<Dreq>();
  ASSERT_TRUE(manager.connection_lost(id, now).has_value());
  happened(EventKind::kDisconnected);
  EXPECT_EQ(manager.connection_lost(connect(), now).error(), Error::kWrongState);
}

TEST_F(End, PeerLostWhileTheProgramThinks) {
  const auto lose = [&](CommId id) {
    EXPECT_TRUE(manager.connection_lost(id, now).has_value());
    EXPECT_EQ(happened(EventKind::kRejected).reason, RejectReason::kTimeout);
    EXPECT_TRUE(is_gone(id));
  };
  lose(asked());
  lose(accepted());
  lose(answered());
  EXPECT_EQ(manager.half_open(), 0u);
}

TEST_F(End, ReleaseDisconnectsQuietly) {
  const CommId id = established_active();
  manager.release(id, now);
  said<Dreq>();
  EXPECT_TRUE(is_gone(id));
  manager.release(id, now);  // twice is once
  EXPECT_EQ(manager.set_context(id, 1).error(), Error::kGone);
  said_again<Dreq>(250 * kMillisecond);
  receive(drep(id));
  pass(10 * kSecond);
  EXPECT_EQ(manager.size(), 0u);
}

TEST_F(End, ReleaseInTimewait) {
  const CommId id = established_active();
  receive(dreq(id));
  said<Drep>();
  happened(EventKind::kDisconnectRequested);
  manager.release(id, now);
  EXPECT_EQ(manager.size(), 1u);
  receive(dreq(id));
  said<Drep>();
  pass(10 * kSecond);
  EXPECT_EQ(manager.size(), 0u);
}

TEST_F(End, LeavingTellsEveryPeer) {
  established_active();
  ASSERT_TRUE(manager.connect(connect_params(), now).has_value());
  said<Req>();
  listen();
  receive(req(kPeerId + 1, Qpn(0x91)));
  happened(EventKind::kConnectRequest);
  manager.leave(now);
  EXPECT_EQ(manager.size(), 0u);
  EXPECT_EQ(manager.next_timer(), kNever);
  int dreqs = 0;
  int rejs = 0;
  for (const SentMad& sent : mads.all) {
    const Mad mad = *decode(sent.bytes);
    dreqs += std::holds_alternative<Dreq>(mad.message) ? 1 : 0;
    rejs += std::holds_alternative<Rej>(mad.message) ? 1 : 0;
  }
  EXPECT_EQ(dreqs, 1);
  EXPECT_EQ(rejs, 2);
  mads.all.clear();
}

}  // namespace
}  // namespace verbena::cm::testing
