// SPDX-License-Identifier: Apache-2.0
#include "rsocket/flow.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace verbena::rsocket {
namespace {

constexpr uint32_t kBytes = 8192;

// One direction of a stream, with memory in place of RDMA, and both ends' messages under way.
class Direction {
 public:
  Direction(uint32_t send_bytes, uint32_t places, uint16_t credits)
      : send(send_bytes, places), receive(kBytes, credits), memory_(kBytes) {
    send.begin(credits, {.address = 0, .key = 7, .length = receive.half()});
  }

  // As much as goes, up to `most`; how much.
  uint32_t write(uint32_t most) {
    const uint32_t bytes = std::min(most, send.room());
    if (bytes == 0) return 0;
    const SendFlow::Target target = send.take(bytes);
    EXPECT_LE(target.address + bytes, kBytes);
    for (uint32_t i = 0; i < bytes; ++i) memory_[target.address + i] = next_written_++;
    data_.push_back(bytes);
    return bytes;
  }
  void deliver_data() {
    if (data_.empty()) return;
    EXPECT_TRUE(receive.arrived(data_.front()));
    send.completed({Op::kData, data_.front()});
    data_.pop_front();
  }
  void read(uint32_t most) {
    const uint32_t bytes = std::min(most, receive.readable());
    for (uint32_t done = 0; done < bytes;) {
      const ReceiveFlow::Piece piece = receive.piece(done);
      const uint32_t part = std::min(piece.bytes, bytes - done);
      for (uint32_t i = 0; i < part; ++i) {
        ASSERT_EQ(memory_[piece.offset + i], next_read_++);
      }
      done += part;
    }
    receive.read(bytes);
    total_read += bytes;
  }
  void grant() {
    if (!receive.owes_grant()) return;
    const ReceiveFlow::Grant grant = receive.grant();
    std::optional<Entry> half;
    if (grant.half_offset) {
      half = Entry{.address = *grant.half_offset, .key = 7, .length = receive.half()};
    }
    grants_.push_back({grant.limit, half});
  }
  void deliver_grant() {
    if (grants_.empty()) return;
    EXPECT_TRUE(send.granted(grants_.front().first, grants_.front().second));
    grants_.pop_front();
  }

  SendFlow send;
  ReceiveFlow receive;
  uint64_t total_read = 0;

 private:
  std::vector<uint8_t> memory_;
  uint8_t next_written_ = 0;
  uint8_t next_read_ = 0;
  std::deque<uint32_t> data_;
  std::deque<std::pair<uint16_t, std::optional<Entry>>> grants_;
};

TEST(RsocketFlow, BytesComeInOrderWhateverTheInterleaving) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 engine(seed);
    const auto random = [&] { return static_cast<uint32_t>(engine()); };
    Direction way(4096 + random() % 20000, 16 + random() % 30,
                  static_cast<uint16_t>(1 + random() % 40));
    for (int step = 0; step < 6'000; ++step) {
      switch (random() % 5) {
        case 0: way.write(1 + random() % 3000); break;
        case 1: way.deliver_data(); break;
        case 2: way.read(1 + random() % 3000); break;
        case 3: way.grant(); break;
        case 4: way.deliver_grant(); break;
      }
      ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed << ", step " << step;
    }
    // Nothing stays behind, and 65,536 messages do not end it.
    EXPECT_GT(way.total_read, 30'000U) << seed;
  }
}

TEST(RsocketFlow, NumbersOfMessagesWrap) {
  Direction way(4096, 16, 16);
  for (int message = 0; message < 70'000; ++message) {
    ASSERT_EQ(way.write(1), 1U) << message;
    way.deliver_data();
    way.read(1);
    way.grant();
    way.deliver_grant();
  }
}

TEST(RsocketFlow, EachThingThatRunsOutStopsTheSender) {
  const Entry half{.address = 0, .key = 1, .length = 100'000};
  SendFlow by_places(1 << 20, 16);
  by_places.begin(1000, half);
  for (int i = 0; i < 12; ++i) (void)by_places.take(1);  // four are for control messages
  EXPECT_FALSE(by_places.can_send());
  by_places.completed({Op::kData, 1});
  EXPECT_TRUE(by_places.can_send());

  SendFlow by_buffer(4096, 100);
  by_buffer.begin(1000, half);
  EXPECT_EQ(by_buffer.room(), 4096U);
  (void)by_buffer.take(2049);
  EXPECT_FALSE(by_buffer.can_send());

  SendFlow by_credit(1 << 20, 100);
  by_credit.begin(2, half);
  (void)by_credit.take(1);
  (void)by_credit.take(1);
  EXPECT_FALSE(by_credit.can_send());
  EXPECT_TRUE(by_credit.can_send_direct());
  EXPECT_TRUE(by_credit.granted(3, {}));
  EXPECT_TRUE(by_credit.can_send());

  SendFlow by_half(1 << 20, 100);
  by_half.begin(1000, {.address = 0, .key = 1, .length = 10});
  EXPECT_EQ(by_half.room(), 10U);
  (void)by_half.take(10);
  EXPECT_FALSE(by_half.can_send());
  EXPECT_TRUE(by_half.granted(1000, Entry{.address = 50, .key = 2, .length = 20}));
  EXPECT_EQ(by_half.take(5).address, 50U);
  EXPECT_EQ(by_half.take(5).address, 55U);

  SendFlow controls(4096, 16);
  for (uint32_t i = 0; i < kControlPlaces; ++i) controls.take_control();
  EXPECT_FALSE(controls.can_control());
  EXPECT_FALSE(controls.idle());
  for (uint32_t i = 0; i < kControlPlaces; ++i) controls.completed({Op::kGrant, 0});
  EXPECT_TRUE(controls.idle());
}

TEST(RsocketFlow, GrantsThatBreakTheRulesAreRefused) {
  const Entry half{.address = 0, .key = 1, .length = 100};
  const auto fresh = [&] {
    SendFlow send(1 << 20, 100);
    send.begin(10, half);
    (void)send.take(1);
    return send;
  };
  EXPECT_FALSE(fresh().granted(12, {}));                  // more than the queue has
  EXPECT_FALSE(fresh().granted(9, {}));                   // less than before
  EXPECT_FALSE(fresh().granted(0, {}));                   // already used
  EXPECT_FALSE(fresh().granted(11, Entry{.length = 0}));  // no room at all
  SendFlow twice = fresh();
  EXPECT_TRUE(twice.granted(11, half));
  EXPECT_FALSE(twice.granted(11, half));  // the first half is not used up
}

TEST(RsocketFlow, DataThatWasNotGrantedIsRefused) {
  ReceiveFlow bytes(kBytes, 16);
  EXPECT_FALSE(bytes.arrived(kBytes / 2 + 1));
  EXPECT_FALSE(bytes.arrived(0));
  EXPECT_TRUE(bytes.arrived(kBytes / 2));
  EXPECT_FALSE(bytes.arrived(1));
  ASSERT_TRUE(bytes.grant().half_offset);
  EXPECT_TRUE(bytes.arrived(1));

  ReceiveFlow messages(kBytes, 4);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(messages.arrived(1));
  EXPECT_FALSE(messages.arrived(1));
  EXPECT_FALSE(messages.mapping_arrived());
}

}  // namespace
}  // namespace verbena::rsocket
