// SPDX-License-Identifier: Apache-2.0
// For tests of clients that do not keep to the protocol: a server in a process of its own, and a
// client beside them that does keep to it, and sees no error.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "serve/raw_client.h"
#include "serve/settings.h"
#include "serve/target.h"
#include "serve/worker.h"

namespace verbena::serve {

// A client that keeps to the rules, all the time.
class GoodClient {
 public:
  GoodClient(const Target& target, uint64_t seed, const std::string& secret = "")
      : client_(target.connect(secret)), worker_(*client_, "good", seed, false) {
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
      EXPECT_LE(static_cast<uint64_t>(at(99)), setting("VERBENA_SERVE_P99_US", UINT64_MAX / 2));
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

class HostileFixture : public ::testing::Test {
 protected:
  explicit HostileFixture(const std::string& secret = "", const std::string& busy_poll_us = "50")
      : secret_(secret), target_(Target::start("-", {secret, busy_poll_us})) {}
  void SetUp() override {
    ASSERT_TRUE(target_.ready());
    const auto client = target_.connect(secret_);
    ASSERT_TRUE(client);
    ASSERT_TRUE(client->create("target"));
    ASSERT_TRUE(client->write(client::ObjectRef::by("target"), 0, Bytes(200'000, 7)));
  }
  void TearDown() override {
    auto status = target_.when_idle();
    EXPECT_EQ(status["sessions"], 0U);
    EXPECT_EQ(status["requests"], 0U);
    EXPECT_EQ(status["ranges"], 0U);
    auto space = target_.space_at_rest();
    EXPECT_EQ(space["used"], space["live"]);
    EXPECT_EQ(target_.stop(), 0);
  }
  [[nodiscard]] RawClient raw() {
    return RawClient(fabric_, target_.host(), target_.port(), random_, secret_);
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
  // Of one client: over libfabric it has an endpoint of its own.
  [[nodiscard]] static size_t descriptors_of_client() {
    return fabric_choice().provider.empty() ? 10 : 40;
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
  const std::string secret_;
  Target target_;
  RawFabric fabric_{{.message_bytes = 64 * 1024, .receives = 64, .sends = 512}};
};

}  // namespace verbena::serve
