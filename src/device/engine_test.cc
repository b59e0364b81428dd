// SPDX-License-Identifier: Apache-2.0
#include "device/engine.h"

#include <filesystem>
#include <iterator>

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

// Its owner is told of nothing by another thread before it says that it is ready to be.
TEST(Engine, HasNoThreadBeforeItIsToldTo) {
  EngineOptions options;
  options.host.udp.port = static_cast<uint16_t>(32'100 + ::getpid() % 600);
  options.host.group = "vengine" + std::to_string(::getpid());
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

}  // namespace
}  // namespace verbena::device
