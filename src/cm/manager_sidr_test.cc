// SPDX-License-Identifier: Apache-2.0
// Service id resolution, both ends.
#include <vector>

#include "cm/testing.h"

namespace verbena::cm::testing {
namespace {

constexpr uint64_t kDatagrams = service_id(PortSpace::kUdp, 7174);

class Sidr : public ManagerTest {
 protected:
  CommId ask() {
    const CommId id = *manager.sidr_request({.source = kOur,
                                             .destination = kPeer,
                                             .service_id = kDatagrams,
                                             .addresses = AddressHeader{1, kOur, kPeer},
                                             .context = 44},
                                            now);
    const SidrReq m = said<SidrReq>();
    EXPECT_EQ(m.request_id, id.value);
    EXPECT_EQ(m.service_id, kDatagrams);
    EXPECT_EQ(m.pkey, 0xffff);
    EXPECT_EQ(AddressHeader::read(m.private_data), (AddressHeader{1, kOur, kPeer}));
    return id;
  }
  static SidrReq question(uint32_t id = 0x99000001) {
    SidrReq m{.request_id = id, .pkey = 0xffff, .service_id = kDatagrams};
    AddressHeader{2, kPeer, kOur}.write(m.private_data.data());
    m.private_data[36] = 0x44;
    return m;
  }
};

TEST_F(Sidr, WeAsk) {
  const CommId id = ask();
  SidrRep m{.request_id = id.value, .qpn = Qpn(0x33), .service_id = kDatagrams, .qkey = 0x11};
  m.private_data[0] = 9;
  receive(m, kStranger);
  EXPECT_EQ(counter(Counter::kWrongPeer), 1u);
  receive(m);
  const KeptEvent event = happened(EventKind::kSidrResponse);
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(event.context, 44u);
  EXPECT_EQ(event.status, SidrStatus::kSuccess);
  EXPECT_EQ(event.qp.qpn, Qpn(0x33));
  EXPECT_EQ(event.qp.qkey, 0x11u);
  EXPECT_EQ(event.data.size(), kSidrRepPrivateBytes);
  EXPECT_EQ(event.data[0], 9);
  EXPECT_TRUE(is_gone(id));
  receive(m);
  EXPECT_EQ(counter(Counter::kUnknownId), 1u);
}

TEST_F(Sidr, AServiceThatNobodyOffersYetIsAskedForAgainForAWhile) {
  SeededRandom own(3);
  Manager patient({.slot = kSlot, .listener_grace = 5 * kMillisecond}, mads, events, own);
  const CommId id =
      *patient.sidr_request({.source = kOur, .destination = kPeer, .service_id = 1}, now);
  const auto refuse = [&] {
    MadBuffer bytes;
    encode({}, SidrRep{.request_id = id.value, .status = SidrStatus::kUnsupported}, bytes);
    patient.on_mad(kOur, kPeer, bytes, now);
  };
  const SidrReq first = said<SidrReq>();
  refuse();
  EXPECT_TRUE(mads.all.empty());
  now = patient.next_timer();
  patient.on_timer(now);
  EXPECT_EQ(said<SidrReq>(), first);
  now += 5 * kMillisecond;
  refuse();
  EXPECT_EQ(happened(EventKind::kSidrResponse).status, SidrStatus::kUnsupported);
  EXPECT_EQ(patient.size(), 0u);
}

TEST_F(Sidr, NobodyAnswers) {
  ask();
  said_again<SidrReq>(250 * kMillisecond);
  pass(16 * from_code(20));
  while (!mads.all.empty()) said<SidrReq>();
  happened(EventKind::kUnreachable);
  EXPECT_EQ(manager.size(), 0u);
}

TEST_F(Sidr, WeAreAsked) {
  const ListenerId listener = *manager.listen({.service_id = kDatagrams, .context = 5});
  receive(question());
  const KeptEvent event = happened(EventKind::kSidrRequest);
  EXPECT_EQ(event.listener, listener);
  EXPECT_EQ(event.listener_context, 5u);
  EXPECT_EQ(event.addresses, (AddressHeader{2, kPeer, kOur}));
  EXPECT_EQ(event.data.size(), 180u);
  EXPECT_EQ(event.data[0], 0x44);
  receive(question());  // the program has not answered
  EXPECT_EQ(counter(Counter::kDuplicateSidr), 1u);

  const std::vector<uint8_t> data{8};
  ASSERT_TRUE(
      manager.sidr_reply(event.id, {.qpn = kOurQpn, .qkey = 0x22, .private_data = data}, now)
          .has_value());
  SidrRep expected{
      .request_id = 0x99000001, .qpn = kOurQpn, .service_id = kDatagrams, .qkey = 0x22};
  expected.private_data[0] = 8;
  EXPECT_EQ(said<SidrRep>(), expected);
  EXPECT_TRUE(is_gone(event.id));
  receive(question());  // the answer was lost
  EXPECT_EQ(said<SidrRep>(), expected);
  pass(10 * kSecond);
  EXPECT_EQ(manager.size(), 0u);
}

TEST_F(Sidr, NobodyListens) {
  receive(question());
  const SidrRep m = said<SidrRep>();
  EXPECT_EQ(m.status, SidrStatus::kUnsupported);
  EXPECT_EQ(m.request_id, 0x99000001u);
}

TEST_F(Sidr, QuestionsThatMakeNoSense) {
  ASSERT_TRUE(manager.listen({.service_id = kDatagrams}).has_value());
  SidrReq m = question();
  m.private_data[0] = 9;
  receive(m);
  EXPECT_EQ(said<SidrRep>().status, SidrStatus::kRejected);
  receive(question(0));
  EXPECT_EQ(said<SidrRep>().status, SidrStatus::kRejected);
  EXPECT_EQ(counter(Counter::kBadRequest), 2u);
}

TEST_F(Sidr, QuestionsHaveABoundToo) {
  ASSERT_TRUE(manager.listen({.service_id = kDatagrams, .backlog = 1}).has_value());
  receive(question(1));
  receive(question(2));
  const CommId id = happened(EventKind::kSidrRequest).id;
  EXPECT_EQ(counter(Counter::kBacklogFull), 1u);
  manager.release(id, now);
  EXPECT_EQ(said<SidrRep>().status, SidrStatus::kRejected);
}

TEST_F(Sidr, IsNoConnection) {
  const CommId id = ask();
  EXPECT_EQ(manager.establish(id, {}, now).error(), Error::kWrongState);
  EXPECT_EQ(manager.disconnect(id, {}, now).error(), Error::kWrongState);
  EXPECT_EQ(manager.sidr_reply(id, {}, now).error(), Error::kWrongState);
  receive(rep(id));
  EXPECT_EQ(said<Rej>().reason, RejectReason::kInvalidCommId);
  receive(dreq(id));
  receive(rej(id, RejectReason::kTimeout));
  EXPECT_EQ(manager.state(id), State::kSidrReqSent);
  manager.release(id, now);
  EXPECT_EQ(manager.size(), 0u);
}

}  // namespace
}  // namespace verbena::cm::testing
