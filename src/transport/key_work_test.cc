// SPDX-License-Identifier: Apache-2.0
// Memory keys on the send queue: configured in order with the other requests, used by them, and the
// stop at a wrong signature.
#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

using memory::SignatureKind;

class KeyWork : public EndpointTest {
 protected:
  KeyWork() { key_ = domain_.create_key(pd_, {.max_entries = 8, .signature = true}).value(); }

  memory::KeyConfig list(std::initializer_list<std::pair<size_t, uint32_t>> parts) const {
    memory::KeyConfig config;
    config.access = kAll & ~uint32_t{memory::kMwBind};
    config.has_layout = true;
    for (const auto& [offset, n] : parts) {
      config.blocks.push_back({kIova + offset, n, 0, keys_.lkey});
    }
    return config;
  }
  void configure(uint64_t wr_id, const memory::KeyConfig& config, uint32_t flags = kSignaled) {
    ASSERT_TRUE(accepted(post({.wr_id = wr_id,
                               .op = SendOp::kConfigureKey,
                               .flags = flags,
                               .key = key_.lkey,
                               .config = &config})));
  }
  // From the key's range.
  void send_from_key(SendOp op, uint64_t wr_id, uint32_t n, uint32_t flags = kSignaled) {
    ASSERT_TRUE(accepted(post({.wr_id = wr_id,
                               .op = op,
                               .flags = flags,
                               .remote_addr = RemoteAddr(0x9000),
                               .rkey = RKey(0x5555)},
                              {{0, n, key_.lkey}})));
  }
  Bytes payload_sent() {
    Bytes all;
    for (const Packet& packet : sent()) {
      const auto payload = packet.view().payload;
      all.insert(all.end(), payload.begin(), payload.end());
    }
    return all;
  }
  static Bytes joined(Bytes a, const Bytes& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  static memory::Signature crc32_in_memory(uint8_t check_mask) {
    return {.memory = {.kind = SignatureKind::kCrc32, .block = 512, .seed = 0xffffffff},
            .check_mask = check_mask};
  }
  QpInit pipelined() {
    QpInit made = init();
    made.signature_pipelining = true;
    return made;
  }

  memory::RegionKeys key_;
};

TEST_F(KeyWork, ARequestUsesWhatWasConfiguredBeforeIt) {
  connect();
  configure(1, list({{100, 10}, {5000, 20}}));
  EXPECT_EQ(send_cq_.all.at(0).opcode, WcOpcode::kConfigureKey);
  EXPECT_EQ(sends(), "1 success");
  send_from_key(SendOp::kWrite, 2, 30);
  EXPECT_EQ(payload_sent(), joined(bytes_at(100, 10), bytes_at(5000, 20)));
  ack(0);
  EXPECT_EQ(sends(), "2 success");
}

// What may have to be sent again must still find its bytes.
TEST_F(KeyWork, AKeyInUseIsNotChanged) {
  connect();
  configure(1, list({{0, 16}}), 0);
  send_from_key(SendOp::kWrite, 2, 16);
  configure(3, list({{1000, 16}}), 0);
  send_from_key(SendOp::kWrite, 4, 16);
  EXPECT_EQ(payload_sent(), bytes_at(0, 16));
  nak(0, syndrome::kNakSequence);
  EXPECT_EQ(payload_sent(), bytes_at(0, 16)) << "again, as it was";
  ack(0);
  EXPECT_EQ(payload_sent(), bytes_at(1000, 16));
  EXPECT_EQ(sends(), "2 success");
  ASSERT_TRUE(accepted(post(
      {.wr_id = 5, .op = SendOp::kLocalInvalidate, .flags = kSignaled, .invalidate = key_.rkey})));
  EXPECT_EQ(sends(), "") << "not under what is out";
  ack(1);
  EXPECT_EQ(sends(), "4 success, 5 success");
  send_from_key(SendOp::kWrite, 6, 16);
  EXPECT_EQ(sends(), "6 local protection error");
}

// One that nobody asked to be acknowledged is asked for when something waits.
TEST_F(KeyWork, AnAnswerIsAskedForWhenAKeyIsWaitedFor) {
  connect();
  configure(1, list({{0, 16}}), 0);
  send_from_key(SendOp::kWrite, 2, 16, 0);
  EXPECT_EQ(said(), "WRITE_ONLY 0 (16)");
  configure(3, list({{1000, 16}}));
  EXPECT_LE(endpoint_->next_deadline(), now_ + 100 * kMicrosecond);
}

// Nor one that lies under a key in use.
TEST_F(KeyWork, AKeyUnderAKeyInUseIsNotChanged) {
  const auto under = domain_.create_key(pd_, {.max_entries = 4}).value();
  connect();
  ASSERT_EQ(domain_.configure_key(under.lkey, pd_, list({{0, 16}})), memory::Fault::kNone);
  memory::KeyConfig over = list({});
  over.blocks.push_back({0, 16, 0, under.lkey});
  configure(1, over, 0);
  send_from_key(SendOp::kWrite, 2, 16);
  const auto other = list({{1000, 16}});
  ASSERT_TRUE(accepted(
      post({.wr_id = 3, .op = SendOp::kConfigureKey, .key = under.lkey, .config = &other})));
  ASSERT_TRUE(accepted(post(
      {.wr_id = 4, .op = SendOp::kLocalInvalidate, .flags = kSignaled, .invalidate = under.rkey})));
  EXPECT_EQ(payload_sent(), bytes_at(0, 16));
  nak(0, syndrome::kNakSequence);
  EXPECT_EQ(payload_sent(), bytes_at(0, 16)) << "again, as it was";
  ack(0);
  EXPECT_EQ(sends(), "2 success, 4 success");
}

TEST_F(KeyWork, OtherKeysNeedNotWait) {
  connect();
  send(SendOp::kWrite, 1, 16);
  configure(2, list({{1000, 16}}), 0);
  send_from_key(SendOp::kWrite, 3, 16);
  EXPECT_EQ(said(), "WRITE_ONLY 0 (16) A, WRITE_ONLY 1 (16) A");
}

TEST_F(KeyWork, AForeignOrUnknownKeyFailsTheRequest) {
  connect();
  const auto config = list({{0, 16}});
  ASSERT_TRUE(accepted(post({.wr_id = 1,
                             .op = SendOp::kConfigureKey,
                             .flags = kSignaled,
                             .key = LKey(12345),
                             .config = &config})));
  EXPECT_EQ(sends(), "1 local QP operation error");
  EXPECT_EQ(state(), QpState::kErr);
}

// A long message from many pieces, cut into packets anywhere, in runs and alone.
TEST_F(KeyWork, ScatteredRuns) {
  connect();
  const auto config = list({{10, 3000}, {9000, 1}, {20000, 40000}, {70001, 777}, {100000, 9000}});
  configure(1, config, 0);
  send_from_key(SendOp::kWrite, 2, 52778);
  Bytes all;
  for (const auto& block : config.blocks) {
    all = joined(all, bytes_at(block.addr - kIova, block.bytes));
  }
  Bytes got;
  for (uint32_t acked = 0; got.size() < all.size() && acked < 60; ++acked) {
    got = joined(got, payload_sent());
    ack(acked);
  }
  EXPECT_EQ(got, all);
}

TEST_F(KeyWork, CopiesBetweenKeys) {
  connect();
  configure(1, list({{100, 10}, {5000, 20}}), 0);
  ASSERT_TRUE(accepted(post({.wr_id = 2,
                             .op = SendOp::kCopy,
                             .flags = kSignaled,
                             .copy_to = at(9000, 30),
                             .copy_from = {0, 30, key_.lkey}})));
  EXPECT_EQ(send_cq_.all.at(0).opcode, WcOpcode::kCopy);
  EXPECT_EQ(sends(), "2 success");
  EXPECT_EQ(bytes_at(9000, 30), joined(bytes_at(100, 10), bytes_at(5000, 20)));
  ASSERT_TRUE(accepted(post({.wr_id = 3,
                             .op = SendOp::kCopy,
                             .copy_to = at(9000, 31),
                             .copy_from = {0, 31, key_.lkey}})));
  EXPECT_EQ(sends(), "3 local protection error");
}

TEST_F(KeyWork, AWrongSignatureDoesNotFailTheData) {
  connect();
  auto config = list({{0, 516}});
  config.signature = crc32_in_memory(0xf0);
  configure(1, config, 0);
  send_from_key(SendOp::kSend, 2, 512);
  EXPECT_EQ(payload_sent(), bytes_at(0, 512));
  ack(0);
  EXPECT_EQ(sends(), "2 success");
  EXPECT_TRUE(domain_.take_signature_error(key_.lkey).value());
  EXPECT_EQ(state(), QpState::kRts) << "only where it was asked for";
}

TEST_F(KeyWork, APipelinedQueueStopsAtAWrongSignature) {
  create(pipelined());
  bring_up(defaults());
  auto config = list({{0, 516}});
  config.signature = crc32_in_memory(0xf0);
  configure(1, config, 0);
  send_from_key(SendOp::kWrite, 7, 512, 0);
  send(SendOp::kSend, 8, 16, 0, 0, kFence);
  EXPECT_EQ(said(), "WRITE_ONLY 0 (512)");
  EXPECT_EQ(state(), QpState::kSqd);
  EXPECT_TRUE(happened().empty()) << "the WRITE is out";
  ack(0);
  EXPECT_EQ(happened(), std::vector<Event>{Event::kSqDrained});
  EXPECT_EQ(sends(), "");
  EXPECT_TRUE(refused(endpoint_->cancel_sends(Qpn(99), 8), Error::kNoSuchQp));
  EXPECT_EQ(endpoint_->cancel_sends(kQpn, 9).value(), 0u);
  EXPECT_EQ(endpoint_->cancel_sends(kQpn, 8).value(), 1u);
  send(SendOp::kSend, 9, 20, 0);
  EXPECT_EQ(said(), "") << "stopped";
  ASSERT_TRUE(accepted(modify(QpState::kRts)));
  EXPECT_EQ(said(), "SEND_ONLY 1 (20) A") << "the cancelled one is not sent";
  EXPECT_EQ(sends(), "8 success") << "but completes";
  ack(1);
  EXPECT_EQ(sends(), "9 success");
  EXPECT_TRUE(refused(endpoint_->cancel_sends(kQpn, 9), Error::kInvalid)) << "not in RTS";
}

TEST_F(KeyWork, APipelinedQueueRunsOnWhileSignaturesAreRight) {
  create(pipelined());
  bring_up(defaults());
  auto config = list({{0, 516}});
  config.signature = crc32_in_memory(0);
  configure(1, config, 0);
  send_from_key(SendOp::kWrite, 7, 512, 0);
  send(SendOp::kSend, 8, 16, 0, 0, kFence);
  EXPECT_EQ(said(), "WRITE_ONLY 0 (512), SEND_ONLY 1 (16) A");
  EXPECT_EQ(state(), QpState::kRts);
}

// A program reads the error, and then the packet is lost: it is not found once more.
TEST_F(KeyWork, AWrongSignatureIsFoundOnceHoweverOftenItIsSent) {
  create(pipelined());
  bring_up(defaults());
  auto config = list({{0, 16 * 516}});
  config.signature = crc32_in_memory(0xf0);
  configure(1, config, 0);
  send_from_key(SendOp::kWrite, 7, 16 * 512);
  const Bytes first = payload_sent();
  EXPECT_EQ(first.size(), 16u * 512);
  EXPECT_EQ(domain_.signature_errors(), 16u);
  EXPECT_TRUE(domain_.take_signature_error(key_.lkey).value());
  nak(0, syndrome::kNakSequence);
  EXPECT_EQ(payload_sent(), first) << "again";
  EXPECT_EQ(domain_.signature_errors(), 16u);
  EXPECT_FALSE(domain_.take_signature_error(key_.lkey).value());
  ack(7);
  EXPECT_EQ(sends(), "7 success");
  EXPECT_EQ(happened(), std::vector<Event>{Event::kSqDrained});
  ASSERT_TRUE(accepted(modify(QpState::kRts)));
  send(SendOp::kSend, 8, 16, 0);
  EXPECT_EQ(said(), "SEND_ONLY 8 (16) A") << "not stopped for the same error again";
  send_from_key(SendOp::kWrite, 9, 512);
  EXPECT_TRUE(domain_.take_signature_error(key_.lkey).value()) << "another request: found anew";
}

TEST_F(KeyWork, AReplyThatGoesOutAgainIsNotCheckedAgain) {
  connect();
  memory::KeyConfig config = list({{0, 16 * 516}});
  config.signature = crc32_in_memory(0xf0);
  configure(1, config, 0);
  auto headers = request(Op::kReadRequest, 0, true);
  headers.reth = {0, key_.rkey, 16 * 512};
  receive(headers);
  const Bytes first = payload_sent();
  EXPECT_EQ(first.size(), 16u * 512);
  EXPECT_TRUE(domain_.take_signature_error(key_.lkey).value());
  receive(headers);
  EXPECT_EQ(payload_sent(), first) << "a duplicate request";
  EXPECT_FALSE(domain_.take_signature_error(key_.lkey).value());
  EXPECT_EQ(domain_.signature_errors(), 16u);
  headers = request(Op::kReadRequest, 8, true);
  headers.reth = {0, key_.rkey, 16 * 512};
  receive(headers);
  EXPECT_TRUE(domain_.take_signature_error(key_.lkey).value()) << "another READ";
}

// What else is found until the queue is drained, the program sees before it goes on.
TEST_F(KeyWork, ErrorsFoundWhileItStopsDoNotStopItAgain) {
  create(pipelined());
  bring_up(defaults());
  auto config = list({{0, 512}});
  config.signature =
      memory::Signature{.wire = {.kind = SignatureKind::kCrc32, .block = 512, .seed = 0xffffffff},
                        .check_mask = 0xf0};
  configure(1, config, 0);
  send_from_key(SendOp::kRead, 7, 516);
  send_from_key(SendOp::kRead, 8, 516);
  (void)sent();
  read_response(Op::kReadResponseOnly, 0, Bytes(516, 0x11));
  send(SendOp::kSend, 9, 16, 0);
  EXPECT_EQ(state(), QpState::kSqd);
  EXPECT_TRUE(happened().empty());
  read_response(Op::kReadResponseOnly, 1, Bytes(516, 0x22));
  EXPECT_EQ(sends(), "7 success, 8 success");
  EXPECT_EQ(happened(), std::vector<Event>{Event::kSqDrained});
  EXPECT_EQ(said(), "");
  ASSERT_TRUE(accepted(modify(QpState::kRts)));
  EXPECT_EQ(said(), "SEND_ONLY 2 (16) A");
  EXPECT_EQ(state(), QpState::kRts);
  EXPECT_EQ(bytes_at(0, 512), Bytes(512, 0x22));
}

// The other way: what a READ brings is checked when it has come.
TEST_F(KeyWork, APipelinedReadStopsWhenItHasCome) {
  create(pipelined());
  bring_up(defaults());
  auto config = list({{0, 512}});
  config.signature =
      memory::Signature{.wire = {.kind = SignatureKind::kCrc32, .block = 512, .seed = 0xffffffff},
                        .check_mask = 0xf0};
  configure(1, config, 0);
  send_from_key(SendOp::kRead, 7, 516);
  send(SendOp::kSend, 8, 16, 0, 0, kFence);
  EXPECT_EQ(said(), "READ_REQUEST 0 [36864 +516]");
  read_response(Op::kReadResponseOnly, 0, Bytes(516, 0x11));
  EXPECT_EQ(said(), "");
  EXPECT_EQ(state(), QpState::kSqd);
  EXPECT_EQ(sends(), "7 success");
  EXPECT_EQ(happened(), std::vector<Event>{Event::kSqDrained});
  EXPECT_EQ(bytes_at(0, 512), Bytes(512, 0x11));
}

TEST_F(KeyWork, APipelinedCopyStopsAtAWrongSignature) {
  create(pipelined());
  bring_up(defaults());
  auto config = list({{0, 516}});
  config.signature = crc32_in_memory(0xf0);
  configure(1, config, 0);
  ASSERT_TRUE(accepted(post({.wr_id = 7,
                             .op = SendOp::kCopy,
                             .flags = kSignaled,
                             .copy_to = at(9000, 512),
                             .copy_from = {0, 512, key_.lkey}})));
  send(SendOp::kSend, 8, 16, 0);
  EXPECT_EQ(said(), "");
  EXPECT_EQ(sends(), "7 success");
  EXPECT_EQ(state(), QpState::kSqd);
  EXPECT_EQ(happened(), std::vector<Event>{Event::kSqDrained});
}

// UC has no acknowledgement to wait for: it stops behind the message, whether or not another
// follows.
TEST_F(KeyWork, APipelinedUcQueueStopsAtAWrongSignature) {
  for (const uint32_t blocks : {1u, 16u}) {
    QpInit uc = pipelined();
    uc.type = QpType::kUc;
    create(uc);
    bring_up(defaults(), QpType::kUc);
    auto config = list({{0, blocks * 516}});
    config.signature = crc32_in_memory(0xf0);
    configure(1, config, 0);
    send_from_key(SendOp::kWrite, 7, blocks * 512);
    EXPECT_EQ(payload_sent().size(), blocks * 512);
    EXPECT_EQ(sends(), "7 success");
    EXPECT_EQ(state(), QpState::kSqd) << blocks;
    EXPECT_EQ(happened(), std::vector<Event>{Event::kSqDrained});
    send(SendOp::kSend, 8, 16, 0);
    EXPECT_EQ(said(), "") << "stopped";
    EXPECT_EQ(endpoint_->cancel_sends(kQpn, 8).value(), 1u);
    ASSERT_TRUE(accepted(modify(QpState::kRts)));
    EXPECT_EQ(sends(), "8 success");
    EXPECT_EQ(said(), "");
    ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  }
}

// A peer reads and writes through a key with signatures: packet by packet, whatever they cut.
TEST_F(KeyWork, APeerUsesAKeyWithSignatures) {
  connect();
  memory::KeyConfig config = list({{0, 8 * 516}});
  config.signature = crc32_in_memory(0xf0);
  configure(1, config, 0);
  const Bytes data = pattern(8 * 512, 3);
  for (uint32_t i = 0; i < 4; ++i) {
    auto headers = request(i == 0   ? Op::kWriteFirst
                           : i == 3 ? Op::kWriteLast
                                    : Op::kWriteMiddle,
                           i, i == 3);
    headers.reth = {0, key_.rkey, 4096};
    take(headers, Bytes(data.begin() + i * 1024, data.begin() + (i + 1) * 1024));
  }
  endpoint_->finish_batch(now_);
  EXPECT_EQ(said(), "ACK 3 msn 1");
  EXPECT_EQ(bytes_at(516, 512), Bytes(data.begin() + 512, data.begin() + 1024));
  auto headers = request(Op::kReadRequest, 4, true);
  headers.reth = {0, key_.rkey, 4096};
  receive(headers);
  EXPECT_EQ(payload_sent(), data);
  EXPECT_FALSE(domain_.take_signature_error(key_.lkey).value());
  arena_[516 * 3 + 100] ^= 1;
  headers = request(Op::kReadRequest, 8, true);
  headers.reth = {0, key_.rkey, 4096};
  receive(headers);
  (void)sent();
  const auto error = domain_.take_signature_error(key_.lkey).value();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->offset, 516u * 3);
}

// A place in a deep queue does not keep the room of the longest list that it ever had.
TEST(SendQueueOfKeys, RoomForAVeryLongListIsGivenBack) {
  SendQueue queue({.max_entries = 4, .max_sge = 1, .max_inline = 0}, false);
  memory::KeyConfig config;
  const auto room_kept = [&](size_t blocks, auto&& finish) {
    config.blocks.resize(blocks);
    const uint64_t number = queue.tail();
    const SendRequest request{.op = SendOp::kConfigureKey, .config = &config};
    EXPECT_TRUE(queue.make_room({&request, 1}));
    queue.push(request, 0);
    EXPECT_EQ(queue.config(number).config.blocks.size(), blocks);
    finish();
    return queue.config(number).config.blocks.capacity();
  };
  EXPECT_GE(room_kept(16, [&] { queue.pop_head(); }), 16u);
  EXPECT_EQ(room_kept(60000, [&] { queue.pop_head(); }), 0u);
  EXPECT_EQ(room_kept(60000, [&] { queue.clear(); }), 0u);
}

}  // namespace
}  // namespace verbena::transport::testing
