// SPDX-License-Identifier: Apache-2.0
// Clients that do not keep to the protocol, beside one that does and sees no error. The server
// counts what it refuses, and neither its memory nor its descriptors grow. VERBENA_SERVE_BAD: how
// many bad messages (1000). VERBENA_SERVE_SEED: the seed.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "serve/attacks.h"
#include "serve/settings.h"
#include "serve/target.h"
#include "serve/worker.h"

namespace verbena::serve {
namespace {

using client::ObjectRef;
using protocol::Fault;

// A client that keeps to the rules, all the time.
class GoodClient {
 public:
  GoodClient(const Target& target, uint64_t seed)
      : client_(target.connect()), worker_(*client_, "good", seed, false) {
    good_ = Worker::make_shared(*client_) && worker_.begin();
    thread_ = std::thread([this] {
      while (good_ && !stop_) {
        const auto begin = std::chrono::steady_clock::now();
        good_ = client_->ping().has_value();
        took_.push_back(std::chrono::steady_clock::now() - begin);
        good_ = good_ && worker_.step();
      }
    });
  }
  ~GoodClient() { finish(); }
  // It has seen no error, nor lost its connection.
  void finish() {
    if (!thread_.joinable()) return;
    stop_ = true;
    thread_.join();
    EXPECT_TRUE(good_);
    EXPECT_EQ(client_->reconnects(), 0U);
    std::ranges::sort(took_);
    const auto at = [&](size_t percent) {
      return std::chrono::duration_cast<std::chrono::microseconds>(
                 took_[(took_.size() - 1) * percent / 100])
          .count();
    };
    if (!took_.empty()) {
      std::cout << "beside it: " << took_.size() << " pings, 50% within " << at(50)
                << " us, 99% within " << at(99) << " us\n";
    }
  }

 private:
  std::unique_ptr<client::Client> client_;
  Worker worker_;
  std::atomic<bool> good_{true};
  std::atomic<bool> stop_{false};
  std::vector<std::chrono::steady_clock::duration> took_;
  std::thread thread_;
};

class Hostile : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(target_.ready());
    const auto client = target_.connect();
    ASSERT_TRUE(client);
    ASSERT_TRUE(client->create("target"));
    ASSERT_TRUE(client->write(ObjectRef::by("target"), 0, Bytes(200'000, 7)));
  }
  void TearDown() override {
    auto status = target_.when_idle();
    EXPECT_EQ(status["sessions"], 0U);
    EXPECT_EQ(status["requests"], 0U);
    EXPECT_EQ(status["ranges"], 0U);
    auto space = target_.ask("scrub");
    EXPECT_EQ(space["used"], space["live"]);
    EXPECT_EQ(target_.stop(), 0);
  }
  [[nodiscard]] RawClient raw() {
    return RawClient(fabric_, target_.host(), target_.port(), random_);
  }
  [[nodiscard]] std::string proc(const char* what) {
    return "/proc/" + std::to_string(target_.process().pid()) + "/" + what;
  }
  [[nodiscard]] size_t descriptors() {
    const std::filesystem::directory_iterator all(proc("fd"));
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }
  [[nodiscard]] size_t resident_bytes() {
    size_t total = 0;
    size_t resident = 0;
    std::ifstream(proc("statm")) >> total >> resident;
    return resident * 4096;
  }
  // Of all its threads, in ns.
  [[nodiscard]] uint64_t cpu() {
    uint64_t sum = 0;
    for (const auto& task : std::filesystem::directory_iterator(proc("task"))) {
      uint64_t ns = 0;
      std::ifstream(task.path() / "schedstat") >> ns;
      sum += ns;
    }
    return sum;
  }
  // The server closes what it does not need any more, within a minute.
  void expect_descriptors(size_t most) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (descriptors() > most && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_LE(descriptors(), most);
  }

  const uint64_t seed_ = setting("VERBENA_SERVE_SEED", std::random_device{}());
  SeededRandom random_{seed_};
  Target target_ = Target::start("-");
  RawFabric fabric_{{.message_bytes = 64 * 1024, .receives = 64, .sends = 512}};
};

// One of them; whether its session is over.
void attack(const Attack& with, RawClient& client, const RawClient& other, RandomSource& random) {
  SCOPED_TRACE(with.name);
  const uint64_t id = with.send(client, other, random);
  if (with.ends) {
    ASSERT_TRUE(client.ended_by_server());
    return;
  }
  const auto status = client.answer_to(id);
  ASSERT_TRUE(status) << "the session has ended";
  EXPECT_NE(*status, protocol::Status::kOk);
}

TEST_F(Hostile, BadMessagesAreRefusedAndCounted) {
  SCOPED_TRACE(testing::Message() << "VERBENA_SERVE_SEED=" << seed_);
  const std::vector<Attack> attacks = all_attacks();
  auto other = raw();
  ASSERT_TRUE(other.open());
  auto client = raw();
  const uint64_t count = setting("VERBENA_SERVE_BAD", VERBENA_SERVE_FEWER ? 200 : 1000);
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
  expect_descriptors(open + 10);
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
  expect_descriptors(open + 10);
}

// Queue pairs that nobody says anything over, and one whose answers nobody takes.
TEST_F(Hostile, TheFabric) {
  GoodClient good(target_, random_.next());
  auto known = raw();
  ASSERT_TRUE(known.open_side());
  ASSERT_TRUE(known.open_fabric());
  const uint16_t port = known.fabric_port();
  std::vector<fabric::ConnectionId> silent;
  for (int i = 0; i < 80; ++i) {
    silent.push_back(fabric_.connect(target_.host(), port));
    const auto id = silent.back();
    ASSERT_TRUE(fabric_.until([&] { return fabric_.connected(id) || fabric_.failed(id); }));
  }
  // The first of them had to make room.
  EXPECT_TRUE(fabric_.until([&] { return fabric_.failed(silent.front()); }));
  EXPECT_GT(target_.ask("status")["evicted_queue_pairs"], 0U);
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

// What it costs the server, beside what a ping does. Only shown.
TEST_F(Hostile, CostsAreShown) {
  const std::vector<Attack> attacks = all_attacks();
  auto other = raw();
  ASSERT_TRUE(other.open());
  auto client = raw();
  const auto show = [&](const char* what, int times, auto each) {
    const uint64_t begin = cpu();
    for (int i = 0; i < times; ++i) each();
    std::cout << "server CPU: " << (cpu() - begin) / 1000 / static_cast<uint64_t>(times) << " us  "
              << what << "\n";
  };
  constexpr int kTimes = VERBENA_SERVE_FEWER ? 50 : 300;
  ASSERT_TRUE(client.open());
  show("a ping", kTimes, [&] {
    const uint64_t id = client.next_id();
    ASSERT_TRUE(client.send(client.encode(protocol::Ping{.id = id, .oldest = 1})));
    ASSERT_EQ(client.answer_to(id), protocol::Status::kOk);
  });
  show("a session, and its end", kTimes, [&] { ASSERT_TRUE(client.open()); });
  for (const Attack& with : attacks) {
    const std::string name = with.name + (with.ends ? ", with a session" : "");
    show(name.c_str(), kTimes / 5, [&] {
      if (client.is_over()) {
        ASSERT_TRUE(client.open());
      }
      ASSERT_NO_FATAL_FAILURE(attack(with, client, other, random_));
    });
    if (client.is_over()) {
      ASSERT_TRUE(client.open());
    }
  }
}

}  // namespace
}  // namespace verbena::serve
