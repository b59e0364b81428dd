// SPDX-License-Identifier: Apache-2.0
// The RC requester: SEND and WRITE as packets, and their completion by ACKs.
#include <gmock/gmock.h>

#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

class RcSend : public EndpointTest {
 protected:
  // The payload of everything sent, joined.
  Bytes joined() {
    Bytes all;
    for (const Packet& packet : link_.sent) {
      all.insert(all.end(), packet.view().payload.begin(), packet.view().payload.end());
    }
    return all;
  }
};

TEST_F(RcSend, AMessageOfOnePacketCompletesWithItsAck) {
  connect();
  fill(0, pattern(5));
  send(SendOp::kSend, 1, 5);
  ASSERT_EQ(link_.sent.size(), 1u);
  const Packet& packet = link_.sent[0];
  EXPECT_EQ(packet.view().bth.dest_qp, kPeerQpn);
  EXPECT_EQ(packet.view().bth.pkey, 0xffff);
  EXPECT_EQ(packet.view().bth.pad_bytes, 3);
  EXPECT_FALSE(packet.view().bth.migrated);
  EXPECT_EQ(packet.payload(), pattern(5));
  EXPECT_EQ(packet.path.destination, kThere);
  EXPECT_EQ(said(), "SEND_ONLY 0 (5) A");
  EXPECT_EQ(sends(), "");
  ack(0);
  EXPECT_EQ(sends(), "1 success");
  EXPECT_EQ(count(Counter::kAcksReceived), 1u);
  EXPECT_EQ(count(Counter::kPacketsSent), 1u);
  EXPECT_EQ(count(Counter::kPacketsReceived), 1u);
}

TEST_F(RcSend, ASegmentIsOneMtuAtEveryMtuAndBoundary) {
  for (const Mtu mtu : {Mtu::k256, Mtu::k512, Mtu::k1024, Mtu::k2048, Mtu::k4096}) {
    QpAttr attr = defaults();
    attr.mtu = mtu;
    connect(attr);
    const uint32_t m = mtu_bytes(mtu);
    uint32_t psn = 0;
    for (const uint32_t n : {0u, 1u, m - 1, m, m + 1, 2 * m - 1, 2 * m, 2 * m + 1}) {
      for (const SendOp op : {SendOp::kSend, SendOp::kWrite}) {
        fill(0, pattern(n, psn));
        send(op, n, n);
        EXPECT_EQ(joined(), pattern(n, psn));
        const std::string name = op == SendOp::kSend ? "SEND" : "WRITE";
        std::string want;
        const uint32_t packets = n == 0 ? 1 : (n + m - 1) / m;
        for (uint32_t i = 0; i < packets; ++i) {
          const bool last = i + 1 == packets;
          if (i > 0) want += ", ";
          want += name + (packets == 1 ? "_ONLY "
                          : i == 0     ? "_FIRST "
                          : last       ? "_LAST "
                                       : "_MIDDLE ");
          want += std::to_string(psn + i) + " (" + std::to_string(last ? n - i * m : m) + ")";
          if (last) want += " A";
        }
        if (op == SendOp::kWrite) {
          const wire::Reth reth = link_.sent[0].view().reth();
          EXPECT_EQ(reth.address, 0x9000u);
          EXPECT_EQ(reth.rkey, RKey(0x5555));
          EXPECT_EQ(reth.length, n);
        }
        EXPECT_EQ(said(), want);
        psn += packets;
        ack(psn - 1);
        EXPECT_EQ(sends(), std::to_string(n) + " success");
      }
    }
    ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  }
}

TEST_F(RcSend, ImmediateAndInvalidateRideOnTheLastPacket) {
  connect();
  send(SendOp::kSendImm, 1, 1025);
  EXPECT_EQ(link_.sent[1].view().imm().value, 0x1d1d1d1du);
  EXPECT_EQ(said(), "SEND_FIRST 0 (1024), SEND_LAST_IMM 1 (1) A");
  send(SendOp::kWriteImm, 2, 0);
  EXPECT_EQ(link_.sent[0].view().imm().value, 0x1d1d1d1du);
  EXPECT_EQ(link_.sent[0].view().reth().length, 0u);
  EXPECT_EQ(said(), "WRITE_ONLY_IMM 2 (0) A");
  send(SendOp::kWriteImm, 3, 2048);
  EXPECT_EQ(said(), "WRITE_FIRST 3 (1024), WRITE_LAST_IMM 4 (1024) A");
  const memory::Sge sge = at(0, 4);
  ASSERT_TRUE(accepted(post(
      {.wr_id = 4, .op = SendOp::kSendInvalidate, .flags = kSignaled, .invalidate = RKey(0xabcd)},
      {sge})));
  EXPECT_EQ(link_.sent[0].view().ieth().rkey, RKey(0xabcd));
  EXPECT_EQ(said(), "SEND_ONLY_INVALIDATE 5 (4) A");
  ack(5);
  EXPECT_EQ(sends(), "1 success, 2 success, 3 success, 4 success");
}

TEST_F(RcSend, SolicitedMarksOnlyTheEndOfWhatConsumesAReceive) {
  connect();
  send(SendOp::kSend, 1, 1025, 0, 0, kSolicited);
  EXPECT_EQ(said(), "SEND_FIRST 0 (1024), SEND_LAST 1 (1) A S");
  send(SendOp::kWrite, 2, 1, 0, 0, kSolicited);
  EXPECT_EQ(said(), "WRITE_ONLY 2 (1) A");
  send(SendOp::kWriteImm, 3, 1, 0, 0, kSolicited);
  EXPECT_EQ(said(), "WRITE_ONLY_IMM 3 (1) A S");
}

TEST_F(RcSend, InlineDataIsTakenAtPostAndNeedsNoKey) {
  connect();
  Bytes mine = pattern(100);
  const memory::Sge first{reinterpret_cast<uint64_t>(mine.data()), 60, LKey(0)};
  const memory::Sge second{reinterpret_cast<uint64_t>(mine.data() + 60), 40, LKey(0)};
  ASSERT_TRUE(accepted(post({.wr_id = 1, .flags = kSignaled | kInline}, {first, second})));
  std::ranges::fill(mine, uint8_t{0});
  EXPECT_EQ(joined(), pattern(100));
  // Expect a retransmission to carry the same bytes, though the caller's are gone.
  (void)sent();
  nak(0, syndrome::kNakSequence);
  EXPECT_EQ(joined(), pattern(100));
  mine.resize(129);
  const memory::Sge long_one{reinterpret_cast<uint64_t>(mine.data()), 129, LKey(0)};
  EXPECT_TRUE(refused(post({.flags = kInline}, {long_one}), Error::kInvalid));
}

TEST_F(RcSend, TheListIsGatheredAcrossEntries) {
  connect();
  fill(0, pattern(2000));
  const memory::Sge a = at(0, 700);
  const memory::Sge b = at(700, 0);
  const memory::Sge c = at(700, 800);
  ASSERT_TRUE(accepted(post({.wr_id = 1, .flags = kSignaled}, {a, b, c})));
  EXPECT_EQ(joined(), pattern(1500));
  EXPECT_EQ(said(), "SEND_FIRST 0 (1024), SEND_LAST 1 (476) A");
}

TEST_F(RcSend, PsnsWrap) {
  QpAttr attr = defaults();
  attr.sq_psn = Psn(0xfffffe);
  connect(attr);
  send(SendOp::kSend, 1, 3 * 1024);
  EXPECT_EQ(link_.sent[1].view().bth.psn, Psn(0xffffff));
  EXPECT_EQ(link_.sent[2].view().bth.psn, Psn(0));
  EXPECT_EQ(said(), "SEND_FIRST 0 (1024), SEND_MIDDLE 1 (1024), SEND_LAST 2 (1024) A");
  send(SendOp::kSend, 2, 1);
  ack(2);
  EXPECT_EQ(sends(), "1 success");
  ack(3);
  EXPECT_EQ(sends(), "2 success");
}

TEST_F(RcSend, OneAckCompletesAllBeforeItInOrder) {
  connect();
  for (uint64_t i = 1; i <= 5; ++i) send(SendOp::kSend, i, 10);
  ack(3);
  EXPECT_EQ(sends(), "1 success, 2 success, 3 success, 4 success");
  ack(4);
  EXPECT_EQ(sends(), "5 success");
}

TEST_F(RcSend, UnsignaledSucceedsSilentlyAndSignalAllReportsIt) {
  connect();
  const memory::Sge sge = at(0, 1);
  ASSERT_TRUE(accepted(post({.wr_id = 1}, {sge})));
  send(SendOp::kSend, 2, 1);
  ack(1);
  EXPECT_EQ(sends(), "2 success");

  QpInit all = init();
  all.signal_all = true;
  create(all, Qpn(0x33));
  bring_up(defaults(), QpType::kRc, Qpn(0x33));
  ASSERT_TRUE(accepted(post({.wr_id = 7}, {sge}, Qpn(0x33))));
  auto headers = response(Op::kAcknowledge, 0);
  headers.bth.dest_qp = Qpn(0x33);
  receive(headers);
  EXPECT_EQ(sends(), "7 success");
}

TEST_F(RcSend, ACompletionSaysWhatWasDone) {
  connect();
  send(SendOp::kWriteImm, 1, 12);
  ack(0);
  ASSERT_EQ(send_cq_.all.size(), 1u);
  EXPECT_EQ(send_cq_.all[0].opcode, WcOpcode::kWrite);
  EXPECT_EQ(send_cq_.all[0].qpn, kQpn);
}

TEST_F(RcSend, AStaleAckIsDropped) {
  connect();
  send(SendOp::kSend, 1, 1);
  send(SendOp::kSend, 2, 1);
  ack(0);
  ack(0);
  EXPECT_EQ(count(Counter::kResponseStale), 1u);
  EXPECT_EQ(sends(), "1 success");
}

TEST_F(RcSend, AnAckBeyondWhatWasSentIsDropped) {
  connect();
  send(SendOp::kSend, 1, 1);
  ack(1);
  ack(0x7fffff);
  EXPECT_EQ(count(Counter::kResponseBeyond), 2u);
  EXPECT_EQ(sends(), "");
  // A sequence NAK may name the first PSN never sent, and acknowledges all before it; no other NAK
  // may.
  nak(1, syndrome::kNakRemoteAccess);
  EXPECT_EQ(count(Counter::kResponseBeyond), 3u);
  nak(1, syndrome::kNakSequence);
  EXPECT_EQ(sends(), "1 success");
  EXPECT_EQ(state(), QpState::kRts);
}

TEST_F(RcSend, AnUnknownSyndromeIsMalformed) {
  connect();
  send(SendOp::kSend, 1, 1);
  for (const int bad : {0x40, 0x64, 0x7f, 0xff}) nak(0, static_cast<uint8_t>(bad));
  EXPECT_EQ(count(Counter::kResponseMalformed), 4u);
  EXPECT_EQ(sends(), "");
}

TEST_F(RcSend, AReservedSyndromeAcknowledgesNothing) {
  connect();
  send(SendOp::kSend, 1, 10);
  send(SendOp::kSend, 2, 10);
  for (const int bad : {0x40, 0x64, 0x7f, 0xff}) nak(1, static_cast<uint8_t>(bad));
  EXPECT_EQ(count(Counter::kResponseMalformed), 4u);
  EXPECT_EQ(sends(), "");
}

TEST_F(RcSend, ALongMessageAsksForAcksOnTheWayAndStopsAtTheWindow) {
  Tuning tuning = wide();
  tuning.paced.ack_every = 4;
  tuning.paced.initial_bytes = 10 * (1024 + kPacketOverhead);
  make(tuning);
  link_.same_host = true;
  connect();
  send(SendOp::kWrite, 1, 64 * 1024);
  auto packets = sent();
  ASSERT_EQ(packets.size(), 10u);
  for (size_t i = 0; i < 10; ++i) {
    // Every fourth, and the one behind which the window closes.
    EXPECT_EQ(packets[i].view().bth.ack_request, i == 3 || i == 7 || i == 9) << i;
  }
  ack(3);
  EXPECT_EQ(sent().size(), 4u);
}

TEST_F(RcSend, NoMorePacketsAreOutThanThePeerMayHold) {
  Tuning tuning = wide();
  tuning.flight.max_packets = 5;
  make(tuning);
  connect();
  for (uint64_t i = 0; i < 20; ++i) send(SendOp::kSend, i, 1);
  EXPECT_EQ(sent().size(), 5u);
  ack(1);
  EXPECT_EQ(sent().size(), 2u);
}

TEST_F(RcSend, AQuantumAtATimeAndNothingIntoAFullLink) {
  Tuning tuning = wide();
  tuning.quantum = 3;
  make(tuning);
  connect();
  send(SendOp::kSend, 1, 8 * 1024);
  EXPECT_EQ(sent().size(), 3u);
  EXPECT_EQ(endpoint_->next_deadline(), 0);
  endpoint_->advance(now_);
  EXPECT_EQ(sent().size(), 3u);
  link_.room = 1;
  endpoint_->advance(now_);
  EXPECT_EQ(sent().size(), 1u);
  EXPECT_EQ(endpoint_->next_deadline(), 0);
  endpoint_->advance(now_);
  EXPECT_EQ(sent().size(), 0u);
  link_.room = RecordingLink::kUnlimited;
  endpoint_->advance(now_);
  EXPECT_EQ(said(), "SEND_LAST 7 (1024) A");
  EXPECT_NE(endpoint_->next_deadline(), 0);
}

TEST_F(RcSend, AMessageIsAtMostTwoGigabytes) {
  connect();
  // Lengths only: the list is refused before its memory is looked at.
  const memory::Sge half{kIova, 0x40000000, keys_.lkey};
  const memory::Sge one{kIova, 1, keys_.lkey};
  EXPECT_TRUE(refused(post({.op = SendOp::kSend}, {half, half, one}), Error::kInvalid));
  EXPECT_TRUE(refused(post({.op = SendOp::kWrite}, {half, half, one}), Error::kInvalid));
  EXPECT_TRUE(refused(post({.op = SendOp::kRead}, {half, half, one}), Error::kInvalid));
  EXPECT_TRUE(refused(post({.op = SendOp::kFetchAdd}, {one}), Error::kInvalid));
  EXPECT_EQ(said(), "");
  // 2 GiB itself passes, and fails at its memory, which is not that long.
  EXPECT_TRUE(accepted(post({.wr_id = 1, .op = SendOp::kWrite}, {half, half})));
  EXPECT_EQ(sends(), "1 local protection error");
}

TEST_F(RcSend, ABadKeyFailsOnceAllBeforeItIsComplete) {
  connect();
  send(SendOp::kSend, 1, 10);
  const memory::Sge bad{kIova, 10, LKey(0xdead)};
  ASSERT_TRUE(accepted(post({.wr_id = 2}, {bad})));
  send(SendOp::kSend, 3, 10);
  EXPECT_EQ(said(), "SEND_ONLY 0 (10) A");
  EXPECT_EQ(sends(), "");
  ack(0);
  EXPECT_EQ(sends(), "1 success, 2 local protection error, 3 flushed");
  EXPECT_EQ(state(), QpState::kErr);
}

TEST_F(RcSend, MemoryThatGoesAwayUnderARetransmissionIsAProtectionError) {
  connect();
  Bytes extra(64);
  const auto keys =
      domain_.register_region(pd_, {.base = extra.data(), .length = 64, .iova = 0, .access = 0})
          .value();
  const memory::Sge sge{0, 64, keys.lkey};
  ASSERT_TRUE(accepted(post({.wr_id = 1}, {sge})));
  ASSERT_TRUE(domain_.deregister_region(keys.lkey).has_value());
  nak(0, syndrome::kNakSequence);
  EXPECT_EQ(sends(), "1 local protection error");
}

}  // namespace
}  // namespace verbena::transport::testing
