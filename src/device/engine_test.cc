// SPDX-License-Identifier: Apache-2.0
#include "device/engine.h"

#include <atomic>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

namespace verbena::device {
namespace {

struct NoRouter final : EventRouter {
  void on_qp_event(transport::Event, Qpn) override {}
  void on_srq_event(transport::Event, SrqId) override {}
  void on_cq_overflow(CompletionQueue&) override {}
  void on_addresses_changed() override {}
  [[nodiscard]] CompletionMarks completions_of(Qpn) override { return {}; }
  [[nodiscard]] bool were_polled(Qpn, const CompletionMarks&) override { return true; }
  [[nodiscard]] bool has_unread_event(Qpn) override { return false; }
  [[nodiscard]] transport::Path path_between(const wire::Gid& source,
                                             const wire::Gid& destination) override {
    return {.source = source, .destination = destination};
  }
};

[[nodiscard]] long threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

[[nodiscard]] EngineOptions options_of_test() {
  EngineOptions options;
  options.host.udp.port = static_cast<uint16_t>(32'100 + ::getpid() % 600);
  options.host.group = "vengine" + std::to_string(::getpid());
  return options;
}

// Its owner is told of nothing by another thread before it says that it is ready to be.
TEST(Engine, HasNoThreadBeforeItIsToldTo) {
  const EngineOptions options = options_of_test();
  NoRouter router;
  const long before = threads();
  auto engine = Engine::make(options, router);
  ASSERT_TRUE(engine) << engine.error().what;
  EXPECT_EQ(threads(), before);
  ASSERT_TRUE((*engine)->start_helper());
  EXPECT_EQ(threads(), before + 1);
  engine->reset();
  EXPECT_EQ(threads(), before);
  // And one that never was started is taken down.
  auto unused = Engine::make(options, router);
  ASSERT_TRUE(unused) << unused.error().what;
}

// When the process exits, another thread may be off its core with the lock.
TEST(Engine, ShutsDownWhenTheLockIsFreeAgain) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("vengine-counters-" + std::to_string(::getpid()));
  EngineOptions options = options_of_test();
  options.counters_file = file;
  NoRouter router;
  auto engine = Engine::make(options, router);
  ASSERT_TRUE(engine) << engine.error().what;
  std::atomic<bool> held = false;
  std::thread other([&] {
    const Engine::Quiet quiet(**engine);
    held = true;
    ::usleep(20'000);
  });
  while (!held) ::usleep(100);
  (*engine)->shut_down(60 * kSecond);
  other.join();
  EXPECT_TRUE(std::filesystem::exists(file)) << "it did not wait";
  std::filesystem::remove(file);
}

// Nor does it come out of a thread that exits from a signal handler.
TEST(Engine, ShutsDownNotIfTheLockIsHeldForEver) {
  NoRouter router;
  auto engine = Engine::make(options_of_test(), router);
  ASSERT_TRUE(engine) << engine.error().what;
  std::atomic<bool> held = false;
  std::atomic<bool> done = false;
  std::thread other([&] {
    const Engine::Quiet quiet(**engine);
    held = true;
    while (!done) ::usleep(100);
  });
  while (!held) ::usleep(100);
  (*engine)->shut_down(kMillisecond);
  done = true;
  other.join();
}

}  // namespace
}  // namespace verbena::device
