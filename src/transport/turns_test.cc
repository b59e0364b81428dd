// SPDX-License-Identifier: Apache-2.0
// Who sends when a receiver's room is short: everybody gets a turn, and nothing waits for ever.
#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

class Turns : public EndpointTest {
 protected:
  static constexpr uint32_t kQps = 5;

  [[nodiscard]] static Qpn own(uint32_t i) { return Qpn(0x100 + i); }

  void SetUp() override {
    for (uint32_t i = 0; i < kQps; ++i) {
      QpAttr attr = defaults();
      attr.dest_qpn = Qpn(0x200 + i);
      connect(attr, QpType::kRc, own(i));
    }
    link_.room = 0;
  }
  void write(uint32_t qp, size_t bytes) {
    const SendRequest request{
        .op = SendOp::kWrite, .remote_addr = RemoteAddr(0x9000), .rkey = RKey(0x5555)};
    ASSERT_TRUE(accepted(post(request, {at(0, bytes)}, own(qp))));
  }
  // Room for so many packets, and one round of turns; gives who sent, in order.
  [[nodiscard]] std::string round(size_t room) {
    link_.room = room;
    endpoint_->advance(now_);
    std::string who;
    for (const Packet& packet : sent()) {
      who += std::to_string(packet.view().bth.dest_qp.value - 0x200);
      if (packet.op() == Op::kAcknowledge) who += 'a';
      if (packet.view().info->operation == wire::Operation::kReadResponse) who += 'r';
    }
    return who;
  }
  void read_from(uint32_t qp, uint32_t bytes) {
    auto headers = EndpointTest::read(0, 0, bytes);
    headers.bth.dest_qp = own(qp);
    take(headers);
  }
  void written_to(uint32_t qp) {
    auto headers = EndpointTest::write(Op::kWriteOnly, 0, 0, 10, true);
    headers.bth.dest_qp = own(qp);
    take(headers, Bytes(10));
  }
};

TEST_F(Turns, WhoGotNothingIsFirstNextTime) {
  for (uint32_t i = 0; i < kQps; ++i) write(i, 40 * 1024);
  EXPECT_EQ(round(0), "");
  EXPECT_EQ(round(1), "0");
  EXPECT_EQ(round(1), "1");
  EXPECT_EQ(round(1), "2");
  EXPECT_EQ(round(2), "33");
  EXPECT_EQ(round(1), "4");
  EXPECT_EQ(round(1), "0");
}

TEST_F(Turns, NobodySendsOutOfTurn) {
  write(0, 10);
  write(1, 10);
  EXPECT_EQ(round(0), "");
  link_.room = 1;
  write(2, 10);
  EXPECT_EQ(sent().size(), 0u);
  EXPECT_EQ(round(2), "01");
  EXPECT_EQ(round(1), "2");
  link_.room = RecordingLink::kUnlimited;
  write(3, 10);
  EXPECT_EQ(sent().size(), 1u) << "nobody waits: at once";
}

TEST_F(Turns, AcksGoBeforeWhatCouldTakeTheirRoom) {
  for (uint32_t i = 0; i < 3; ++i) write(i, 40 * 1024);
  written_to(4);
  EXPECT_EQ(round(0), "");
  link_.room = 1;
  endpoint_->finish_but_acks(now_);
  ASSERT_EQ(link_.sent.size(), 1u);
  EXPECT_EQ(link_.sent[0].op(), Op::kAcknowledge);
}

TEST_F(Turns, RepliesGoFirstMostOfTheTime) {
  write(0, 400 * 1024);
  read_from(1, 400 * 1024);
  EXPECT_EQ(round(0), "");
  std::string all;
  for (int i = 0; i < 8; ++i) all += round(1);
  EXPECT_EQ(std::ranges::count(all, 'r'), 6) << all;
  EXPECT_EQ(std::ranges::count(all, '0'), 2) << all;
}

TEST_F(Turns, AQueuePairThatIsGoneLeavesNobodyWaiting) {
  write(0, 10);
  EXPECT_EQ(round(0), "");
  ASSERT_TRUE(accepted(endpoint_->destroy_qp(own(0))));
  link_.room = RecordingLink::kUnlimited;
  write(1, 10);
  EXPECT_EQ(sent().size(), 1u);
}

}  // namespace
}  // namespace verbena::transport::testing
