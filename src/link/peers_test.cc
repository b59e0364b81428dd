// SPDX-License-Identifier: Apache-2.0
// What a member is told about the end of its connections with others.
#include "link/peers.h"

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace verbena::link {
namespace {

constexpr uint8_t kSelf = 1;
constexpr uint8_t kOther = 5;

struct PeersTest : ::testing::Test, PeerEvents {
  void on_peer_gone(uint8_t slot) override { gone.push_back(slot); }
  void on_forwarded(const Datagram&, uint32_t) override {}
  void on_ring(uint8_t, uint32_t, UniqueFd&, UniqueFd&) override {}
  void on_bell(uint8_t, uint32_t, UniqueFd&) override {}
  void on_no_ring(uint8_t) override {}
  void on_woken() override {}

  // Whoever says that it is kOther.
  [[nodiscard]] UniqueFd connected() {
    auto fd = connect_to(names.member(kSelf));
    EXPECT_TRUE(fd && send_message(fd->get(), {PeerMessage::Kind::kHello, kOther}));
    serve();  // lets it in
    serve();  // reads what it says
    return fd ? std::move(*fd) : UniqueFd();
  }
  void serve() {
    std::array<epoll_event, 8> events;
    const int count = ::epoll_wait(epoll.get(), events.data(), events.size(), 0);
    for (int i = 0; i < count; ++i) {
      peers.on_ready(static_cast<uint32_t>(events[static_cast<size_t>(i)].data.u64), *this);
    }
  }

  GroupNames names{"vpeers" + std::to_string(::getpid()), 1};
  UniqueFd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  const std::unique_ptr<SharedTable> table = std::make_unique<SharedTable>();
  Peers peers{names, *table,      kSelf, std::move(*listen_on(names.member(kSelf), 8)),
              -1,    epoll.get(), 0};
  std::vector<uint8_t> gone;
};

TEST_F(PeersTest, AClosedConnectionIsADeath) {
  UniqueFd other = connected();
  other.reset();
  serve();
  EXPECT_EQ(gone, std::vector{kOther});
}

TEST_F(PeersTest, WhoClosesOneOfManyConnectionsSaysSo) {
  UniqueFd other = connected();
  ASSERT_TRUE(send_message(other.get(), {PeerMessage::Kind::kBye, kOther}));
  other.reset();
  serve();
  EXPECT_TRUE(gone.empty());
}

// It does not know that this connection is the one by which we would notice its death.
TEST_F(PeersTest, AWatchedConnectionIsMissed) {
  UniqueFd other = connected();
  ASSERT_TRUE(peers.watch(kOther));
  ASSERT_TRUE(send_message(other.get(), {PeerMessage::Kind::kBye, kOther}));
  other.reset();
  serve();
  EXPECT_EQ(gone, std::vector{kOther});
}

}  // namespace
}  // namespace verbena::link
