// SPDX-License-Identifier: Apache-2.0
// Completion counters: what each kind of operation adds, and when.
#include "transport/operation_counter.h"

#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

constexpr uint32_t kOfSend = bit_of(CountedOp::kSend);
constexpr uint32_t kOfRecv = bit_of(CountedOp::kRecv);
constexpr uint32_t kOfRead = bit_of(CountedOp::kRead);
constexpr uint32_t kOfWrite = bit_of(CountedOp::kWrite);
constexpr uint32_t kOfRemoteWrite = bit_of(CountedOp::kRemoteWrite);

class OperationCounters : public EndpointTest {
 protected:
  void TearDown() override { endpoint_.reset(); }  // before the counters

  // A queue pair that is ready, with a counter for each of these.
  void connect_with(std::initializer_list<std::pair<OperationCounter*, uint32_t>> attached,
                    QpType type = QpType::kRc) {
    create(init(type));
    for (const auto& [counter, operations] : attached) {
      ASSERT_TRUE(accepted(endpoint_->attach_counter(kQpn, *counter, operations)));
    }
    bring_up(defaults(), type);
  }
  // "done/failed"
  static std::string shown(const OperationCounter& counter) {
    return std::to_string(counter.done) + "/" + std::to_string(counter.failed);
  }

  OperationCounter one_;
  OperationCounter two_;
};

TEST_F(OperationCounters, AreAttachedBeforeThereIsTrafficAndOncePerOperation) {
  create(init(QpType::kRc));
  EXPECT_TRUE(refused(endpoint_->attach_counter(Qpn(0x99), one_, kOfSend), Error::kNoSuchQp));
  EXPECT_TRUE(refused(endpoint_->attach_counter(kQpn, one_, 0), Error::kInvalid));
  EXPECT_TRUE(
      refused(endpoint_->attach_counter(kQpn, one_, kOfSend | bit_of(CountedOp::kRemoteRead)),
              Error::kUnsupported));
  EXPECT_TRUE(
      refused(endpoint_->attach_counter(kQpn, one_, 1u << kCountedOps), Error::kUnsupported));
  EXPECT_TRUE(accepted(endpoint_->attach_counter(kQpn, one_, kOfSend | kOfRecv)));
  EXPECT_TRUE(refused(endpoint_->attach_counter(kQpn, two_, kOfRecv | kOfRead), Error::kBusy));
  EXPECT_EQ(one_.users, 2u);
  EXPECT_EQ(two_.users, 0u);
  to_init(defaults(), QpType::kRc, kQpn);
  EXPECT_TRUE(accepted(endpoint_->attach_counter(kQpn, two_, kOfRead)));
  to_rtr(defaults(), QpType::kRc, kQpn);
  EXPECT_TRUE(refused(endpoint_->attach_counter(kQpn, two_, kOfWrite), Error::kInvalid));
  EXPECT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  EXPECT_EQ(one_.users, 0u);
  EXPECT_EQ(two_.users, 0u);
  one_.retired = true;
  create(init(QpType::kRc));
  EXPECT_TRUE(refused(endpoint_->attach_counter(kQpn, one_, kOfSend), Error::kInvalid));
}

TEST_F(OperationCounters, CountRequestsWhenTheyAreAcknowledgedSignaledOrNot) {
  connect_with({{&one_, kOfSend | kOfWrite}, {&two_, kOfRead}});
  send(SendOp::kSend, 1, 100);
  ASSERT_TRUE(accepted(post({.wr_id = 2, .op = SendOp::kWrite, .rkey = RKey(5)}, {at(0, 50)})));
  send(SendOp::kRead, 3, 10, 0);
  EXPECT_EQ(shown(one_), "0/0");
  ack(0);
  EXPECT_EQ(shown(one_), "1/0");
  ack(1);
  EXPECT_EQ(shown(one_), "2/0");
  EXPECT_EQ(sends(), "1 success");  // the WRITE was not signaled
  EXPECT_EQ(shown(two_), "0/0");
  read_response(Op::kReadResponseOnly, 2, pattern(10));
  EXPECT_EQ(shown(two_), "1/0");
  EXPECT_EQ(shown(one_), "2/0");
}

TEST_F(OperationCounters, CountBytes) {
  one_.in_bytes = two_.in_bytes = true;
  connect_with({{&one_, kOfSend | kOfWrite | kOfRead}, {&two_, kOfRecv | kOfRemoteWrite}});
  send(SendOp::kSend, 1, 2500);  // three packets
  send(SendOp::kWrite, 2, 7);
  send(SendOp::kRead, 3, 1030, 0);
  ack(3);
  EXPECT_EQ(one_.done, 2507u);
  read_response(Op::kReadResponseFirst, 4, pattern(1024));
  EXPECT_EQ(one_.done, 2507u);
  read_response(Op::kReadResponseLast, 5, pattern(6));
  EXPECT_EQ(one_.done, 3537u);
  recv(7, 4000, 0);
  take_message(pattern(3000), 0);
  EXPECT_EQ(two_.done, 3000u);
  take_message(pattern(2000), 3, true);
  EXPECT_EQ(two_.done, 5000u);
}

TEST_F(OperationCounters, CountWhatThePeerWritesAndReceivesThatItTakes) {
  connect_with({{&one_, kOfRecv}, {&two_, kOfRemoteWrite}});
  recv(7, 4000, 0);
  recv(8, 4000, 0);
  receive(request(Op::kSendOnly, 0, true), pattern(50));
  EXPECT_EQ(shown(one_), "1/0");
  EXPECT_EQ(shown(two_), "0/0");
  receive(write(Op::kWriteOnly, 1, 0, 10), pattern(10));
  EXPECT_EQ(shown(two_), "1/0");
  auto with_imm = write(Op::kWriteOnlyImm, 2, 0, 10);
  receive(with_imm, pattern(10));
  EXPECT_EQ(shown(two_), "2/0");
  EXPECT_EQ(shown(one_), "2/0");
  receive(with_imm, pattern(10));  // a duplicate
  EXPECT_EQ(shown(two_), "2/0");
  // Refused: the key is none.
  auto refused_write = write(Op::kWriteOnly, 3, 0, 10);
  refused_write.reth.rkey = RKey(0x1234567);
  receive(refused_write, pattern(10));
  EXPECT_EQ(shown(two_), "2/1");
}

TEST_F(OperationCounters, CountFailuresAndWhatIsFlushed) {
  connect_with({{&one_, kOfSend | kOfWrite}, {&two_, kOfRecv}});
  recv(7, 100, 0);
  recv(8, 100, 0);
  send(SendOp::kSend, 1, 10);
  send(SendOp::kSend, 2, 10);
  send(SendOp::kWrite, 3, 10);
  send(SendOp::kFetchAdd, 4, 8);  // not counted
  nak(1, syndrome::kNakRemoteOperational);
  EXPECT_EQ(sends(), "1 success, 2 remote operational error, 3 flushed, 4 flushed");
  EXPECT_EQ(shown(one_), "1/2");
  EXPECT_EQ(shown(two_), "0/2");
  // They stay attached through RESET.
  ASSERT_TRUE(accepted(modify(QpState::kReset)));
  bring_up(defaults());
  send(SendOp::kSend, 5, 10);
  ack(0);
  EXPECT_EQ(shown(one_), "2/2");
}

TEST_F(OperationCounters, CountDatagrams) {
  one_.in_bytes = true;
  connect_with({{&one_, kOfRecv}, {&two_, kOfSend}}, QpType::kUd);
  recv(7, 4000, 0);
  auto headers = headers_of(wire::Service::kUd, Op::kSendOnly, kQpn, Psn(1));
  headers.deth = {0x1234, 0, kPeerQpn};
  receive(headers, pattern(60));
  EXPECT_EQ(recvs(), "7 success 100");
  EXPECT_EQ(shown(one_), "100/0");
}

}  // namespace
}  // namespace verbena::transport::testing
