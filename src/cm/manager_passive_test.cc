// SPDX-License-Identifier: Apache-2.0
// The end that is asked: listeners, accept() and reject(), and what a peer may send again.
#include <vector>

#include "cm/testing.h"

namespace verbena::cm::testing {
namespace {

using Passive = ManagerTest;

TEST_F(Passive, TheProgramLearnsWhatTheRequestSays) {
  const ListenerId listener = listen();
  receive(req());
  const KeptEvent event = happened(EventKind::kConnectRequest);
  EXPECT_EQ(event.id.value >> 24, kSlot);
  EXPECT_EQ(event.listener, listener);
  EXPECT_EQ(event.listener_context, 22u);
  EXPECT_EQ(event.source, kOur);
  EXPECT_EQ(event.destination, kPeer);
  EXPECT_EQ(event.service_id, kService);
  EXPECT_EQ(event.addresses, (AddressHeader{999, kPeer, kOur}));
  EXPECT_EQ(event.qp_kind, QpKind::kRc);
  EXPECT_EQ(event.qp.qpn, kPeerQpn);
  EXPECT_EQ(event.qp.psn, wire::Psn(0x777777));
  EXPECT_EQ(event.qp.responder_resources, 5);  // turned round
  EXPECT_EQ(event.qp.initiator_depth, 3);
  EXPECT_EQ(event.qp.rnr_retry_count, 4);
  EXPECT_EQ(event.retry_count, 6);
  EXPECT_EQ(event.mtu, 3);
  EXPECT_EQ(event.hop_limit, 64);
  EXPECT_EQ(event.local_ack_timeout, 19);
  EXPECT_EQ(event.data.size(), 56u);
  EXPECT_EQ(event.data[0], 0x42);
  EXPECT_EQ(manager.state(event.id), State::kReqReceived);
  EXPECT_EQ(manager.half_open(), 1u);
}

TEST_F(Passive, AcceptThenReady) {
  const CommId id = asked();
  const std::vector<uint8_t> data(kRepPrivateBytes, 7);
  ASSERT_TRUE(manager
                  .accept(id,
                          {.qp = {.qpn = kOurQpn,
                                  .psn = wire::Psn(5),
                                  .responder_resources = 2,
                                  .initiator_depth = 1},
                           .private_data = data},
                          now)
                  .has_value());
  const Rep m = said<Rep>();
  EXPECT_EQ(m.local_id, id.value);
  EXPECT_EQ(m.remote_id, kPeerId);
  EXPECT_EQ(m.qpn, kOurQpn);
  EXPECT_EQ(m.psn, wire::Psn(5));
  EXPECT_EQ(m.responder_resources, 2);
  EXPECT_EQ(m.initiator_depth, 1);
  EXPECT_EQ(m.target_ack_delay, 15);
  EXPECT_EQ(m.rnr_retry_count, 7);
  EXPECT_EQ(m.ca_guid, config.ca_guid);
  EXPECT_EQ(m.private_data[195], 7);
  EXPECT_EQ(transaction, 0xabcdu);
  ASSERT_TRUE(manager.set_context(id, 33).has_value());
  Rtu ready = rtu(id);
  ready.private_data[0] = 4;
  receive(ready);
  const KeptEvent event = happened(EventKind::kEstablished);
  EXPECT_EQ(event.context, 33u);
  EXPECT_EQ(event.data[0], 4);
  EXPECT_EQ(manager.state(id), State::kEstablished);
  EXPECT_EQ(manager.half_open(), 0u);
  receive(rtu(id));
  EXPECT_EQ(counter(Counter::kDuplicateRtu), 1u);
  pass(1000 * kSecond);
}

TEST_F(Passive, AcceptMustMakeSense) {
  const CommId id = asked();
  const std::vector<uint8_t> data(kRepPrivateBytes + 1);
  EXPECT_EQ(manager.accept(id, {.private_data = data}, now).error(), Error::kTooLong);
  EXPECT_EQ(manager.accept(id, {.qp = {.qpn = Qpn(1 << 24)}}, now).error(), Error::kInvalid);
  EXPECT_EQ(manager.accept(CommId(7), {}, now).error(), Error::kGone);
  EXPECT_TRUE(manager.accept(id, {}, now).has_value());
  said<Rep>();
  EXPECT_EQ(manager.accept(id, {}, now).error(), Error::kWrongState);
}

TEST_F(Passive, XrcTargetAnswersWithItsNumberElsewhere) {
  listen();
  Req m = req();
  m.transport_service = 3;
  m.extended_transport = 1;
  receive(m);
  const KeptEvent event = happened(EventKind::kConnectRequest);
  EXPECT_EQ(event.qp_kind, QpKind::kXrc);
  ASSERT_TRUE(manager.accept(event.id, {.qp = {.qpn = kOurQpn}}, now).has_value());
  const Rep reply = said<Rep>();
  EXPECT_EQ(reply.qpn, Qpn(0));
  EXPECT_EQ(reply.eecn, kOurQpn.value);
  EXPECT_TRUE(reply.srq);
}

TEST_F(Passive, DataBeforeReady) {
  const CommId id = accepted();
  ASSERT_TRUE(manager.data_arrived(id, now).has_value());
  happened(EventKind::kEstablished);
  ASSERT_TRUE(manager.data_arrived(id, now).has_value());  // once
  receive(rtu(id));
  EXPECT_EQ(counter(Counter::kDuplicateRtu), 1u);
  pass(1000 * kSecond);
}

TEST_F(Passive, PeerThatIsNotHeardAgainWhileTheProgramThinks) {
  const CommId id = asked();
  pass(30 * kSecond);
  receive(req());  // it is there
  said<Mra>();
  pass(4 * from_code(24));  // as long as we asked it to be silent, and some of its messages lost
  EXPECT_EQ(manager.state(id), State::kReqReceived);
  pass(60 * kSecond);
  EXPECT_EQ(said<Rej>().reason, RejectReason::kTimeout);
  EXPECT_EQ(happened(EventKind::kRejected).reason, RejectReason::kTimeout);
  EXPECT_EQ(manager.accept(id, {}, now).error(), Error::kGone);
  EXPECT_EQ(manager.half_open(), 0u);
}

TEST_F(Passive, RequestAgainBeforeTheAnswer) {
  const CommId id = asked();
  receive(req());
  const Mra m = said<Mra>();
  EXPECT_EQ(m.about, About::kReq);
  EXPECT_EQ(m.local_id, id.value);
  EXPECT_EQ(m.remote_id, kPeerId);
  EXPECT_EQ(m.service_timeout, 24);
  EXPECT_EQ(counter(Counter::kDuplicateReq), 1u);
}

TEST_F(Passive, RequestAgainAfterTheAnswer) {
  const CommId id = accepted();
  receive(req());
  EXPECT_EQ(said<Rep>().local_id, id.value);
  receive(rtu(id));
  happened(EventKind::kEstablished);
  receive(req());  // late
  EXPECT_EQ(counter(Counter::kDuplicateReq), 2u);
}

TEST_F(Passive, RequestAgainInTimewait) {
  const CommId id = established_passive();
  receive(dreq(id));
  said<Drep>();
  happened(EventKind::kDisconnectRequested);
  receive(req());
  EXPECT_EQ(said<Rej>().reason, RejectReason::kStaleConnection);
}

TEST_F(Passive, ReplyGoesAgainAndFailsInTheEnd) {
  peer_answers();
  const CommId id = accepted();
  said_again<Rep>(250 * kMillisecond);
  said_again<Rep>(500 * kMillisecond);
  pass(16 * from_code(20));
  while (mads.all.size() > 1) EXPECT_EQ(said<Rep>().local_id, id.value);
  const Rej m = said<Rej>();
  EXPECT_EQ(m.reason, RejectReason::kTimeout);
  EXPECT_EQ(m.remote_id, kPeerId);
  happened(EventKind::kUnreachable);
  EXPECT_TRUE(is_gone(id));
  EXPECT_EQ(manager.size(), 0u);
}

// Neither as fast nor as slow as a peer likes.
TEST_F(Passive, PatienceHasBounds) {
  listen();
  peer_answers();
  Req quick = req();
  quick.local_response_timeout = 0;
  quick.max_cm_retries = 0;
  receive(quick);
  ASSERT_TRUE(manager.accept(happened(EventKind::kConnectRequest).id, {}, now).has_value());
  said<Rep>();
  pass(config.first_resend - 1);
  EXPECT_TRUE(mads.all.empty());
  pass(1);
  said<Rej>();
  happened(EventKind::kUnreachable);

  Req slow = req();
  slow.local_response_timeout = 31;
  receive(slow);
  ASSERT_TRUE(manager.accept(happened(EventKind::kConnectRequest).id, {}, now).has_value());
  pass(config.max_patience);
  while (mads.all.size() > 1) said<Rep>();
  said<Rej>();
  happened(EventKind::kUnreachable);
}

TEST_F(Passive, MraToTheReply) {
  const CommId id = accepted();
  receive(
      Mra{.local_id = kPeerId, .remote_id = id.value, .about = About::kRep, .service_timeout = 20});
  EXPECT_EQ(counter(Counter::kMraHonoured), 1u);
  receive(
      Mra{.local_id = kPeerId, .remote_id = id.value, .about = About::kReq, .service_timeout = 20});
  EXPECT_EQ(counter(Counter::kWrongState), 1u);
  pass(kSecond);  // nothing is sent again so soon
}

TEST_F(Passive, ReadyForNothingIsRefused) {
  receive(rtu(CommId(0x5a000001)));
  const Rej m = said<Rej>();
  EXPECT_EQ(m.reason, RejectReason::kInvalidCommId);
  EXPECT_EQ(m.about, About::kOther);
}

TEST_F(Passive, ReadyFromAnotherIsIgnored) {
  const CommId id = accepted();
  receive(rtu(id), kStranger);
  Rtu wrong = rtu(id);
  wrong.local_id = kPeerId + 1;
  receive(wrong);
  EXPECT_EQ(counter(Counter::kWrongPeer), 2u);
  EXPECT_EQ(manager.state(id), State::kRepSent);
}

TEST_F(Passive, Reject) {
  const CommId id = asked();
  const std::vector<uint8_t> info{1, 2};
  const std::vector<uint8_t> data{3};
  const std::vector<uint8_t> much(149);
  EXPECT_EQ(manager.reject(id, {.private_data = much}, now).error(), Error::kTooLong);
  ASSERT_TRUE(manager
                  .reject(id,
                          {.reason = RejectReason::kInvalidMtu, .info = info, .private_data = data},
                          now)
                  .has_value());
  const Rej m = said<Rej>();
  EXPECT_EQ(m.remote_id, kPeerId);
  EXPECT_EQ(m.about, About::kReq);
  EXPECT_EQ(m.reason, RejectReason::kInvalidMtu);
  EXPECT_EQ(m.info_bytes, 2);
  EXPECT_EQ(m.info[1], 2);
  EXPECT_EQ(m.private_data[0], 3);
  EXPECT_TRUE(is_gone(id));
  EXPECT_EQ(manager.half_open(), 0u);
  // Lost: the peer asks again after its 6 s, and the program is not bothered a second time.
  pass(2 * from_code(18) + from_code(20));
  receive(req());
  EXPECT_EQ(said<Rej>().reason, RejectReason::kInvalidMtu);
  pass(10 * kSecond);
  EXPECT_EQ(manager.size(), 0u);
}

TEST_F(Passive, RejectAfterAll) {
  const CommId id = accepted();
  ASSERT_TRUE(manager.reject(id, {}, now).has_value());
  EXPECT_EQ(said<Rej>().about, About::kOther);
  EXPECT_TRUE(is_gone(id));
}

// A program whose connect was refused may try again at once with the queue pair it has.
TEST_F(Passive, RefusedQueuePairIsNotStale) {
  ASSERT_TRUE(manager.reject(asked(), {}, now).has_value());
  said<Rej>();
  const CommId id = asked(kPeerId + 1);
  ASSERT_TRUE(manager.reject(id, {}, now).has_value());
  said<Rej>();
  asked(kPeerId + 2);
}

TEST_F(Passive, PeerGivesUpBeforeTheAnswer) {
  const CommId id = asked();
  // It never learnt our id.
  receive(rej(CommId(0), RejectReason::kTimeout));
  EXPECT_EQ(happened(EventKind::kRejected).reason, RejectReason::kTimeout);
  EXPECT_EQ(manager.accept(id, {}, now).error(), Error::kGone);
}

TEST_F(Passive, WhoNeverLearntOurIdEndsNothing) {
  const CommId id = established_passive();
  receive(rej(CommId(0), RejectReason::kTimeout));
  EXPECT_EQ(counter(Counter::kWrongPeer), 1u);
  EXPECT_EQ(manager.state(id), State::kEstablished);
}

TEST_F(Passive, PeerRefusesOurReply) {
  const CommId id = accepted();
  receive(rej(id, RejectReason::kConsumerDefined));
  happened(EventKind::kRejected);
  EXPECT_TRUE(is_gone(id));
}

TEST_F(Passive, NobodyListens) {
  receive(req());
  // Frame 2 of cm-reject-no-listener.pcap.
  const Rej expected{.remote_id = kPeerId, .reason = RejectReason::kInvalidServiceId};
  EXPECT_EQ(said<Rej>(), expected);
  EXPECT_EQ(transaction, 0xabcdu);
  EXPECT_EQ(counter(Counter::kNoListener), 1u);
  const ListenerId id = listen();
  ASSERT_TRUE(manager.unlisten(id).has_value());
  EXPECT_EQ(manager.unlisten(id).error(), Error::kGone);
  receive(req());
  said<Rej>();
}

TEST_F(Passive, ListenerOfOneAddressGoesFirst) {
  const ListenerId any = *manager.listen({.service_id = kService});
  const ListenerId ours = *manager.listen({.service_id = kService, .address = kOur});
  EXPECT_EQ(manager.listen({.service_id = kService}).error(), Error::kInUse);
  EXPECT_EQ(manager.listen({.service_id = kService, .address = kOur}).error(), Error::kInUse);
  receive(req());
  EXPECT_EQ(happened(EventKind::kConnectRequest).listener, ours);
  Req other = req(kPeerId + 1, Qpn(0x18));
  AddressHeader{1, kPeer, kStranger}.write(other.private_data.data());
  receive(other);
  EXPECT_EQ(happened(EventKind::kConnectRequest).listener, any);
  ASSERT_TRUE(manager.unlisten(any).has_value());
  receive(req(kPeerId + 2, Qpn(0x19)));
  EXPECT_EQ(happened(EventKind::kConnectRequest).listener, ours);
  other.local_id = kPeerId + 3;
  other.qpn = Qpn(0x20);
  receive(other);
  EXPECT_EQ(said<Rej>().reason, RejectReason::kInvalidServiceId);
}

TEST_F(Passive, ListenersOfEachFamily) {
  const ListenerId four =
      *manager.listen({.service_id = kService, .address = wire::AddressSet::all_ipv4()});
  EXPECT_EQ(manager.listen({.service_id = kService}).error(), Error::kInUse);
  Req m = req();
  const wire::Gid six{{0xfd, 0x99}};
  AddressHeader{1, six, six}.write(m.private_data.data());
  receive(m);
  EXPECT_EQ(said<Rej>().reason, RejectReason::kInvalidServiceId);
  const ListenerId other =
      *manager.listen({.service_id = kService, .address = wire::AddressSet::all_ipv6()});
  receive(m);
  EXPECT_EQ(happened(EventKind::kConnectRequest).listener, other);
  receive(req(kPeerId + 1, Qpn(0x18)));
  EXPECT_EQ(happened(EventKind::kConnectRequest).listener, four);
}

TEST_F(Passive, ServiceWithoutAddresses) {
  const ListenerId id = *manager.listen({.service_id = 0x1234567890});
  Req m = req();
  m.service_id = 0x1234567890;
  receive(m);
  const KeptEvent event = happened(EventKind::kConnectRequest);
  EXPECT_EQ(event.listener, id);
  EXPECT_FALSE(event.addresses.has_value());
  EXPECT_EQ(event.data.size(), kReqPrivateBytes);
}

TEST_F(Passive, RequestsThatMakeNoSense) {
  listen();
  const auto refusal = [&](auto&& change) {
    Req m = req();
    change(m);
    receive(m);
    return said<Rej>().reason;
  };
  EXPECT_EQ(refusal([](Req& m) { m.transport_service = 2; }), RejectReason::kInvalidTransportType);
  EXPECT_EQ(refusal([](Req& m) { m.transport_service = 3; }), RejectReason::kInvalidTransportType);
  EXPECT_EQ(refusal([](Req& m) { m.mtu = 0; }), RejectReason::kInvalidMtu);
  EXPECT_EQ(refusal([](Req& m) { m.path.local = kStranger; }), RejectReason::kInvalidGid);
  EXPECT_EQ(refusal([](Req& m) { m.local_id = 0; }), RejectReason::kInvalidCommId);
  EXPECT_EQ(refusal([](Req& m) { m.private_data[1] = 0; }), RejectReason::kUnsupported);
  EXPECT_EQ(counter(Counter::kBadRequest), 6u);
  EXPECT_EQ(manager.size(), 0u);
}

TEST_F(Passive, BacklogIsABound) {
  listen(2);
  receive(req(1, Qpn(0x21)));
  receive(req(2, Qpn(0x22)));
  receive(req(3, Qpn(0x23)));  // not heard
  EXPECT_EQ(counter(Counter::kBacklogFull), 1u);
  const CommId first = happened(EventKind::kConnectRequest).id;
  happened(EventKind::kConnectRequest);
  ASSERT_TRUE(manager.accept(first, {}, now).has_value());
  said<Rep>();
  receive(req(3, Qpn(0x23)));
  happened(EventKind::kConnectRequest);
}

TEST_F(Passive, HalfOpenConnectionsHaveABound) {
  listen(100);
  std::vector<CommId> ids;
  for (uint32_t i = 1; i <= 4; ++i) {
    receive(req(i, Qpn(0x100 + i)));
    ids.push_back(happened(EventKind::kConnectRequest).id);
    ASSERT_TRUE(manager.accept(ids.back(), {.qp = {.qpn = kOurQpn}}, now).has_value());
    said<Rep>();
  }
  receive(req(5, Qpn(0x105)));
  EXPECT_EQ(counter(Counter::kHalfOpenFull), 1u);
  Rtu ready;
  ready.local_id = 1;
  ready.remote_id = ids[0].value;
  receive(ready);
  happened(EventKind::kEstablished);
  receive(req(5, Qpn(0x105)));
  happened(EventKind::kConnectRequest);
}

TEST_F(Passive, RefusedOnesThatLingerHaveABound) {
  listen(100);
  for (uint32_t i = 1; i <= 20; ++i) {
    receive(req(i, Qpn(0x100 + i)));
    ASSERT_TRUE(manager.reject(happened(EventKind::kConnectRequest).id, {}, now).has_value());
    said<Rej>();
  }
  EXPECT_EQ(manager.size(), config.max_half_open);
  pass(10 * kSecond);
  EXPECT_EQ(manager.size(), 0u);
}

TEST_F(Passive, TableIsABound) {
  Manager small({.max_connections = 1}, mads, events, random);
  ASSERT_TRUE(small.listen({.service_id = kService}).has_value());
  for (uint32_t i = 1; i <= 2; ++i) {
    MadBuffer bytes;
    encode({}, req(i, Qpn(0x100 + i)), bytes);
    small.on_mad(kOur, kPeer, bytes, now);
  }
  happened(EventKind::kConnectRequest);
  EXPECT_EQ(small.counters()[Counter::kTableFull], 1u);
}

TEST_F(Passive, StaleConnectionIsTornDown) {
  const CommId id = established_passive();
  receive(req(kPeerId + 1));
  const Rej m = said<Rej>();
  EXPECT_EQ(m.reason, RejectReason::kStaleConnection);
  EXPECT_EQ(m.remote_id, kPeerId + 1);
  EXPECT_EQ(said<Dreq>().remote_id, kPeerId);
  EXPECT_EQ(happened(EventKind::kDisconnected).id, id);
  EXPECT_EQ(counter(Counter::kStaleConnection), 1u);
  receive(drep(id));
  EXPECT_EQ(manager.state(id), State::kTimewait);
  // Until its time is over; then the number is free again.
  receive(req(kPeerId + 1));
  EXPECT_EQ(said<Rej>().reason, RejectReason::kStaleConnection);
  pass(10 * kSecond);
  happened(EventKind::kTimewaitExit);
  receive(req(kPeerId + 1));
  happened(EventKind::kConnectRequest);
}

TEST_F(Passive, SameNumberFromAnotherHostIsNotStale) {
  const CommId id = established_passive();
  Req m = req();
  m.path.local = kStranger;
  receive(m, kStranger);
  happened(EventKind::kConnectRequest);
  EXPECT_EQ(manager.state(id), State::kEstablished);
}

TEST_F(Passive, ProgramsWithoutAQueuePairAreNotStale) {
  listen();
  receive(req(1, Qpn(0)));
  receive(req(2, Qpn(0)));
  happened(EventKind::kConnectRequest);
  happened(EventKind::kConnectRequest);
}

TEST_F(Passive, ReleaseRefuses) {
  manager.release(asked(), now);
  EXPECT_EQ(said<Rej>().about, About::kReq);
  const CommId id = asked(kPeerId + 1, Qpn(0x99));
  ASSERT_TRUE(manager.accept(id, {}, now).has_value());
  said<Rep>();
  manager.release(id, now);
  EXPECT_EQ(said<Rej>().about, About::kOther);
  // Both were lost, and the peer thinks it is connected.
  Rtu ready = rtu(id);
  ready.local_id = kPeerId + 1;
  receive(ready);
  said<Rej>();
}

TEST_F(Passive, BytesThatAreNoMessage) {
  manager.on_mad(kOur, kPeer, {}, now);
  EXPECT_EQ(counter(Counter::kMalformed), 1u);
}

}  // namespace
}  // namespace verbena::cm::testing
