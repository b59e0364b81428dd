// SPDX-License-Identifier: Apache-2.0
#include "device/engine.h"

#include <atomic>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "transport/posting.h"

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

// A datagram queue pair that can send, unsignalled and inline.
struct Datagrams {
  explicit Datagrams(Engine& with) : engine(with), cq(with, 16, nullptr, {}) {
    using transport::QpState;
    const Engine::Quiet quiet(engine);
    transport::Endpoint& endpoint = quiet.endpoint();
    qpn = *endpoint.create_qp({.type = transport::QpType::kUd,
                               .send_cq = &cq,
                               .recv_cq = &cq,
                               .send = {.max_entries = 4, .max_sge = 1, .max_inline = 64}});
    const auto change = [&](QpState state, uint32_t mask) {
      transport::QpAttr attr{.port = 1};
      attr.state = state;
      EXPECT_TRUE(endpoint.modify_qp(qpn, attr, transport::kAttrState | mask, Engine::clock()));
    };
    change(QpState::kInit, transport::kAttrPkeyIndex | transport::kAttrPort | transport::kAttrQkey);
    change(QpState::kRtr, 0);
    change(QpState::kRts, transport::kAttrSqPsn);
  }
  ~Datagrams() {
    const Engine::Locked locked(engine);
    EXPECT_TRUE(locked.endpoint().destroy_qp(qpn));
    engine.forget(cq);
  }
  Datagrams(const Datagrams&) = delete;
  Datagrams& operator=(const Datagrams&) = delete;

  // As a thread does that finds the lock taken, but for the bell.
  void post_aside() {
    const Engine::Quiet quiet(engine);
    const uint64_t bytes = 7;
    const memory::Sge sge{.addr = reinterpret_cast<uintptr_t>(&bytes), .length = sizeof bytes};
    const wire::Gid here = wire::Gid::from_ipv4(127, 0, 0, 1);
    transport::QueuePair& qp = *quiet.endpoint().queue_pair(qpn);
    EXPECT_TRUE(transport::posting::append(
        qp,
        transport::SendRequest{.flags = transport::kInline,
                               .list = {&sge, 1},
                               .path = {.source = here, .destination = here},
                               .remote_qpn = Qpn(uint32_t{engine.slot()} << 16 | 5)},
        4096));
    quiet.endpoint().doorbells().ring(qp);
  }
  [[nodiscard]] uint64_t sent() const {
    const Engine::Quiet quiet(engine);
    return engine.link().transmit_counters().sends;
  }

  Engine& engine;
  CompletionQueue cq;
  Qpn qpn;
};

// Who has the lock for something that sends nothing sends what he finds posted all the same.
TEST(Engine, SendsWhatWasPostedAsideBeforeAQuietChangeEnds) {
  EngineOptions options = options_of_test();
  options.link = link::LinkKind::kUdp;
  NoRouter router;
  auto engine = Engine::make(options, router);
  ASSERT_TRUE(engine) << engine.error().what;
  Datagrams datagrams(**engine);
  datagrams.post_aside();
  { const Engine::Quiet quiet(**engine); }
  EXPECT_EQ(datagrams.sent(), 1u);
}

// Their place is filled again while what lay there waits to be flushed.
TEST(EngineDeathTest, HasNoInlineDataThatTheLinkDoesNotCopy) {
  EngineOptions options = options_of_test();
  options.limits.max_inline = 1025;
  NoRouter router;
  EXPECT_DEATH((void)Engine::make(options, router), "max_inline");
}

}  // namespace
}  // namespace verbena::device
