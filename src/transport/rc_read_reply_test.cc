// SPDX-License-Identifier: Apache-2.0
// The RC responder's replies to READs and atomics: order, duplicates, limits and a link that is
// full.
#include <gmock/gmock.h>

#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

using ::testing::ElementsAre;

class RcReadReply : public EndpointTest {
 protected:
  Bytes joined() {
    Bytes all;
    for (const Packet& packet : link_.sent) {
      all.insert(all.end(), packet.view().payload.begin(), packet.view().payload.end());
    }
    return all;
  }
};

TEST_F(RcReadReply, AReadIsAnsweredInPacketsOfOneMtu) {
  for (const Mtu mtu : {Mtu::k256, Mtu::k512, Mtu::k1024, Mtu::k2048, Mtu::k4096}) {
    QpAttr attr = defaults();
    attr.mtu = mtu;
    connect(attr);
    const uint32_t m = mtu_bytes(mtu);
    uint32_t psn = 0;
    for (const uint32_t n : {0u, 1u, m - 1, m, m + 1, 2 * m, 2 * m + 1}) {
      receive(read(psn, 100, n));
      EXPECT_EQ(joined(), bytes_at(100, n));
      std::string want;
      const uint32_t packets = n == 0 ? 1 : (n + m - 1) / m;
      for (uint32_t i = 0; i < packets; ++i) {
        const bool last = i + 1 == packets;
        want += i > 0 ? ", READ_RESPONSE_" : "READ_RESPONSE_";
        want += packets == 1 ? "ONLY " : i == 0 ? "FIRST " : last ? "LAST " : "MIDDLE ";
        want += std::to_string(psn + i) + " (" + std::to_string(last ? n - i * m : m) + ")";
      }
      // The target may change under us: the link is told.
      for (const Packet& packet : link_.sent) EXPECT_TRUE(packet.copy_first);
      EXPECT_EQ(said(), want);
      psn += packets;
    }
    ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  }
}

TEST_F(RcReadReply, ResponsesCarryTheMsn) {
  connect();
  receive(write(Op::kWriteOnly, 0, 0, 4, true), pattern(4));
  receive(read(1, 0, 2000));
  receive(fetch_add(3, 0, 1));
  const auto packets = sent();
  ASSERT_EQ(packets.size(), 4u);
  EXPECT_EQ(packets[1].view().aeth().msn, 2u);
  EXPECT_EQ(packets[1].view().aeth().syndrome, syndrome::kAckNoCredits);
  EXPECT_EQ(packets[2].view().aeth().msn, 2u);
  EXPECT_EQ(packets[3].view().aeth().msn, 3u);
}

TEST_F(RcReadReply, AZeroLengthReadNeedsNoKey) {
  connect();
  auto headers = read(0, 0, 0);
  headers.reth.rkey = RKey(0xbad);
  receive(headers);
  EXPECT_EQ(said(), "READ_RESPONSE_ONLY 0 (0)");
}

TEST_F(RcReadReply, AtomicsAreExecutedOnce) {
  connect();
  set_word(64, 100);
  receive(fetch_add(0, 64, 7));
  EXPECT_EQ(link_.sent[0].view().atomic_ack_eth().original, 100u);
  EXPECT_EQ(word_at(64), 107u);
  EXPECT_EQ(said(), "ATOMIC_ACKNOWLEDGE 0");
  auto swap = request(Op::kCompareSwap, 1, true);
  swap.atomic_eth = {kIova + 64, keys_.rkey, 5, 107};
  receive(swap);
  EXPECT_EQ(word_at(64), 5u);
  swap.bth.psn = rq_psn_ + 2;
  receive(swap);  // does not match any more
  EXPECT_EQ(word_at(64), 5u);
  EXPECT_EQ(link_.sent[0].view().atomic_ack_eth().original, 107u);
  EXPECT_EQ(link_.sent[1].view().atomic_ack_eth().original, 5u);
}

TEST_F(RcReadReply, AtomicWriteStoresAndIsAnsweredEmpty) {
  connect();
  receive(write(Op::kAtomicWrite, 0, 64, 8, true), pattern(8));
  EXPECT_EQ(bytes_at(64, 8), pattern(8));
  EXPECT_EQ(said(), "READ_RESPONSE_ONLY 0 (0)");
  fill(64, pattern(8, 4));
  receive(write(Op::kAtomicWrite, 0, 64, 8, true), pattern(8));
  EXPECT_EQ(bytes_at(64, 8), pattern(8, 4));
  EXPECT_EQ(said(), "READ_RESPONSE_ONLY 0 (0)");
}

TEST_F(RcReadReply, ADuplicateAtomicIsReplayedNotExecutedAgain) {
  connect();
  set_word(64, 100);
  receive(fetch_add(0, 64, 7));
  (void)said();
  receive(fetch_add(0, 64, 7));
  EXPECT_EQ(word_at(64), 107u);
  ASSERT_EQ(link_.sent.size(), 1u);
  EXPECT_EQ(link_.sent[0].view().atomic_ack_eth().original, 100u);
  EXPECT_EQ(said(), "ATOMIC_ACKNOWLEDGE 0");
  EXPECT_EQ(count(Counter::kDuplicateAtomic), 1u);
}

TEST_F(RcReadReply, ADuplicateReadIsReadAgainWholeOrInPart) {
  connect();
  receive(read(0, 0, 3000));
  (void)said();
  fill(0, pattern(3000, 4));
  receive(read(0, 0, 3000));
  EXPECT_EQ(joined(), pattern(3000, 4));
  EXPECT_EQ(
      said(),
      "READ_RESPONSE_FIRST 0 (1024), READ_RESPONSE_MIDDLE 1 (1024), READ_RESPONSE_LAST 2 (952)");
  // The tail, the middle, and less than was left.
  receive(read(1, 1024, 1976));
  EXPECT_EQ(said(), "READ_RESPONSE_FIRST 1 (1024), READ_RESPONSE_LAST 2 (952)");
  receive(read(1, 1024, 1024));
  EXPECT_EQ(said(), "READ_RESPONSE_ONLY 1 (1024)");
  receive(read(2, 2048, 952));
  EXPECT_EQ(said(), "READ_RESPONSE_ONLY 2 (952)");
  EXPECT_EQ(count(Counter::kDuplicateRead), 4u);
  // And the stream goes on where it was.
  receive(write(Op::kWriteOnly, 3, 0, 4, true), pattern(4));
  EXPECT_EQ(said(), "ACK 3 msn 2");
}

// Who has had an answer may have said so, and the memory's owner let it go. A copy of the READ that
// was under way all the time finds nothing, and harms nobody.
TEST_F(RcReadReply, TheMemoryOfADuplicateMayBeGone) {
  connect();
  receive(read(0, 0, 5000));
  (void)said();
  repeats_.gone = true;
  receive(read(0, 0, 5000));
  EXPECT_EQ(said(), "NAK access 0 msn 1");
  receive(read(1, 1024, 3000));
  EXPECT_EQ(said(), "NAK access 1 msn 1");
  EXPECT_TRUE(events_.all.empty());
  receive(read(5, 0, 5000));
  EXPECT_EQ(joined(), bytes_at(0, 5000));
}

TEST_F(RcReadReply, ADuplicateThatIsNotPartOfTheOriginalIsForgotten) {
  connect();
  receive(read(0, 0, 3000));
  receive(fetch_add(3, 64, 1));
  (void)said();
  receive(read(1, 1000, 1000));  // not on a packet of the original
  receive(read(0, 0, 3001));     // more than it was
  auto other_key = read(0, 0, 3000);
  other_key.reth.rkey = RKey(0xbad);
  receive(other_key);
  receive(read(3, 0, 10));       // was an atomic
  receive(fetch_add(0, 64, 1));  // was a READ
  EXPECT_EQ(said(), "");
  EXPECT_EQ(count(Counter::kDuplicateForgotten), 5u);
  EXPECT_EQ(state(), QpState::kRts);
}

TEST_F(RcReadReply, OnlyAsManyAreRememberedAsWereGranted) {
  QpAttr attr = defaults();
  attr.max_dest_rd_atomic = 2;
  connect(attr);
  set_word(64, 0);
  for (uint32_t i = 0; i < 3; ++i) receive(fetch_add(i, 64, 1));
  (void)said();
  receive(fetch_add(0, 64, 1));
  EXPECT_EQ(said(), "");
  EXPECT_EQ(count(Counter::kDuplicateForgotten), 1u);
  receive(fetch_add(1, 64, 1));
  receive(fetch_add(2, 64, 1));
  EXPECT_EQ(said(), "ATOMIC_ACKNOWLEDGE 1, ATOMIC_ACKNOWLEDGE 2");
  EXPECT_EQ(word_at(64), 3u);
}

TEST_F(RcReadReply, MoreOrFewerAreRememberedWhenSqdGrantsSo) {
  QpAttr attr = defaults();
  attr.max_dest_rd_atomic = 1;
  connect(attr);
  set_word(64, 0);
  receive(fetch_add(0, 64, 1));
  ASSERT_TRUE(accepted(modify(QpState::kSqd)));
  attr.max_dest_rd_atomic = 3;
  ASSERT_TRUE(accepted(modify(QpState::kSqd, kAttrMaxDestRdAtomic, attr)));
  receive(fetch_add(1, 64, 1));
  receive(fetch_add(2, 64, 1));
  (void)said();
  for (uint32_t i = 0; i < 3; ++i) receive(fetch_add(i, 64, 1));
  EXPECT_EQ(said(), "ATOMIC_ACKNOWLEDGE 0, ATOMIC_ACKNOWLEDGE 1, ATOMIC_ACKNOWLEDGE 2");

  attr.max_dest_rd_atomic = 2;
  ASSERT_TRUE(accepted(modify(QpState::kSqd, kAttrMaxDestRdAtomic, attr)));
  for (uint32_t i = 0; i < 3; ++i) receive(fetch_add(i, 64, 1));
  EXPECT_EQ(said(), "ATOMIC_ACKNOWLEDGE 1, ATOMIC_ACKNOWLEDGE 2");
  EXPECT_EQ(word_at(64), 3u);

  link_.room = 0;
  for (uint32_t i = 3; i < 5; ++i) receive(fetch_add(i, 64, 1));
  attr.max_dest_rd_atomic = 1;
  EXPECT_TRUE(refused(modify(QpState::kSqd, kAttrMaxDestRdAtomic, attr), Error::kBusy));
  link_.room = RecordingLink::kUnlimited;
  endpoint_->advance(now_);
  EXPECT_EQ(said(), "ATOMIC_ACKNOWLEDGE 3, ATOMIC_ACKNOWLEDGE 4");
}

TEST_F(RcReadReply, MoreThanGrantedWaitsForAFreePlaceAmongTheEarlyOnes) {
  QpAttr attr = defaults();
  attr.max_dest_rd_atomic = 2;
  connect(attr);
  for (uint32_t i = 0; i < 3; ++i) take(read(i, 0, 10));
  endpoint_->finish_batch(now_);
  endpoint_->advance(now_);
  EXPECT_EQ(said(),
            "READ_RESPONSE_ONLY 0 (10), READ_RESPONSE_ONLY 1 (10), READ_RESPONSE_ONLY 2 (10)");
  EXPECT_EQ(state(), QpState::kRts);
}

TEST_F(RcReadReply, TheAckOfALaterWriteWaitsForTheReplies) {
  Tuning tuning = wide();
  tuning.quantum = 2;
  make(tuning);
  connect();
  take(read(0, 0, 3 * 1024));
  take(write(Op::kWriteOnly, 3, 100'000, 4, true), pattern(4));
  endpoint_->finish_batch(now_);
  EXPECT_EQ(said(), "READ_RESPONSE_FIRST 0 (1024), READ_RESPONSE_MIDDLE 1 (1024)");
  EXPECT_EQ(endpoint_->next_deadline(), 0);
  endpoint_->advance(now_);
  EXPECT_EQ(said(), "READ_RESPONSE_LAST 2 (1024), ACK 3 msn 2");
}

TEST_F(RcReadReply, AFullLinkStopsRepliesUntilThereIsRoom) {
  connect();
  link_.room = 1;
  receive(read(0, 0, 3 * 1024));
  EXPECT_EQ(said(), "READ_RESPONSE_FIRST 0 (1024)");
  endpoint_->advance(now_);
  EXPECT_EQ(said(), "");
  EXPECT_EQ(endpoint_->next_deadline(), 0);
  link_.room = RecordingLink::kUnlimited;
  endpoint_->advance(now_);
  EXPECT_EQ(said(), "READ_RESPONSE_MIDDLE 1 (1024), READ_RESPONSE_LAST 2 (1024)");
  EXPECT_EQ(endpoint_->next_deadline(), kNever);
}

TEST_F(RcReadReply, ADuplicateOfWhatIsStillBeingAnsweredDoesNotAnswerTwice) {
  connect();
  link_.room = 1;
  receive(read(0, 0, 3 * 1024));
  receive(read(1, 1024, 2 * 1024));  // not sent yet: on its way
  receive(read(0, 0, 3 * 1024));     // sent already: starts over
  link_.room = RecordingLink::kUnlimited;
  endpoint_->advance(now_);
  EXPECT_EQ(
      said(),
      "READ_RESPONSE_FIRST 0 (1024), READ_RESPONSE_FIRST 0 (1024), READ_RESPONSE_MIDDLE 1 (1024), "
      "READ_RESPONSE_LAST 2 (1024)");
  EXPECT_EQ(count(Counter::kDuplicateRead), 2u);
}

TEST_F(RcReadReply, ARefusalWaitsForTheRepliesBeforeIt) {
  Tuning tuning = wide();
  tuning.quantum = 1;
  make(tuning);
  connect();
  take(read(0, 0, 2 * 1024));
  auto bad = write(Op::kWriteOnly, 2, 0, 4, true);
  bad.reth.rkey = RKey(0xbad);
  take(bad, pattern(4));
  endpoint_->finish_batch(now_);
  EXPECT_EQ(said(), "READ_RESPONSE_FIRST 0 (1024)");
  EXPECT_EQ(state(), QpState::kRts);
  endpoint_->advance(now_);
  EXPECT_EQ(said(), "READ_RESPONSE_LAST 1 (1024), NAK access 2 msn 1");
  EXPECT_EQ(state(), QpState::kErr);
  EXPECT_THAT(happened(), ElementsAre(Event::kQpAccessError));
}

TEST_F(RcReadReply, AnRnrNakWaitsForTheRepliesBeforeIt) {
  connect();
  take(read(0, 0, 10));
  take(request(Op::kSendOnly, 1, true), pattern(5));
  endpoint_->finish_batch(now_);
  EXPECT_EQ(said(), "READ_RESPONSE_ONLY 0 (10), RNR 12 1 msn 1");
}

TEST_F(RcReadReply, AReceivePostedMeanwhileIsUsed) {
  connect();
  link_.room = 0;
  take(read(0, 0, 10));
  take(request(Op::kSendOnly, 1, true), pattern(5));
  endpoint_->finish_batch(now_);
  recv(1, 10, 1000);
  link_.room = RecordingLink::kUnlimited;
  endpoint_->advance(now_);
  EXPECT_EQ(said(), "READ_RESPONSE_ONLY 0 (10), ACK 1 msn 2");
  EXPECT_EQ(recvs(), "1 success 5");
}

TEST_F(RcReadReply, EachRefusalIsTheSameAfterWaiting) {
  struct Case {
    Op op;
    size_t n;
    const char* nak;
    const char* receives;
  };
  for (const Case& c :
       {Case{Op::kSendOnlyInvalidate, 5, "NAK operational 1 msn 1",
             "1 local protection error, 2 flushed"},
        Case{Op::kSendOnly, 11, "NAK invalid 1 msn 1", "1 local length error, 2 flushed"},
        Case{Op::kSendFirst, 1000, "NAK invalid 1 msn 1", "1 flushed, 2 flushed"},
        Case{Op::kWriteLast, 5, "NAK invalid 1 msn 1", "1 flushed, 2 flushed"}}) {
    connect();
    recv(1, 10);
    recv(2, 10);
    take(read(0, 0, 10));
    take(request(c.op, 1, true), pattern(c.n));
    EXPECT_EQ(said(), "");
    endpoint_->finish_batch(now_);
    EXPECT_EQ(said(), std::string("READ_RESPONSE_ONLY 0 (10), ") + c.nak);
    EXPECT_EQ(recvs(), c.receives);
    ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  }
}

TEST_F(RcReadReply, ASequenceNakWaitsForTheRepliesBeforeIt) {
  connect();
  take(read(0, 0, 10));
  take(write(Op::kWriteOnly, 2, 0, 4, true), pattern(4));
  endpoint_->finish_batch(now_);
  EXPECT_EQ(said(), "READ_RESPONSE_ONLY 0 (10), NAK sequence 1 msn 1");
}

TEST_F(RcReadReply, AKeyThatDiesDuringAReadEndsTheConnection) {
  connect();
  Bytes extra(4096);
  const auto keys =
      domain_
          .register_region(pd_, {.base = extra.data(), .length = 4096, .iova = 0, .access = kAll})
          .value();
  auto headers = read(0, 0, 4096);
  headers.reth = {0, keys.rkey, 4096};
  link_.room = 2;
  receive(headers);
  EXPECT_EQ(said(), "READ_RESPONSE_FIRST 0 (1024), READ_RESPONSE_MIDDLE 1 (1024)");
  ASSERT_TRUE(domain_.deregister_region(keys.lkey).has_value());
  link_.room = RecordingLink::kUnlimited;
  endpoint_->advance(now_);
  EXPECT_EQ(said(), "NAK access 2 msn 1");
  EXPECT_EQ(state(), QpState::kErr);
}

// On-demand memory of which no page is ever there.
class NoMemory final : public memory::Accessor {
 public:
  memory::Fault read(const uint8_t*, std::span<uint8_t>) override { return memory::Fault::kPage; }
  memory::Fault write(uint8_t*, std::span<const uint8_t>) override { return memory::Fault::kPage; }
};

TEST_F(RcReadReply, AnOldReplyDoesNotStandForANewOneWhenPsnsComeRoundAgain) {
  QpAttr attr = defaults();
  attr.mtu = Mtu::k256;
  connect(attr);
  NoMemory none;
  const auto keys = domain_
                        .register_region(pd_, {.length = kMaxMessageBytes,
                                               .access = memory::kRemoteRead | memory::kOnDemand,
                                               .accessor = &none})
                        .value();
  receive(read(0, 0, 10));
  link_.room = 0;  // the long ones need not be answered for this
  auto half = read(1, 0, 0);
  half.reth = {0, keys.rkey, static_cast<uint32_t>(kMaxMessageBytes)};
  take(half);
  auto other_half = read(1 + (1u << 23), 0, 0);
  other_half.reth = {0, keys.rkey, static_cast<uint32_t>(kMaxMessageBytes) - 256};
  take(other_half);
  set_word(64, 100);
  take(fetch_add(0, 64, 7));  // 2^24 packets later: the PSN of the first READ
  take(fetch_add(0, 64, 7));
  EXPECT_EQ(word_at(64), 107u);
  EXPECT_EQ(count(Counter::kDuplicateAtomic), 1u);
  EXPECT_EQ(count(Counter::kDuplicateForgotten), 0u);
}

TEST_F(RcReadReply, RepliesWrap) {
  QpAttr attr = defaults();
  attr.rq_psn = Psn(0xffffff);
  connect(attr);
  receive(read(0, 0, 2048));
  EXPECT_EQ(link_.sent[1].view().bth.psn, Psn(0));
  EXPECT_EQ(said(), "READ_RESPONSE_FIRST 0 (1024), READ_RESPONSE_LAST 1 (1024)");
  receive(read(1, 1024, 1024));
  EXPECT_EQ(said(), "READ_RESPONSE_ONLY 1 (1024)");
}

// A requester that misses several parts of a READ asks for all of them at once.
TEST_F(RcReadReply, PartsOfOneReadThatAreAskedForTogetherAreAllAnswered) {
  connect();
  receive(read(0, 0, 8 * 1024));
  (void)said();
  take(read(1, 1024, 1024));
  take(read(3, 3 * 1024, 2 * 1024));
  take(read(7, 7 * 1024, 1024));
  endpoint_->finish_batch(now_);
  EXPECT_EQ(said(),
            "READ_RESPONSE_ONLY 1 (1024), READ_RESPONSE_FIRST 3 (1024), READ_RESPONSE_LAST 4 "
            "(1024), READ_RESPONSE_ONLY 7 (1024)");
}

TEST_F(RcReadReply, APartThatIsAskedForTwiceIsAnsweredOnceAsItWasAskedForLast) {
  connect();
  receive(read(0, 0, 8 * 1024));
  (void)said();
  take(read(1, 1024, 1024));
  take(read(3, 3 * 1024, 1024));
  take(read(5, 5 * 1024, 1024));
  take(read(2, 2 * 1024, 6 * 1024));
  take(read(1, 1024, 1024));
  endpoint_->finish_batch(now_);
  EXPECT_EQ(said(),
            "READ_RESPONSE_ONLY 1 (1024), READ_RESPONSE_FIRST 2 (1024), "
            "READ_RESPONSE_MIDDLE 3 (1024), READ_RESPONSE_MIDDLE 4 (1024), "
            "READ_RESPONSE_MIDDLE 5 (1024), READ_RESPONSE_MIDDLE 6 (1024), "
            "READ_RESPONSE_LAST 7 (1024)");
}

TEST_F(RcReadReply, MorePartsThanThereIsRoomForMustBeAskedForAgain) {
  connect();
  receive(read(0, 0, 64 * 1024));
  (void)said();
  for (uint32_t i = 0; i < 32; ++i) take(read(2 * i, size_t{2} * i * 1024, 1024));
  endpoint_->finish_batch(now_);
  EXPECT_EQ(sent().size(), 1 + ReadReply::kMaxParts);
  receive(read(62, size_t{62} * 1024, 1024));
  EXPECT_EQ(said(), "READ_RESPONSE_ONLY 62 (1024)");
}

}  // namespace
}  // namespace verbena::transport::testing
