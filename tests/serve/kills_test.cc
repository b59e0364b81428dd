// SPDX-License-Identifier: Apache-2.0
// Clients and servers that are killed in the midst of their work. VERBENA_SERVE_KILLS: how many
// clients (40), and VERBENA_SERVE_RESTARTS: how often the server (3). VERBENA_SERVE_SEED: the seed.
#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "base/random.h"
#include "medium/testing.h"
#include "serve/hands.h"
#include "serve/settings.h"
#include "serve/target.h"
#include "serve/worker.h"

namespace verbena::serve {
namespace {

using client::Client;
using client::ObjectInfo;
using client::ObjectRef;

// Directories are those of other tests.
std::set<std::string> shared_memory_files() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    std::error_code gone;
    if (entry.is_regular_file(gone)) names.insert(entry.path().filename());
  }
  return names;
}

std::vector<ObjectInfo> all_objects(Client& client) {
  std::vector<ObjectInfo> all;
  for (bool more = true; more;) {
    auto page = client.list(all.empty() ? nullptr : &all.back());
    EXPECT_TRUE(page) << page.error().what;
    if (!page) break;
    more = page->more;
    all.insert(all.end(), page->objects.begin(), page->objects.end());
  }
  return all;
}

class Kills : public ::testing::Test, protected Hands {
 protected:
  static constexpr size_t kHands = 4;
  static constexpr uint64_t kSteps = VERBENA_SERVE_FEWER ? 10 : 50;

  const std::set<std::string> shared_before_ = shared_memory_files();
};

// What the dead have left: whole writes. It goes.
void clear_up(Client& client, const std::string& name) {
  for (const ObjectInfo& object : all_objects(client)) {
    if (!object.name.starts_with(name + "-")) continue;
    EXPECT_EQ(what_is_mixed(client, object), "");
    const auto removed = client.remove(ObjectRef::by(object.id));
    EXPECT_TRUE(removed) << removed.error().what;
  }
}

TEST_F(Kills, OfClientsLeaveNothingBehind) {
  SCOPED_TRACE(testing::Message() << "VERBENA_SERVE_SEED=" << seed_);
  const medium::TemporaryFolder folder;
  Target target = Target::start(folder.path() / "store");
  ASSERT_TRUE(target.ready());
  const uint64_t used_before = target.ask("scrub")["used"];
  auto client = target.connect();
  ASSERT_TRUE(client);
  ASSERT_TRUE(Worker::make_shared(*client));
  // This one is never killed, and sees no error.
  Worker survivor(*client, "survivor", random_.next(), false);
  ASSERT_TRUE(survivor.begin());

  const uint64_t kills = setting("VERBENA_SERVE_KILLS", VERBENA_SERVE_FEWER ? 8 : 40);
  std::array<Hand, kHands> hands;
  const auto fate = [&] { return random_.next() % 4 == 0 ? 0 : 1 + random_.next() % kSteps; };
  for (Hand& hand : hands) {
    hire(hand, target, false);
    hand.fate = fate();
  }
  uint64_t steps = 0;
  for (uint64_t killed = 0; killed < kills;) {
    ASSERT_TRUE(survivor.step());
    // Some die while they come.
    const auto early = std::ranges::find(hands, 0U, &Hand::fate);
    if (early == hands.end()) {
      ASSERT_TRUE(listen(hands)) << "a client has ended by itself";
    }
    for (Hand& hand : hands) {
      if (hand.steps < hand.fate) continue;
      const uint64_t delay = random_.next() % (hand.fate == 0 ? 150'000 : 3'000);
      std::this_thread::sleep_for(std::chrono::microseconds(delay));
      hand.process.signal(SIGKILL);
      ASSERT_EQ(hand.process.wait(), -SIGKILL) << hand.name << " has seen something wrong";
      steps += hand.steps;
      clear_up(*client, hand.name);
      hire(hand, target, false);
      hand.fate = fate();
      if (++killed == kills) break;
    }
  }
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(survivor.step());
  dismiss(hands);
  EXPECT_EQ(client->reconnects(), 0U);
  client.reset();

  auto status = target.when_idle();
  EXPECT_EQ(status["sessions"], 0U);
  EXPECT_EQ(status["requests"], 0U);
  EXPECT_EQ(status["ranges"], 0U);
  EXPECT_EQ(status["bad"], 0U);
  std::cout << kills << " clients killed in " << status["begun"] << " sessions, after " << steps
            << " steps, " << status["admitted"] << " requests\n";
  // No chunk is held for anybody, and none is lost.
  auto space = target.space_at_rest();
  EXPECT_EQ(space["used"], space["live"]);
  EXPECT_EQ(space["damaged"], 0U);
  client = target.connect();
  ASSERT_TRUE(client);
  for (const ObjectInfo& object : all_objects(*client)) {
    EXPECT_EQ(what_is_mixed(*client, object), "");
    EXPECT_TRUE(client->remove(ObjectRef::by(object.id)));
  }
  EXPECT_TRUE(client->flush());
  client.reset();
  EXPECT_EQ(target.space_at_rest()["used"], used_before);
  EXPECT_EQ(target.stop(), 0);
  EXPECT_EQ(shared_memory_files(), shared_before_);
}

// The server, with its files.
TEST_F(Kills, OfTheServerLoseNothingThatWasFlushed) {
  SCOPED_TRACE(testing::Message() << "VERBENA_SERVE_SEED=" << seed_);
  const medium::TemporaryFolder folder;
  const std::string data = folder.path() / "store";
  const auto serve = [&](uint16_t port) {
    const std::string at = "127.0.0.1:" + std::to_string(port);
#ifdef VERBENA_COMMAND
    return std::make_unique<Target>(
        std::vector<std::string>{VERBENA_COMMAND, "serve", "--data", data, "--listen", at});
#else
    return std::make_unique<Target>(std::vector<std::string>{VERBENA_SERVE_TARGET, at, data});
#endif
  };
  auto target = serve(0);
  ASSERT_TRUE(target->ready());
  const uint16_t port = target->port();
  auto client = target->connect();
  ASSERT_TRUE(client);
  ASSERT_TRUE(Worker::make_shared(*client));
  ASSERT_TRUE(client->flush());
  std::array<Hand, 3> hands;
  for (Hand& hand : hands) hire(hand, *target, true);
  const auto all_go_on = [&](uint64_t steps) {
    for (Hand& hand : hands) hand.steps = 0;
    while (std::ranges::any_of(hands, [&](const Hand& hand) { return hand.steps < steps; })) {
      ASSERT_TRUE(listen(hands)) << "a client has ended";
    }
  };
  const uint64_t restarts = setting("VERBENA_SERVE_RESTARTS", VERBENA_SERVE_FEWER ? 2 : 3);
  for (uint64_t i = 0; i < restarts; ++i) {
    ASSERT_NO_FATAL_FAILURE(all_go_on(1 + random_.next() % kSteps));
    std::this_thread::sleep_for(std::chrono::microseconds(random_.next() % 20'000));
    target->process().signal(SIGKILL);
    ASSERT_EQ(target->process().wait(), -SIGKILL);
    target = serve(port);
    ASSERT_TRUE(target->ready());
    ASSERT_EQ(target->port(), port);
  }
  ASSERT_NO_FATAL_FAILURE(all_go_on(kSteps));
  dismiss(hands);
  for (const ObjectInfo& object : all_objects(*client)) {
    EXPECT_EQ(what_is_mixed(*client, object), "");
  }
  EXPECT_GE(client->reconnects(), 1U);
  client.reset();
  EXPECT_EQ(target->stop(), 0);
  EXPECT_EQ(shared_memory_files(), shared_before_);
}

}  // namespace
}  // namespace verbena::serve
