// SPDX-License-Identifier: Apache-2.0
// Memory of requests that are given up or repeated, and clients that take no answers: nothing is
// written to memory after its owner was told that it is free.
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "base/endian.h"
#include "flipping_fabric.h"
#include "serve/worker.h"
#include "served_store.h"

namespace verbena::client {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kBytes = 1'000'000;

class Fences : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto client = served_.connect({.timeout = 120 * kSecond});
    ASSERT_TRUE(client);
    ASSERT_TRUE(client->create("data"));
    ASSERT_TRUE(client->write(ObjectRef::by("data"), 0, Bytes(kBytes, 7)));
  }
  // The server goes on with what it has begun.
  void let_the_server_write() {
    flips_.hold_writes = false;
    // It has done all it could when a request of somebody else is answered.
    const auto other = served_.connect({.timeout = 120 * kSecond});
    ASSERT_TRUE(other);
    Bytes back(kBytes);
    ASSERT_TRUE(other->read(ObjectRef::by("data"), 0, back));
    EXPECT_TRUE(back == Bytes(kBytes, 7));
  }

  serve::Flips flips_;
  ServedStore served_{[] {
                        server::Options options;
                        options.stall = 100 * kMillisecond;
                        return options;
                      }(),
                      "",
                      {},
                      std::make_unique<serve::FlippingFabric>(test_fabric(), flips_)};
};

TEST_F(Fences, AReadThatTimedOut) {
  const auto client = served_.connect({.timeout = 3 * kSecond});
  ASSERT_TRUE(client);
  flips_.hold_writes = true;
  Bytes memory(kBytes, 1);
  const auto read = client->read(ObjectRef::by("data"), 0, memory);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kUnreachable) << read.error().what;
  // It is ours again.
  std::ranges::fill(memory, uint8_t{2});
  let_the_server_write();
  EXPECT_TRUE(memory == Bytes(kBytes, 2));
  EXPECT_TRUE(client->ping());
}

TEST_F(Fences, AClientThatWasClosed) {
  auto client = served_.connect({.timeout = 120 * kSecond});
  ASSERT_TRUE(client);
  flips_.hold_writes = true;
  Bytes memory(kBytes, 1);
  const std::span<uint8_t> piece(memory);
  bool failed = false;
  client->read_async(ObjectRef::by("data"), 0, Client::Memory(&piece, 1), {},
                     [&](const Result<Transferred>& result) { failed = !result; });
  client.reset();
  EXPECT_TRUE(failed);
  std::ranges::fill(memory, uint8_t{2});
  let_the_server_write();
  EXPECT_TRUE(memory == Bytes(kBytes, 2));
}

// The data of a read arrives, its answer does not, and the object is shorter when the read is
// repeated: as when a server is killed, and the next one has lost what was not flushed.
TEST_F(Fences, ARepeatedReadOfLess) {
  serve::Flips mine;
  const auto client = served_.connect({.timeout = 120 * kSecond},
                                      std::make_unique<serve::FlippingFabric>(test_fabric(), mine));
  ASSERT_TRUE(client);
  const auto object = client->stat(ObjectRef::by("data"));
  ASSERT_TRUE(object);
  for (const uint64_t left : {uint64_t{500'000}, uint64_t{0}}) {
    const uint64_t before = client->reconnects();
    bool lost = false;
    mine.received = [&](std::span<uint8_t> message) {
      constexpr auto kAnswer = static_cast<uint64_t>(protocol::IoResponse::kType);
      if (load_be64(message.data()) != kAnswer || std::exchange(lost, true)) return;
      EXPECT_TRUE(served_.store().truncate(object->id, left));
      message[40] ^= 0x02;
    };
    const auto bytes = serve::read_blocks(*client, ObjectRef::by("data"), kBytes, 0, 1);
    mine.received = nullptr;
    ASSERT_TRUE(bytes) << bytes.error().what;
    EXPECT_TRUE(lost);
    EXPECT_EQ(client->reconnects(), before + 1);
    EXPECT_EQ(std::ranges::count(*bytes, 7), static_cast<ptrdiff_t>(left));
  }
}

// A device may go on using pages that are no longer mapped where they were. Then the data does not
// match its CRC, and the memory must be registered anew.
TEST_F(Fences, MemoryWhoseDataWasSpoiltIsRegisteredAnew) {
  serve::Flips mine;
  const auto client = served_.connect({.timeout = 120 * kSecond},
                                      std::make_unique<serve::FlippingFabric>(test_fabric(), mine));
  ASSERT_TRUE(client);
  const Bytes data(kBytes, 3);
  ASSERT_TRUE(client->write(ObjectRef::by("data"), 0, data));
  ASSERT_TRUE(client->write(ObjectRef::by("data"), 0, data));
  EXPECT_EQ(mine.registered, 1);
  bool spoil = true;
  flips_.read = [&](std::span<const fabric::Local> parts) {
    if (std::exchange(spoil, false)) parts.back().memory[1] ^= 1;
  };
  ASSERT_TRUE(client->write(ObjectRef::by("data"), 0, data));
  EXPECT_EQ(client->repeated(), 1U);
  EXPECT_EQ(mine.registered, 2);
}

// The handshake ends with a message. A client that has no requests yet must be woken by it:
// otherwise it is noticed only when it looks, every 100 ms.
TEST_F(Fences, AClientThatConnectsIsWokenByMessages) {
  serve::Flips mine;
  const auto client =
      served_.connect({}, std::make_unique<serve::FlippingFabric>(test_fabric(), mine));
  ASSERT_TRUE(client);
  EXPECT_GT(mine.armed, 0);
}

// It is ended, and comes back.
TEST_F(Fences, AClientThatTakesNoAnswers) {
  const auto client = served_.connect({.timeout = 120 * kSecond});
  ASSERT_TRUE(client);
  flips_.no_room = true;
  std::thread asks([&] { EXPECT_TRUE(client->ping()); });
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (served_.counter(server::Counter::kStalled) == 0 &&
         std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_GT(served_.counter(server::Counter::kStalled), 0U);
  flips_.no_room = false;
  asks.join();
  EXPECT_GT(client->reconnects(), 0U);
}

}  // namespace
}  // namespace verbena::client
