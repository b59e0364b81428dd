// SPDX-License-Identifier: Apache-2.0
// Whether a peer is still there, with the time given. With processes that end: tests/processes.
#include "device/peer_watch.h"

#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "link/numbers.h"
#include "link/shared_table.h"
#include "transport/endpoint_test_fixture.h"

namespace verbena::device {
namespace {

using transport::Counter;
using transport::SendOp;

// A link that knows which members there are, and nothing else.
class KnownMembers final : public link::Link {
 public:
  uint32_t incarnation = 0;  // of whoever is asked about

  [[nodiscard]] uint32_t incarnation_of(const wire::Gid& /*address*/, Qpn /*qpn*/) override {
    return incarnation;
  }

  void send(const transport::OutPacket& /*packet*/) override {}
  [[nodiscard]] bool has_room() const override { return true; }
  [[nodiscard]] std::span<uint8_t> staging() override { return {}; }
  void show() override {}
  void flush() override {}
  [[nodiscard]] bool room_again() override { return false; }
  void finish() override {}
  void send_management(const transport::OutPacket& /*packet*/) override {}
  [[nodiscard]] size_t receive(link::Look /*look*/, Time /*now*/) override { return 0; }
  [[nodiscard]] size_t receive_ready(link::ReadyFds /*ready*/, Time /*now*/) override { return 0; }
  [[nodiscard]] bool may_have_left() const override { return false; }
  [[nodiscard]] bool is_quiet() const override { return true; }
  [[nodiscard]] bool expects_more() const override { return false; }
  void expect_from(const wire::Gid& /*peer*/) override {}
  void expect_from_anybody() override {}
  [[nodiscard]] std::span<const int> receive_fds() const override { return {}; }
  [[nodiscard]] bool prepare_sleep() override { return true; }
  void woke(link::ReadyFds /*ready*/) override {}
  [[nodiscard]] int control_fd() const override { return -1; }
  void on_ready(Time /*now*/, bool /*readable*/) override {}
  void set_polling(bool /*polling*/) override {}
  [[nodiscard]] Time next_timer() const override { return kNever; }
  void on_timer(Time /*now*/) override {}
  [[nodiscard]] uint8_t slot() const override { return 1; }
  [[nodiscard]] Qpn first_qpn() const override { return link::first_qpn_of(1); }
  [[nodiscard]] uint16_t port() const override { return 0; }
  [[nodiscard]] const std::string& this_host_only() const override { return none_; }
  [[nodiscard]] uint32_t address_changes() const override { return 0; }
  [[nodiscard]] int add_port(const link::Port& /*port*/, link::Ports::Kind /*kind*/) override {
    return 0;
  }
  void remove_port(const link::Port& /*port*/, link::Ports::Kind /*kind*/) override {}
  [[nodiscard]] int join_group(const wire::Gid& /*group*/) override { return 0; }
  void leave_group(const wire::Gid& /*group*/) override {}
  [[nodiscard]] uint32_t receive_room() const override { return 0; }
  [[nodiscard]] uint32_t receive_buffer() const override { return 0; }
  [[nodiscard]] uint32_t receive_buffer_wanted() const override { return 0; }
  [[nodiscard]] const std::string& name_held() const override { return none_; }
  [[nodiscard]] link::MemberCounters& shown_counters() override { return counters_; }
  void set_taps(link::TransmitTap* /*transmit*/, link::ReceiveFilter* /*receive*/) override {}
  [[nodiscard]] const link::TransmitCounters& transmit_counters() const override { return sent_; }
  [[nodiscard]] const link::ReceiveCounters& receive_counters() const override { return got_; }
  [[nodiscard]] const link::IntakeCounters& intake_counters() const override { return taken_; }
  void before_fork() override {}
  void after_fork_in_parent() override {}
  void abandon_in_child() override {}

 private:
  const std::string none_;
  link::MemberCounters counters_{};
  link::TransmitCounters sent_;
  link::ReceiveCounters got_;
  link::IntakeCounters taken_;
};

class PeerWatchTest : public transport::testing::EndpointTest {
 protected:
  static constexpr cm::CommId kId{7};
  static constexpr PeerWatchOptions kOptions{};  // those of a program

  PeerWatchTest() { connect(); }

  // Ticks when it wants to, for so long; gives those that are gone.
  std::vector<cm::CommId> watch_for(Duration duration) {
    std::vector<cm::CommId> gone;
    const Time until = now_ + duration;
    while (watch_.next_tick() <= until) {
      now_ = watch_.next_tick();
      const auto now_gone = watch_.tick(now_);
      gone.insert(gone.end(), now_gone.begin(), now_gone.end());
    }
    now_ = until;
    return gone;
  }
  [[nodiscard]] static std::vector<cm::CommId> nobody() { return {}; }
  [[nodiscard]] static std::vector<cm::CommId> the_one() { return {kId}; }
  // The peer's answer to what it is asked with.
  void answer() { ack(0xffffff); }

  KnownMembers members_;
  PeerWatch watch_{*endpoint_, members_, kOptions};
};

TEST_F(PeerWatchTest, OneElsewhereIsAskedWhenItIsSilentAndIsGoneWhenItDoesNotAnswer) {
  EXPECT_EQ(watch_.next_tick(), kNever);
  watch_.add(kId, kQpn, now_);
  EXPECT_EQ(watch_.next_tick(), now_ + kOptions.tick);
  EXPECT_EQ(watch_for(kOptions.idle - 1), nobody());
  EXPECT_EQ(count(Counter::kPing), 0u);
  EXPECT_EQ(watch_for(kOptions.patience), nobody());
  EXPECT_EQ(count(Counter::kPing), static_cast<uint64_t>(kOptions.patience / kOptions.tick));
  EXPECT_EQ(watch_.qpn_of(kId), kQpn);
  EXPECT_EQ(watch_for(1), the_one());
  EXPECT_EQ(watch_.qpn_of(kId), Qpn(0));
  EXPECT_EQ(watch_.next_tick(), kNever);
}

TEST_F(PeerWatchTest, OneThatAnswersStaysHoweverLongBothAreSilent) {
  watch_.add(kId, kQpn, now_);
  uint64_t asked = 0;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(watch_for(kOptions.idle - 1), nobody());
    EXPECT_EQ(count(Counter::kPing), asked) << "it was just heard";
    EXPECT_EQ(watch_for(kOptions.patience), nobody());
    EXPECT_NE(count(Counter::kPing), asked);
    answer();
    asked = count(Counter::kPing);
  }
}

// Retries decide whether a request fails.
TEST_F(PeerWatchTest, WhoHasRequestsUnderWayDoesNotAsk) {
  watch_.add(kId, kQpn, now_);
  send(SendOp::kSend, 1, 10);
  EXPECT_EQ(watch_for(10 * (kOptions.idle + kOptions.patience)), nobody());
  EXPECT_EQ(count(Counter::kPing), 0u);
}

TEST_F(PeerWatchTest, OneOfThisHostIsLookedUpAtEachTick) {
  members_.incarnation = 5;
  watch_.add(kId, kQpn, now_);
  EXPECT_EQ(watch_for(10 * (kOptions.idle + kOptions.patience)), nobody());
  EXPECT_EQ(count(Counter::kPing), 0u);
  members_.incarnation = 7;  // somebody else, in its slot
  EXPECT_EQ(watch_for(kOptions.tick), the_one());
}

TEST_F(PeerWatchTest, OneThatDiedBeforeTheQueuePairWasReadyIsGone) {
  watch_.add_member(kId, transport::testing::kThere, link::first_qpn_of(3), now_);
  EXPECT_EQ(watch_.next_tick(), kNever) << "it is elsewhere";
  members_.incarnation = 5;
  watch_.add_member(kId, transport::testing::kThere, link::first_qpn_of(3), now_);
  EXPECT_EQ(watch_for(kOptions.tick), nobody());
  members_.incarnation = 0;
  watch_.add(kId, kQpn, now_);
  EXPECT_EQ(watch_for(kOptions.tick), the_one());
}

TEST_F(PeerWatchTest, NobodyIsToldOfOneThatIsNotWatchedOrHasNoQueuePairAnyMore) {
  members_.incarnation = 5;
  watch_.add(kId, kQpn, now_);
  watch_.remove(kId);
  EXPECT_EQ(watch_.next_tick(), kNever);
  watch_.add(kId, kQpn, now_);
  ASSERT_TRUE(endpoint_->destroy_qp(kQpn).has_value());
  members_.incarnation = 0;
  EXPECT_EQ(watch_for(kOptions.tick), nobody());
  EXPECT_EQ(watch_.next_tick(), kNever);
}

}  // namespace
}  // namespace verbena::device
