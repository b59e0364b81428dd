// SPDX-License-Identifier: Apache-2.0
// Runs: packets from the middle of a message that leave, or are taken, at once. What goes over the
// wire and what comes of it is the same as one by one.
#include "transport/endpoint_test_fixture.h"
#include "wire/encode.h"

namespace verbena::transport::testing {
namespace {

class RcRun : public EndpointTest {
 protected:
  // Receives what the kernel joined; gives how many packets were taken at once. `bad` has a wrong
  // ICRC.
  uint32_t take_joined(const std::vector<wire::Headers>& headers, const Bytes& payload,
                       uint32_t bad = ~0u, const wire::Gid& from = kThere) {
    Bytes joined;
    uint32_t segment = 0;
    for (size_t i = 0; i < headers.size(); ++i) {
      const Bytes part(payload.begin() + static_cast<ptrdiff_t>(i * mtu_),
                       payload.begin() + static_cast<ptrdiff_t>((i + 1) * mtu_));
      const Packet packet(headers[i], part);
      const uint8_t* const data = packet.view().data;
      segment = static_cast<uint32_t>(wire::Bth::kBytes + mtu_ + wire::kIcrcBytes);
      joined.insert(joined.end(), data, data + segment);
    }
    return endpoint_->receive_run(joined, segment, from, kHere, 0, now_,
                                  [bad](uint32_t i, std::span<const uint8_t>) { return i != bad; });
  }
  std::vector<wire::Headers> middles(Op op, uint32_t psn, uint32_t count) const {
    std::vector<wire::Headers> all;
    const bool is_response = op == Op::kReadResponseMiddle;
    for (uint32_t i = 0; i < count; ++i) {
      all.push_back(is_response ? response(op, psn + i) : request(op, psn + i));
    }
    return all;
  }
  // The First of a WRITE of `packets` packets to the arena's start.
  void begin_write(uint32_t packets) {
    take(write(Op::kWriteFirst, 0, 0, size_t{packets} * mtu_), pattern(mtu_, 1));
  }
};

// --- sending

TEST_F(RcRun, IsTheSameOnTheWireAsOneByOne) {
  for (const SendOp op : {SendOp::kSend, SendOp::kWrite}) {
    std::vector<Packet> ways[2];
    for (const bool at_once : {false, true}) {
      SCOPED_TRACE(at_once);
      const Qpn qpn(at_once ? 0x31 : 0x30);
      connect(defaults(), QpType::kRc, qpn);
      const memory::Sge sge = at(100, 20 * 1024 + 7);
      link_.room = at_once ? RecordingLink::kUnlimited : 1;
      const uint64_t before = count(Counter::kRunsSent);
      ASSERT_TRUE(accepted(
          post({.op = op, .flags = kSignaled, .remote_addr = RemoteAddr(9), .rkey = RKey(5)}, {sge},
               qpn)));
      while (endpoint_->next_deadline() == 0) {
        link_.room = 1;
        endpoint_->advance(now_);
      }
      link_.room = RecordingLink::kUnlimited;
      EXPECT_EQ(count(Counter::kRunsSent) > before, at_once);
      ways[at_once] = sent();
      ASSERT_TRUE(accepted(endpoint_->destroy_qp(qpn)));
    }
    ASSERT_EQ(ways[0].size(), 21u);
    ASSERT_EQ(ways[1].size(), 21u);
    for (size_t i = 0; i < 21; ++i) {
      EXPECT_EQ(in_words(ways[0][i]), in_words(ways[1][i]));
      EXPECT_TRUE(std::ranges::equal(ways[0][i].view().payload, ways[1][i].view().payload)) << i;
    }
  }
}

// The peer has nothing else to do: it works on the one half while we make the other.
TEST_F(RcRun, AMessageAloneLeavesInTwoParts) {
  connect();
  ASSERT_TRUE(accepted(post({.op = SendOp::kSend}, {at(0, 64 * 1024)})));
  EXPECT_EQ(link_.sent.size(), 64u);
  EXPECT_EQ(link_.cuts, std::vector<size_t>({32}));
}

TEST_F(RcRun, AShortMessageAndOneBehindOthersLeaveWhole) {
  connect();
  ASSERT_TRUE(accepted(post({.op = SendOp::kSend}, {at(0, 40 * 1024)})));
  ASSERT_TRUE(accepted(post({.op = SendOp::kSend}, {at(0, 48 * 1024)})));
  EXPECT_TRUE(link_.cuts.empty());
}

TEST_F(RcRun, EndsWhereAListEntryDoes) {
  connect();
  const uint64_t before = count(Counter::kRunsSent);
  ASSERT_TRUE(
      accepted(post({.op = SendOp::kSend}, {at(0, 3000), at(8000, 6000), at(20'000, 3000)})));
  Bytes all;
  for (const Packet& packet : sent()) {
    all.insert(all.end(), packet.view().payload.begin(), packet.view().payload.end());
  }
  Bytes wanted = bytes_at(0, 3000);
  for (const auto& [offset, n] : {std::pair(8000, 6000), std::pair(20'000, 3000)}) {
    const Bytes part = bytes_at(static_cast<size_t>(offset), static_cast<size_t>(n));
    wanted.insert(wanted.end(), part.begin(), part.end());
  }
  EXPECT_EQ(all, wanted);
  EXPECT_GT(count(Counter::kRunsSent), before);
}

TEST_F(RcRun, OfAnUnreliableConnection) {
  connect(defaults(), QpType::kUc);
  send(SendOp::kWrite, 1, 5 * 1024);
  EXPECT_EQ(said(),
            "WRITE_FIRST 0 (1024), WRITE_MIDDLE 1 (1024), WRITE_MIDDLE 2 (1024), "
            "WRITE_MIDDLE 3 (1024), WRITE_LAST 4 (1024)");
  EXPECT_EQ(count(Counter::kRunsSent), 1u);
  EXPECT_EQ(sends(), "1 success");
}

TEST_F(RcRun, OfReadResponses) {
  connect();
  receive(read(0, 64, 6 * 1024 + 1));
  const auto packets = sent();
  ASSERT_EQ(packets.size(), 7u);
  EXPECT_EQ(count(Counter::kRunsSent), 1u);
  Bytes all;
  for (const Packet& packet : packets) {
    EXPECT_TRUE(packet.copy_first) << "others may change it at any time";
    all.insert(all.end(), packet.view().payload.begin(), packet.view().payload.end());
  }
  EXPECT_EQ(all, bytes_at(64, 6 * 1024 + 1));
}

// --- receiving

TEST_F(RcRun, OfAWriteIsPlacedAndAcknowledged) {
  connect();
  begin_write(6);
  const Bytes data = pattern(4 * mtu_, 7);
  auto headers = middles(Op::kWriteMiddle, 1, 4);
  headers[2].bth.ack_request = true;
  EXPECT_EQ(take_joined(headers, data), 4u);
  EXPECT_EQ(bytes_at(mtu_, data.size()), data);
  endpoint_->finish_batch(now_);
  EXPECT_EQ(said(), "ACK 4 msn 0");
  EXPECT_EQ(count(Counter::kRunsReceived), 1u);
  receive(request(Op::kWriteLast, 5, true), pattern(mtu_, 8));
  EXPECT_EQ(said(), "ACK 5 msn 1");
}

TEST_F(RcRun, OfASendGoesToItsReceive) {
  connect();
  recv(1, 6 * mtu_, 4096);
  take(request(Op::kSendFirst, 0), pattern(mtu_, 1));
  const Bytes data = pattern(4 * mtu_, 7);
  EXPECT_EQ(take_joined(middles(Op::kSendMiddle, 1, 4), data), 4u);
  receive(request(Op::kSendLast, 5), pattern(100, 2));
  EXPECT_EQ(recvs(), "1 success 5220");
  EXPECT_EQ(bytes_at(4096 + mtu_, data.size()), data);
}

TEST_F(RcRun, OfReadResponsesCompletesAllButTheLast) {
  connect();
  send(SendOp::kRead, 1, 6 * mtu_, 4096);
  read_response(Op::kReadResponseFirst, 0, pattern(mtu_, 1));
  const Bytes data = pattern(4 * mtu_, 7);
  EXPECT_EQ(take_joined(middles(Op::kReadResponseMiddle, 1, 4), data), 4u);
  EXPECT_EQ(bytes_at(4096 + mtu_, data.size()), data);
  EXPECT_EQ(sends(), "");
  read_response(Op::kReadResponseLast, 5, pattern(mtu_, 2));
  EXPECT_EQ(sends(), "1 success");
}

TEST_F(RcRun, StopsAtAWrongIcrc) {
  connect();
  begin_write(6);
  const Bytes before = bytes_at(3 * mtu_, 2 * mtu_);
  const Bytes data = pattern(4 * mtu_, 7);
  EXPECT_EQ(take_joined(middles(Op::kWriteMiddle, 1, 4), data, /*bad=*/2), 2u);
  EXPECT_EQ(bytes_at(mtu_, 2 * mtu_), Bytes(data.begin(), data.begin() + 2 * mtu_));
  EXPECT_EQ(bytes_at(3 * mtu_, 2 * mtu_), before) << "nothing of it, or behind it, is placed";
  EXPECT_EQ(take_joined(middles(Op::kWriteMiddle, 3, 2), data, /*bad=*/0), 0u);
}

TEST_F(RcRun, LeavesSomethingForTheLast) {
  connect();
  begin_write(4);
  EXPECT_EQ(take_joined(middles(Op::kWriteMiddle, 1, 5), pattern(5 * mtu_, 7)), 2u);
  // The next says that the message goes on where it must end.
  receive(request(Op::kWriteMiddle, 3), pattern(mtu_, 7));
  EXPECT_EQ(said(), "NAK invalid 3 msn 0");
}

// Whatever is not plain is left to the way of one by one, which has the verdicts.
TEST_F(RcRun, IsNotTakenWhenAnythingIsWrong) {
  connect();
  const Bytes data = pattern(3 * mtu_, 7);
  const Bytes before = bytes_at(0, kArenaBytes);
  const auto refuses = [&](const std::vector<wire::Headers>& run, const wire::Gid& from = kThere) {
    return take_joined(run, data, ~0u, from) == 0;
  };
  EXPECT_TRUE(refuses(middles(Op::kWriteMiddle, 0, 3))) << "no message is under way";
  EXPECT_TRUE(refuses(middles(Op::kReadResponseMiddle, 0, 3))) << "nothing was asked for";
  begin_write(6);
  const Bytes begun = bytes_at(0, kArenaBytes);
  EXPECT_TRUE(refuses(middles(Op::kWriteMiddle, 2, 3))) << "one is missing";
  EXPECT_TRUE(refuses(middles(Op::kWriteMiddle, 0, 3))) << "a duplicate";
  EXPECT_TRUE(refuses(middles(Op::kSendMiddle, 1, 3))) << "another operation";
  EXPECT_TRUE(refuses(middles(Op::kWriteMiddle, 1, 3), wire::Gid::from_ipv4(10, 9, 9, 9)));
  auto to_nobody = middles(Op::kWriteMiddle, 1, 3);
  for (wire::Headers& headers : to_nobody) headers.bth.dest_qp = Qpn(0x77);
  EXPECT_TRUE(refuses(to_nobody));
  auto unreliable = middles(Op::kWriteMiddle, 1, 3);
  for (wire::Headers& headers : unreliable) {
    headers.bth.opcode = wire::opcode_byte(wire::Service::kUc, Op::kWriteMiddle);
  }
  EXPECT_TRUE(refuses(unreliable));
  ASSERT_TRUE(domain_.deregister_region(keys_.lkey).has_value());
  EXPECT_TRUE(refuses(middles(Op::kWriteMiddle, 1, 3))) << "the key is gone";
  EXPECT_EQ(bytes_at(0, kArenaBytes), begun);
  EXPECT_NE(begun, before);
}

TEST_F(RcRun, IsNotTakenWhilePacketsAreHeld) {
  connect();
  begin_write(8);
  take(request(Op::kWriteMiddle, 5), pattern(mtu_, 5));  // early
  EXPECT_EQ(take_joined(middles(Op::kWriteMiddle, 1, 3), pattern(3 * mtu_, 7)), 0u);
}

// --- small messages that nobody waits for share an ACK

TEST_F(RcRun, UnsignaledMessagesAskForAnAckNowAndThen) {
  connect();
  const memory::Sge sge = at(0, 8);
  for (int i = 0; i < 17; ++i) ASSERT_TRUE(accepted(post({.op = SendOp::kSend}, {sge})));
  const auto packets = sent();
  ASSERT_EQ(packets.size(), 17u);
  for (size_t i = 0; i < packets.size(); ++i) {
    EXPECT_EQ(packets[i].view().bth.ack_request, i == 7 || i == 15) << i;
  }
  // The last of them is asked for in the end.
  ack(15);
  wait(kMillisecond / 2);
  EXPECT_EQ(said(), "");
  wait(kMillisecond);
  EXPECT_EQ(said(), "SEND_ONLY 16 (8) A");
}

TEST_F(RcRun, ASmallSendQueueIsFreedSoon) {
  QpInit small = init();
  small.send.max_entries = 4;
  create(small);
  bring_up(defaults());
  const memory::Sge sge = at(0, 8);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(accepted(post({.op = SendOp::kSend}, {sge})));
  const auto packets = sent();
  ASSERT_EQ(packets.size(), 4u);
  EXPECT_FALSE(packets[0].view().bth.ack_request);
  EXPECT_TRUE(packets[2].view().bth.ack_request);
}

TEST_F(RcRun, ASignaledOneAsksAtOnce) {
  connect();
  const memory::Sge sge = at(0, 8);
  ASSERT_TRUE(accepted(post({.op = SendOp::kSend}, {sge})));
  send(SendOp::kWrite, 1, 8);
  EXPECT_EQ(said(), "SEND_ONLY 0 (8), WRITE_ONLY 1 (8) A");
}

}  // namespace
}  // namespace verbena::transport::testing
