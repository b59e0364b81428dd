// SPDX-License-Identifier: Apache-2.0
// Clients whose memory is not what they say: out of bounds, of somebody else, gone in the midst of
// it. Their requests fail and have no effect, and others go on.
#include <string>
#include <vector>

#include "base/block_sums.h"
#include "serve/hostile.h"

namespace verbena::serve {
namespace {

using protocol::IoKind;
using protocol::IoRequest;
using protocol::ObjectRef;
using protocol::Segment;

class HostileMemory : public HostileFixture {
 protected:
  static constexpr uint32_t kBytes = 200'000;

  struct Registered {
    Bytes bytes;
    fabric::Key key;
    [[nodiscard]] Segment segment(uint64_t offset, uint32_t length) const {
      return {reinterpret_cast<uint64_t>(bytes.data()) + offset, key.remote, length};
    }
  };
  [[nodiscard]] static Registered add_memory(RawFabric& fabric, size_t bytes, uint8_t fill) {
    Registered made{Bytes(bytes, fill), {}};
    const auto key = fabric.fabric().add_memory(made.bytes.data(), bytes, true);
    EXPECT_TRUE(key) << key.error();
    if (key) made.key = *key;
    return made;
  }
  static uint64_t send(RawClient& client, IoKind kind, std::vector<Segment> segments,
                       uint32_t crc = 0) {
    const uint64_t id = client.next_id();
    IoRequest request{.kind = kind, .id = id, .oldest = 1, .object = ObjectRef::by("target")};
    for (const Segment& segment : segments) {
      request.segments.add(segment);
      request.length += segment.length;
    }
    request.crc = crc;
    EXPECT_TRUE(client.send(client.encode(request)));
    return id;
  }
  // The session ends, for writes and for reads.
  void expect_ends(const std::vector<Segment>& segments) {
    for (const IoKind kind : {IoKind::kWrite, IoKind::kRead}) {
      auto client = raw();
      ASSERT_TRUE(client.open());
      send(client, kind, segments);
      EXPECT_TRUE(client.ended_by_server());
    }
  }
  // Nobody has written to it.
  void expect_target_unchanged() {
    const auto client = target_.connect();
    ASSERT_TRUE(client);
    Bytes back(kBytes + 1);
    const auto read = client->read(ObjectRef::by("target"), 0, back);
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_EQ(read->bytes, kBytes);
    back.resize(kBytes);
    EXPECT_TRUE(back == Bytes(kBytes, 7));
  }
};

TEST_F(HostileMemory, OutOfBounds) {
  GoodClient good(target_, random_.next());
  Registered memory = add_memory(fabric_, kBytes, 9);
  expect_ends({memory.segment(1, kBytes)});
  expect_ends({memory.segment(kBytes, kBytes)});
  expect_ends({memory.segment(kBytes - 1, 2), memory.segment(0, 100'000)});
  expect_ends({memory.segment(0, 100'000), memory.segment(kBytes - 1, 2)});
  expect_ends({{reinterpret_cast<uint64_t>(memory.bytes.data()) - 1, memory.key.remote, kBytes}});
  expect_ends({{UINT64_MAX - kBytes, memory.key.remote, kBytes}});
  expect_ends({{0, memory.key.remote, kBytes}});
  good.finish();
  expect_target_unchanged();
  fabric_.fabric().remove_memory(memory.key);
}

TEST_F(HostileMemory, KeysOfOthers) {
  GoodClient good(target_, random_.next());
  // Of another protection domain, in this process; none; a guess; one that was.
  RawFabric others({.message_bytes = 64 * 1024, .receives = 64});
  Registered memory = add_memory(others, kBytes, 9);
  expect_ends({memory.segment(0, kBytes)});
  expect_ends({{memory.segment(0, 1).address, 0, kBytes}});
  expect_ends({{memory.segment(0, 1).address, static_cast<uint32_t>(random_.next()), kBytes}});
  Registered mine = add_memory(fabric_, kBytes, 9);
  fabric_.fabric().remove_memory(mine.key);
  expect_ends({mine.segment(0, kBytes)});
  EXPECT_TRUE(memory.bytes == Bytes(kBytes, 9));
  EXPECT_TRUE(mine.bytes == Bytes(kBytes, 9));
  good.finish();
  expect_target_unchanged();
  others.fabric().remove_memory(memory.key);
}

// While the server reads or writes it: the request is done, or the session ends. Of writes, none
// is done by half.
TEST_F(HostileMemory, KeysThatGoMeanwhile) {
  SCOPED_TRACE(testing::Message() << "VERBENA_SERVE_SEED=" << seed_);
  GoodClient good(target_, random_.next());
  constexpr size_t kLarge = size_t{4} << 20;
  constexpr int kRounds = VERBENA_SERVE_FEWER ? 4 : 20;
  {
    const auto client = target_.connect();
    ASSERT_TRUE(client);
    ASSERT_TRUE(client->write(ObjectRef::by("target"), 0, Bytes(kLarge, 7)));
  }
  const uint32_t crc = [] {
    const Bytes nines(kLarge, 9);
    return crc32_finish(crc32_msb_update(kCrc32Start, nines));
  }();
  int ended = 0;
  for (int round = 0; round < kRounds; ++round) {
    auto client = raw();
    ASSERT_TRUE(client.open());
    Registered memory = add_memory(fabric_, kLarge, 9);
    const IoKind kind = round % 2 == 0 ? IoKind::kWrite : IoKind::kRead;
    const uint64_t id =
        send(client, kind, {memory.segment(0, kLarge)}, kind == IoKind::kWrite ? crc : 0);
    for (uint64_t polls = random_.next() % 200; polls > 0; --polls) {
      static_cast<void>(fabric_.fabric().poll(fabric_));
    }
    fabric_.fabric().remove_memory(memory.key);
    // The memory is ours again: nothing may be written to it from now on.
    const Bytes then = memory.bytes;
    const auto status = client.answer_to(id);
    EXPECT_TRUE(!status || *status == protocol::Status::kOk);
    if (!status) ++ended;
    EXPECT_TRUE(memory.bytes == then);
  }
  std::cout << ended << " of " << kRounds << " were in the midst of it\n";
  const auto client = target_.connect();
  ASSERT_TRUE(client);
  Bytes back(kLarge);
  ASSERT_TRUE(client->read(ObjectRef::by("target"), 0, back));
  EXPECT_TRUE(back == Bytes(kLarge, 7) || back == Bytes(kLarge, 9));
  good.finish();
}

}  // namespace
}  // namespace verbena::serve
