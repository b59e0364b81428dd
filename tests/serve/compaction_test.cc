// SPDX-License-Identifier: Apache-2.0
// Files that a server gives back to the file system by itself, while clients are at work, and while
// it is killed. VERBENA_SERVE_COMPACTIONS: how often it is killed (4). VERBENA_SERVE_SEED: the
// seed.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <deque>
#include <filesystem>
#include <iostream>
#include <memory>
#include <system_error>
#include <thread>

#include <gtest/gtest.h>

#include "medium/testing.h"
#include "serve/blocks.h"
#include "serve/hands.h"
#include "serve/target.h"
#include "serve/worker.h"

namespace verbena::serve {
namespace {

using client::Client;
using client::ObjectRef;

constexpr size_t kBallastBytes = size_t{1} << 20;
constexpr uint64_t kBallast = 48;  // objects
constexpr uint64_t kKept = 12;     // every so many stays

class Compaction : public ::testing::Test, protected Hands {
 protected:
  [[nodiscard]] std::unique_ptr<Target> serve(uint16_t port) const {
    return std::make_unique<Target>(
        std::vector<std::string>{VERBENA_SERVE_TARGET, "127.0.0.1:" + std::to_string(port), data_});
  }
  [[nodiscard]] uint64_t file_bytes() const {
    uint64_t sum = 0;
    for (const auto& entry : std::filesystem::directory_iterator(data_)) {
      if (!entry.path().filename().string().starts_with("blocks.")) continue;
      std::error_code gone;  // meanwhile: that is what is waited for
      const auto bytes = entry.file_size(gone);
      if (!gone) sum += bytes;
    }
    return sum;
  }
  static std::string name_of(uint64_t i) { return "ballast-" + std::to_string(i); }
  std::vector<uint8_t> ballast(uint64_t i) const {
    std::vector<uint8_t> bytes(kBallastBytes);
    fill(bytes, (seed_ << 16 | i) & 0xffffffff);
    return bytes;
  }
  void put_ballast(Client& client) {
    for (uint64_t i = 0; i < kBallast; ++i) {
      // They stay: a READ may be answered twice, the second time when the write is done.
      const auto& bytes = put_.emplace_back(ballast(i));
      ASSERT_TRUE(client.create(name_of(i)));
      const auto done = client.write(ObjectRef::by(name_of(i)), 0, bytes);
      ASSERT_TRUE(done) << done.error().what;
    }
    ASSERT_TRUE(client.flush());
  }
  // All but some of it, which lies here and there.
  static void remove_ballast(Client& client) {
    for (uint64_t i = 0; i < kBallast; ++i) {
      if (i % kKept == kKept - 1) continue;
      ASSERT_TRUE(client.remove(ObjectRef::by(name_of(i))));
    }
    ASSERT_TRUE(client.flush());
  }
  // What is left of it.
  void expect_ballast(Client& client) {
    for (uint64_t i = 0; i < kBallast; ++i) {
      if (i % kKept != kKept - 1) continue;
      std::vector<uint8_t> got(kBallastBytes);
      const auto read = client.read(ObjectRef::by(name_of(i)), 0, got);
      ASSERT_TRUE(read) << read.error().what;
      ASSERT_EQ(got, ballast(i)) << name_of(i);
    }
  }
  // Those that are left.
  static void clear_ballast(Client& client) {
    for (uint64_t i = 0; i < kBallast; ++i) {
      static_cast<void>(client.remove(ObjectRef::by(name_of(i))));
    }
    ASSERT_TRUE(client.flush());
  }
  // Files of so many bytes at most, within a minute or two.
  [[nodiscard]] bool shrinks_to(uint64_t bytes) const {
    for (int i = 0; i < 6000; ++i) {
      if (file_bytes() <= bytes) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  // No chunk is held for anybody.
  static void expect_none_lost(Target& target) {
    auto space = target.space_at_rest();
    EXPECT_EQ(space["used"], space["live"]);
    EXPECT_EQ(space["damaged"], 0U);
  }

  const medium::TemporaryFolder folder_;
  const std::string data_ = folder_.path() / "store";
  std::deque<std::vector<uint8_t>> put_;
};

TEST_F(Compaction, FilesShrinkByThemselvesBesideClients) {
  SCOPED_TRACE(testing::Message() << "VERBENA_SERVE_SEED=" << seed_);
  const auto target = serve(0);
  ASSERT_TRUE(target->ready());
  auto client = target->connect();
  ASSERT_TRUE(client);
  ASSERT_TRUE(Worker::make_shared(*client));
  std::array<Hand, 2> hands;
  for (Hand& hand : hands) hire(hand, *target, false);
  for (int round = 0; round < 2; ++round) {
    ASSERT_NO_FATAL_FAILURE(put_ballast(*client));
    const uint64_t full = file_bytes();
    EXPECT_GT(full, kBallast * kBallastBytes);
    ASSERT_TRUE(listen(hands));
    ASSERT_NO_FATAL_FAILURE(remove_ballast(*client));
    EXPECT_TRUE(shrinks_to(full / 2));
    ASSERT_TRUE(listen(hands));
    ASSERT_NO_FATAL_FAILURE(expect_ballast(*client));
    ASSERT_NO_FATAL_FAILURE(clear_ballast(*client));
  }
  dismiss(hands);
  client.reset();
  auto upkeep = target->ask("upkeep");
  // Counted when it is over, which is after the files are gone.
  for (int i = 0; i < 3000 && upkeep["compactions"] < 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    upkeep = target->ask("upkeep");
  }
  EXPECT_GE(upkeep["compactions"], 2U);
  EXPECT_GT(upkeep["returned"], 0U);
  static_cast<void>(target->when_idle());
  expect_none_lost(*target);
  EXPECT_EQ(target->stop(), 0);
}

TEST_F(Compaction, ServersThatAreKilledMeanwhileLoseNothing) {
  SCOPED_TRACE(testing::Message() << "VERBENA_SERVE_SEED=" << seed_);
  auto target = serve(0);
  ASSERT_TRUE(target->ready());
  const uint16_t port = target->port();
  auto client = target->connect();
  ASSERT_TRUE(client);
  ASSERT_TRUE(Worker::make_shared(*client));
  ASSERT_TRUE(client->flush());
  std::array<Hand, 2> hands;
  for (Hand& hand : hands) hire(hand, *target, true);
  const uint64_t kills = setting("VERBENA_SERVE_COMPACTIONS", VERBENA_SERVE_FEWER ? 2 : 4);
  for (uint64_t i = 0; i < kills; ++i) {
    ASSERT_NO_FATAL_FAILURE(put_ballast(*client));
    ASSERT_NO_FATAL_FAILURE(remove_ballast(*client));
    // It looks every 20 ms; most of what it does then takes less than this.
    std::this_thread::sleep_for(std::chrono::microseconds(random_.next() % 120'000));
    target->process().signal(SIGKILL);
    ASSERT_EQ(target->process().wait(), -SIGKILL);
    target = serve(port);
    ASSERT_TRUE(target->ready());
    auto space = target->ask("scrub");
    EXPECT_EQ(space["damaged"], 0U);
    ASSERT_NO_FATAL_FAILURE(expect_ballast(*client));
    ASSERT_NO_FATAL_FAILURE(clear_ballast(*client));
    ASSERT_TRUE(listen(hands)) << "a client has ended";
  }
  dismiss(hands);
  client.reset();
  static_cast<void>(target->when_idle());
  expect_none_lost(*target);
  EXPECT_EQ(target->stop(), 0);
}

}  // namespace
}  // namespace verbena::serve
