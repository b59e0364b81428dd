// SPDX-License-Identifier: Apache-2.0
// Clients that do not keep to the protocol, beside one that does and sees no error. The server
// counts what it refuses, and neither its memory nor its descriptors grow. VERBENA_SERVE_BAD: how
// many bad messages (1000). VERBENA_SERVE_SEED: the seed.
#include "serve/hostile.h"

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>

#include "serve/attacks.h"

namespace verbena::serve {
namespace {

using protocol::Fault;

class Hostile : public HostileFixture {};

TEST_F(Hostile, BadMessagesAreRefusedAndCounted) {
  SCOPED_TRACE(testing::Message() << "VERBENA_SERVE_SEED=" << seed_);
  std::vector<Attack> attacks = all_attacks();
  if (fabric_choice().provider == "shm") {
    // libfabric's shm does not tell that a message is longer than its buffer.
    std::erase_if(attacks, [](const Attack& one) { return one.name == kTooLong; });
  }
  auto other = raw();
  ASSERT_TRUE(other.open());
  const KeptAlive kept(other);
  auto client = raw();
  // shm does not tell that a key is wrong: that takes seconds.
  const uint64_t most = fabric_choice().provider == "shm" ? attacks.size() : 1000;
  const uint64_t count = setting("VERBENA_SERVE_BAD", VERBENA_SERVE_FEWER ? 200 : most);
  std::map<Fault, uint64_t> expected;
  auto before = target_.ask("status");
  size_t resident = 0;
  size_t open = 0;
  GoodClient good(target_, random_.next());
  for (uint64_t i = 0; i < count; ++i) {
    if (client.connection() == 0 || client.is_over()) {
      ASSERT_TRUE(client.open()) << i;
    }
    // First each once, then at random.
    const Attack& with = attacks[i < attacks.size() ? i : random_.next() % attacks.size()];
    ASSERT_NO_FATAL_FAILURE(attack(with, client, other, random_)) << i;
    if (with.fault) ++expected[*with.fault];
    if (i == count / 4) {
      resident = resident_bytes();
      open = descriptors();
    }
  }
  auto after = target_.ask("status");
  for (const auto& [fault, times] : expected) {
    const std::string name = "fault" + std::to_string(static_cast<int>(fault));
    EXPECT_GE(after[name] - before[name], times) << protocol::text_of(fault);
  }
  EXPECT_GT(after["unknown"], before["unknown"]);
  EXPECT_GT(after["failed"], before["failed"]);
  EXPECT_LT(resident_bytes(), resident + (size_t{64} << 20));
  expect_descriptors(open + descriptors_of_client());
  // Nobody else was harmed.
  const uint64_t id = other.next_id();
  ASSERT_TRUE(other.send(other.encode(protocol::Ping{.id = id, .oldest = 1})));
  EXPECT_EQ(other.answer_to(id), protocol::Status::kOk);
  good.finish();
  std::cout << count << " bad messages, " << after["begun"] - before["begun"]
            << " sessions, memory " << resident / 1024 << " KiB, then " << resident_bytes() / 1024
            << " KiB\n";
}

// More requests at once than the window has: the session ends, or all were done in time.
TEST_F(Hostile, BeyondTheWindow) {
  auto client = raw();
  for (int round = 0; round < 10; ++round) {
    ASSERT_TRUE(client.open());
    uint64_t id = 0;
    for (int i = 0; i < 150; ++i) {
      Bytes message = client.encode(protocol::ListRequest{.id = ++id, .oldest = 1});
      ASSERT_TRUE(client.send(message));
    }
    static_cast<void>(client.answer_to(1));
    client.close();
  }
}

TEST_F(Hostile, TheSideChannel) {
  SCOPED_TRACE(testing::Message() << "VERBENA_SERVE_SEED=" << seed_);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const size_t open = descriptors();
  GoodClient good(target_, random_.next());
  // Frames that are none, or not now.
  const Bytes hello = protocol::frame_of(protocol::Hello{});
  Bytes other_magic = hello;
  other_magic[3] ^= 1;
  Bytes other_version = hello;
  other_version[8] = 9;
  const std::vector<Bytes> frames{
      {0, 0},
      {0xff, 0xff, 1},
      {0, 1, 99},
      {0, 2, 1, 0},
      other_magic,
      other_version,
      protocol::frame_of(protocol::Proof{}),
      protocol::frame_of(protocol::SidePing{.cookie = 1}),
      protocol::frame_of(protocol::SidePong{.cookie = 1}),
      protocol::frame_of(protocol::Goodbye{}),
      protocol::frame_of(protocol::Welcome{}),
      protocol::frame_of(protocol::Hello{.features = protocol::kFeatureSecret}),
  };
  for (const Bytes& frame : frames) {
    const UniqueFd side = connect_side(target_.host(), target_.port());
    ASSERT_TRUE(side.valid());
    send_side(side.get(), frame);
    // A GOODBYE, or at once the end.
    if (const auto answer = read_frame(side.get())) {
      EXPECT_EQ(answer->front(), protocol::Goodbye::kType);
      EXPECT_FALSE(read_frame(side.get()));
    }
  }
  for (int i = 0; i < 100; ++i) {
    const UniqueFd side = connect_side(target_.host(), target_.port());
    Bytes garbage(random_.next() % 3000 + 2000);
    for (uint8_t& byte : garbage) byte = static_cast<uint8_t>(random_.next());
    send_side(side.get(), garbage);
  }
  {
    // A second HELLO, in a session.
    auto client = raw();
    ASSERT_TRUE(client.open());
    send_side(client.side(), hello);
    EXPECT_TRUE(client.ended_by_server());
  }
  {
    // Very many that say nothing, and some that stop in the midst of it: the oldest go.
    std::vector<UniqueFd> silent;
    for (int i = 0; i < 1000; ++i) {
      silent.push_back(connect_side(target_.host(), target_.port()));
      ASSERT_TRUE(silent.back().valid());
      if (i % 3 == 0)
        send_side(silent.back().get(), std::span(hello).first(1 + random_.next() % 80));
    }
    // The first was told so.
    const auto answer = read_frame(silent[1].get());
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->front(), protocol::Goodbye::kType);
    // Those that were told to go are closed soon, on a slow machine as well.
    for (int i = 0; i < 3000 && descriptors() >= open + 300; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_LT(descriptors(), open + 300);
    // There is room for others among them.
    EXPECT_TRUE(target_.connect());
  }
  {
    // Sessions without a queue pair.
    std::vector<std::unique_ptr<RawClient>> unbound;
    for (int i = 0; i < 100; ++i) {
      unbound.push_back(
          std::make_unique<RawClient>(fabric_, target_.host(), target_.port(), random_));
      ASSERT_TRUE(unbound.back()->open_side());
    }
    EXPECT_TRUE(target_.connect());
  }
  auto status = target_.ask("status");
  EXPECT_GT(status["evicted"], 900U);
  EXPECT_GT(status["handshakes_failed"], 900U);
  good.finish();
  expect_descriptors(open + descriptors_of_client());
}

// The server has no descriptors left: those who come wait, others go on.
TEST_F(Hostile, NoDescriptors) {
  if (VERBENA_SERVE_FEWER) GTEST_SKIP() << "UBSan makes a pipe to check a pointer";
  GoodClient good(target_, random_.next());
  const auto pid = target_.process().pid();
  rlimit few{};
  ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, nullptr, &few), 0);
  const rlimit many = few;
  few.rlim_cur = descriptors();
  ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, &few, nullptr), 0);
  std::vector<UniqueFd> waiting;
  for (int i = 0; i < 10; ++i) {
    waiting.push_back(connect_side(target_.host(), target_.port()));
    ASSERT_TRUE(waiting.back().valid());
  }
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  uint64_t failed = target_.ask("status")["not_accepted"];
  const auto tenths = (std::chrono::steady_clock::now() - begin) / std::chrono::milliseconds(100);
  EXPECT_GT(failed, 0U);
  EXPECT_LE(failed, static_cast<uint64_t>(tenths) + 2) << "the server does nothing else";
  ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, &many, nullptr), 0);
  EXPECT_TRUE(target_.connect());
  good.finish();
}

// Queue pairs that nobody says anything over, and one whose answers nobody takes.
TEST_F(Hostile, TheFabric) {
  GoodClient good(target_, random_.next());
  auto known = raw();
  ASSERT_TRUE(known.open_side());
  ASSERT_TRUE(known.open_fabric());
  const KeptAlive kept(known);
  const uint16_t port = known.fabric_port();
  std::vector<fabric::ConnectionId> silent;
  for (int i = 0; i < 80; ++i) {
    silent.push_back(fabric_.connect(target_.host(), port));
    const auto id = silent.back();
    ASSERT_TRUE(fabric_.until([&] { return fabric_.connected(id) || fabric_.failed(id); }));
  }
  // The first of them had to make room.
  EXPECT_TRUE(fabric_.until([&] { return fabric_.failed(silent.front()); }));
  // Over libfabric a connection takes longer to make: its time may be over before they are too
  // many.
  if (fabric_choice().provider.empty()) {
    EXPECT_GT(target_.ask("status")["evicted_queue_pairs"], 0U);
  }
  for (const auto id : silent) fabric_.end(id);

  // It has few buffers, and asks for more than they hold; its device answers, it does not.
  RawFabric small({.message_bytes = 36 * 1024, .receives = 8, .sends = 256});
  RawClient mute(small, target_.host(), target_.port(), random_);
  ASSERT_TRUE(mute.open());
  const Bytes data(20'000);
  for (uint64_t id = 1; id <= 60; ++id) {
    ASSERT_TRUE(mute.send(mute.encode(protocol::Ping{.id = id, .oldest = 1, .data = data})));
  }
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (target_.ask("status")["sessions"] > 2 && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  // The good one, and the one that was first.
  EXPECT_EQ(target_.ask("status")["sessions"], 2U);
  good.finish();
}

}  // namespace
}  // namespace verbena::serve
