// SPDX-License-Identifier: Apache-2.0
// A peer that does not keep to the protocol: its stream ends, and nothing else.
#include <array>

#include <rdma/rdma_cma.h>
#include <unistd.h>

#include "rsocket/protocol.h"
#include "rsocket/test_streams.h"

namespace verbena::rsocket {
namespace {

// Connects with rdma_cm alone, and says what it likes.
class Hostile {
 public:
  explicit Hostile(const sockaddr_in& to) : channel_(rdma_create_event_channel()) {
    EXPECT_EQ(rdma_create_id(channel_, &id_, nullptr, RDMA_PS_TCP), 0);
    EXPECT_EQ(rdma_resolve_addr(id_, nullptr, const_cast<sockaddr*>(raw(to)), 1000), 0);
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    EXPECT_EQ(rdma_resolve_route(id_, 1000), 0);
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    cq_ = ibv_create_cq(id_->verbs, 64, nullptr, nullptr, 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.qp_type = IBV_QPT_RC;
    init.cap = {.max_send_wr = 32,
                .max_recv_wr = 32,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 64};
    EXPECT_EQ(rdma_create_qp(id_, nullptr, &init), 0);
    for (int i = 0; i < 16; ++i) {
      ibv_recv_wr request{};
      ibv_recv_wr* bad = nullptr;
      EXPECT_EQ(ibv_post_recv(id_->qp, &request, &bad), 0);
    }
    memory_ = ibv_reg_mr(id_->pd, bytes_.data(), bytes_.size(),
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  }
  ~Hostile() {
    rdma_destroy_qp(id_);
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    EXPECT_EQ(ibv_dereg_mr(memory_), 0);
    EXPECT_EQ(rdma_destroy_id(id_), 0);
    rdma_destroy_event_channel(channel_);
  }

  [[nodiscard]] Greeting greeting() const {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    return {.order = std::endian::native,
            .credits = 16,
            .iomap_entries = 0,
            .list = {.address = address, .key = memory_->rkey, .length = 2},
            .buffer = {.address = address + 64, .key = memory_->rkey, .length = 64}};
  }
  void connect(std::span<const uint8_t> data) {
    rdma_conn_param params{};
    params.private_data = data.data();
    params.private_data_len = static_cast<uint8_t>(data.size());
    params.retry_count = params.rnr_retry_count = 7;
    EXPECT_EQ(rdma_connect(id_, &params), 0);
  }
  void establish() {
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(rdma_get_cm_event(channel_, &event), 0);
    ASSERT_EQ(event->event, RDMA_CM_EVENT_ESTABLISHED);
    const auto& said = event->param.conn;
    const auto read =
        decode_greeting({static_cast<const uint8_t*>(said.private_data), said.private_data_len});
    ASSERT_TRUE(read);
    peer = *read;
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
  }
  void expect(rdma_cm_event_type wanted) {
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(rdma_get_cm_event(channel_, &event), 0);
    EXPECT_EQ(event->event, wanted) << rdma_event_str(event->event);
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
  }
  void say(uint32_t immediate, uint32_t length = 0, const Entry& to = {},
           ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE_WITH_IMM) {
    ibv_sge piece{reinterpret_cast<uintptr_t>(&bytes_[128]), length, memory_->lkey};
    ibv_send_wr request{};
    request.opcode = opcode;
    request.sg_list = &piece;
    request.num_sge = length != 0 ? 1 : 0;
    request.imm_data = htonl(immediate);
    request.wr.rdma.remote_addr = to.address;
    request.wr.rdma.rkey = to.key;
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(id_->qp, &request, &bad), 0);
  }

  Greeting peer;
  std::array<uint8_t, 16384> bytes_{};

 private:
  rdma_event_channel* channel_;
  rdma_cm_id* id_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* memory_ = nullptr;
};

class RsocketHostile : public ::testing::Test {
 protected:
  void SetUp() override {
    hostile_.connect(encode(hostile_.greeting()));
    victim_ = raccept(listener_.socket(), nullptr, nullptr);
    ASSERT_GE(victim_, 0);
    hostile_.establish();
    ASSERT_EQ(poll_for(victim_, POLLOUT), POLLOUT);
  }
  void TearDown() override {
    EXPECT_EQ(rclose(victim_), 0);
    // Others are not concerned.
    const Streams others;
    write_all(others.active, "x");
    EXPECT_EQ(read_some(others.passive), "x");
  }
  void expect_broken() {
    char byte = 0;
    EXPECT_FAILS(rrecv(victim_, &byte, 1, 0), EPROTO);
    EXPECT_EQ(rrecv(victim_, &byte, 1, 0), 0);
    EXPECT_FAILS(rsend(victim_, "x", 1, 0), ECONNRESET);
    hostile_.expect(RDMA_CM_EVENT_DISCONNECTED);
  }

  Listener listener_;
  Hostile hostile_{listener_.address()};
  int victim_ = -1;
};

TEST_F(RsocketHostile, AnnouncesMoreThanItWrote) {
  hostile_.say(encode(Op::kData, 1000), 10, hostile_.peer.buffer);
  expect_broken();
}

TEST_F(RsocketHostile, AnnouncesNothing) {
  hostile_.say(encode(Op::kData, 0));
  expect_broken();
}

TEST_F(RsocketHostile, WritesMoreThanWasGranted) {
  // Both halves, and a little more.
  const uint32_t half = hostile_.peer.buffer.length;
  constexpr uint32_t kPiece = 8192;
  for (uint32_t sent = 0; sent <= 2 * half; sent += kPiece) {
    hostile_.say(encode(Op::kData, kPiece), kPiece, hostile_.peer.buffer);
  }
  EXPECT_EQ(poll_for(victim_, POLLRDHUP), POLLRDHUP);
  // What was granted can be read.
  std::string all(2 * half, '\0');
  EXPECT_EQ(rrecv(victim_, all.data(), all.size(), MSG_WAITALL), static_cast<ssize_t>(all.size()));
  expect_broken();
}

TEST_F(RsocketHostile, UsesAnOperationThatIsNone) {
  hostile_.say(uint32_t{1} << 29);
  expect_broken();
}

TEST_F(RsocketHostile, SaysAControlWordThatIsNone) {
  hostile_.say(0xe0000077);
  expect_broken();
}

TEST_F(RsocketHostile, GrantsMoreThanItsQueueHas) {
  hostile_.say(encode(Op::kGrant, 60'000));
  expect_broken();
}

TEST_F(RsocketHostile, GrantsAnEmptyHalf) {
  Entry second = hostile_.peer.list;
  second.address += kEntryBytes;
  hostile_.say(encode(Op::kGrant, 16), kEntryBytes, second);
  expect_broken();
}

TEST_F(RsocketHostile, GrantsHalfAnEntry) {
  hostile_.say(encode(Op::kGrant, 16), 8, hostile_.peer.list);
  expect_broken();
}

TEST_F(RsocketHostile, MapsWhereThereIsNoEntry) {
  hostile_.say(encode(Op::kIomap, 0));
  expect_broken();
}

TEST_F(RsocketHostile, SendsInsteadOfWriting) {
  hostile_.say(encode(Op::kData, 1), 0, {}, IBV_WR_SEND_WITH_IMM);
  expect_broken();
}

TEST_F(RsocketHostile, GrantsMemoryThatIsNotItsOwn) {
  // Our WRITE is refused at its own end, and that is all.
  Entry second = hostile_.peer.list;
  second.address += kEntryBytes;
  const EntryBytes nowhere =
      encode({.address = 0x1000, .key = 0x12345678, .length = 4096}, std::endian::native);
  std::ranges::copy(nowhere, &hostile_.bytes_[128]);
  hostile_.say(encode(Op::kGrant, 16), kEntryBytes, second);
  const std::string text(1000, 'x');
  // The first half is good.
  char byte = 0;
  EXPECT_GE(rsend(victim_, text.data(), text.size(), 0), 64);
  EXPECT_FAILS(rrecv(victim_, &byte, 1, 0), ECONNRESET);
}

TEST(RsocketHostileRequest, IsRefusedAndTheNextIsTaken) {
  const Listener listener;
  Hostile wrong(listener.address());
  const std::array<uint8_t, 40> nonsense{9, 9, 9};
  wrong.connect(nonsense);
  Hostile silent(listener.address());
  silent.connect({});
  Hostile right(listener.address());
  right.connect(encode(right.greeting()));
  const int victim = raccept(listener.socket(), nullptr, nullptr);
  ASSERT_GE(victim, 0);
  right.establish();
  wrong.expect(RDMA_CM_EVENT_REJECTED);
  silent.expect(RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(rclose(victim), 0);
}

// Whether a request whose peer gives up is forgotten soon.
[[nodiscard]] bool forgets_request() {
  const Listener listener;
  {
    Hostile impatient(listener.address());
    impatient.connect(encode(impatient.greeting()));
    EXPECT_EQ(poll_for(listener.socket(), POLLIN), POLLIN);
  }
  for (int i = 0; i < 200 && poll_for(listener.socket(), POLLIN, 0) != 0; ++i) {
    ::usleep(10'000);
  }
  EXPECT_EQ(rfcntl(listener.socket(), F_SETFL, O_NONBLOCK), 0);
  const int taken = raccept(listener.socket(), nullptr, nullptr);
  if (taken < 0) {
    EXPECT_EQ(errno, EAGAIN);
    return true;
  }
  EXPECT_EQ(rclose(taken), 0);
  return false;
}

// Its end is told once, in a message that is not repeated and may be lost (docs/connections.md,
// "Many processes, one QP1").
TEST(RsocketHostileRequest, IsForgottenWhenItsPeerGivesUp) {
  bool forgotten = false;
  for (int tries = 0; tries < 5 && !forgotten; ++tries) forgotten = forgets_request();
  EXPECT_TRUE(forgotten);
}

}  // namespace
}  // namespace verbena::rsocket
