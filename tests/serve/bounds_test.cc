// SPDX-License-Identifier: Apache-2.0
// What one client may hold of the server, so that others find enough.
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "flipping_fabric.h"
#include "served_store.h"

namespace verbena::client {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kPiece = size_t{4} << 20;

// A client whose memory is slow to read: the server waits for the data of its writes.
class SlowClient {
 public:
  SlowClient(const ServedStore& served, const std::string& name, size_t writes)
      : data_(kPiece, 5), client_(served.connect({.timeout = 600 * kSecond})) {
    EXPECT_TRUE(client_->create(name));
    const std::span<const uint8_t> piece(data_);
    for (size_t i = 0; i < writes; ++i) {
      client_->write_async(
          ObjectRef::by(name), i * kPiece, Client::ConstMemory(&piece, 1), {},
          [this](const Result<Transferred>& result) { ++(result ? good_ : failed_); });
    }
  }
  [[nodiscard]] size_t good() const { return good_; }
  [[nodiscard]] size_t failed() const { return failed_; }
  [[nodiscard]] Client& client() { return *client_; }

 private:
  const Bytes data_;
  std::atomic<size_t> good_{0};
  std::atomic<size_t> failed_{0};
  std::unique_ptr<Client> client_;  // ends before what its requests use
};

// Within a minute.
[[nodiscard]] bool until(const std::function<bool()>& so) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!so()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

TEST(Bounds, SlowClientsLeaveRoomForOthers) {
  serve::Flips flips;
  server::Options options;
  options.transfer_stall = 600 * kSecond;  // they stay slow, however long this takes
  ServedStore served(options, "", {},
                     std::make_unique<serve::FlippingFabric>(test_fabric(), flips));
  // Together they want more than the store has, which is 512 MiB.
  constexpr size_t kWrites = 60;
  flips.hold_reads = true;
  std::vector<std::unique_ptr<SlowClient>> slow;
  for (int i = 0; i < 4; ++i) {
    slow.push_back(std::make_unique<SlowClient>(served, "slow" + std::to_string(i), kWrites));
  }
  // All have come, and hold no more than a quarter of it.
  ASSERT_TRUE(until([&] { return served.requests() == 4 * kWrites; }));
  const uint64_t held = served.store().space().used * store::kDataBytes;
  EXPECT_GE(held, 4 * kPiece);
  EXPECT_LE(held, uint64_t{130} << 20);
  EXPECT_GT(served.counter(server::Counter::kWaited), 4 * kWrites / 2);
  flips.hold_reads = false;

  const auto client = served.connect({.timeout = 120 * kSecond});
  ASSERT_TRUE(client);
  const auto object = client->create("others");
  ASSERT_TRUE(object);
  const Bytes data = random_bytes(kPiece, 1);
  for (size_t i = 0; i < 50; ++i) {
    const auto written = client->write(ObjectRef::by(*object), i * kPiece, data);
    ASSERT_TRUE(written) << i << ": " << written.error().what;
  }
  // They go, and leave nothing.
  flips.hold_reads = true;
  slow.clear();
  ASSERT_TRUE(until([&] { return served.requests() == 0; }));
  EXPECT_LE(served.store().space().used, 50 * kPiece / store::kDataBytes + 100);
  EXPECT_EQ(client->reconnects(), 0U);
}

// Those that wait are done when there is room, each once.
TEST(Bounds, WhatWaitsIsDone) {
  serve::Flips flips;
  ServedStore served({}, "", {}, std::make_unique<serve::FlippingFabric>(test_fabric(), flips));
  constexpr size_t kWrites = 40;
  SlowClient one(served, "one", kWrites);
  SlowClient two(served, "two", kWrites);
  EXPECT_TRUE(until([&] { return one.good() + two.good() == 2 * kWrites; }));
  EXPECT_EQ(one.failed() + two.failed(), 0U);
  Bytes back(kPiece);
  for (const char* const name : {"one", "two"}) {
    ASSERT_TRUE(one.client().read(ObjectRef::by(name), (kWrites - 1) * kPiece, back));
    EXPECT_TRUE(back == Bytes(kPiece, 5));
  }
}

// A connection over which nothing moves is ended; the client makes another, and goes on.
TEST(Bounds, AConnectionThatIsStuckEnds) {
  serve::Flips flips;
  server::Options options;
  options.transfer_stall = 200 * kMillisecond;
  ServedStore served(options, "", {},
                     std::make_unique<serve::FlippingFabric>(test_fabric(), flips));
  flips.hold_reads = true;
  constexpr size_t kWrites = 20;
  SlowClient slow(served, "slow", kWrites);
  EXPECT_TRUE(until([&] { return slow.client().reconnects() > 0; }));
  EXPECT_GT(served.counter(server::Counter::kStalled), 0U);
  flips.hold_reads = false;
  EXPECT_TRUE(until([&] { return slow.good() == kWrites; }));
  EXPECT_EQ(slow.failed(), 0U);
}

}  // namespace
}  // namespace verbena::client
