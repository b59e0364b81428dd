// SPDX-License-Identifier: Apache-2.0
#include "device/held_disconnects.h"

#include <array>

#include <gtest/gtest.h>

namespace verbena::device {
namespace {

constexpr Time kStart = kSecond;
constexpr Qpn kQpn{7};

class HeldDisconnectsTest : public ::testing::Test {
 protected:
  [[nodiscard]] bool keep(uint32_t id, Qpn qpn = kQpn, const CompletionMarks& marks = {3, 5}) {
    const std::array<uint8_t, 4> data{1, 2, 3, 4};
    return ends_.keep(
        {.kind = cm::EventKind::kDisconnectRequested, .id = cm::CommId(id), .private_data = data},
        qpn, marks, kStart);
  }
  // Those that are told from one moment to another; looks whenever it is asked to.
  [[nodiscard]] std::vector<uint32_t> told(Time until) {
    std::vector<uint32_t> all;
    while (ends_.next_look() <= until) {
      for (const cm::Event& event : ends_.take_due(ends_.next_look())) {
        EXPECT_TRUE(event.private_data.empty());  // it would point to what is gone
        all.push_back(event.id.value);
      }
    }
    return all;
  }

  CompletionMarks polled_;
  HeldDisconnects ends_{[this](Qpn qpn, const CompletionMarks& marks) {
    return qpn != kQpn || (polled_.send >= marks.send && polled_.recv >= marks.recv);
  }};
};

using Ids = std::vector<uint32_t>;

TEST_F(HeldDisconnectsTest, NothingIsHeldWhereAllWasPolledOrNobodyPolls) {
  EXPECT_FALSE(keep(1, Qpn(8)));  // no such queue pair
  polled_ = {3, 5};
  EXPECT_FALSE(keep(1));
  EXPECT_EQ(ends_.next_look(), kNever);
}

TEST_F(HeldDisconnectsTest, ToldOnceWhatCameBeforeIsPolled) {
  ASSERT_TRUE(keep(1));
  EXPECT_EQ(told(kStart + 100 * kMicrosecond), Ids());
  polled_ = {3, 4};
  EXPECT_EQ(told(kStart + 200 * kMicrosecond), Ids());
  polled_ = {9, 5};  // and some that came after
  EXPECT_EQ(told(kStart + kMillisecond), Ids({1}));
  EXPECT_EQ(ends_.next_look(), kNever);
}

TEST_F(HeldDisconnectsTest, ToldInTheEndThoughNobodyPolls) {
  ASSERT_TRUE(keep(1));
  ASSERT_TRUE(keep(2));
  EXPECT_EQ(told(kStart + HeldDisconnects::kLongest - 1), Ids());
  EXPECT_EQ(told(kStart + HeldDisconnects::kLongest), Ids({1, 2}));
}

TEST_F(HeldDisconnectsTest, OneIsTakenAheadOfTime) {
  ASSERT_TRUE(keep(1));
  ASSERT_TRUE(keep(2));
  EXPECT_EQ(ends_.take(cm::CommId(1)).size(), 1u);
  EXPECT_TRUE(ends_.take(cm::CommId(1)).empty());
  EXPECT_EQ(told(kStart + HeldDisconnects::kLongest), Ids({2}));
}

}  // namespace
}  // namespace verbena::device
