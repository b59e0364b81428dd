// SPDX-License-Identifier: Apache-2.0
#include "transport/congestion.h"

#include <gtest/gtest.h>

namespace verbena::transport {
namespace {

constexpr uint64_t kInitial = 20'000;
constexpr Duration kRoundTrip = 10 * kMillisecond;

class Congestion : public ::testing::Test {
 protected:
  // A round trip in which all of a full window is delivered, in ten parts.
  void round(Duration round_trip = kRoundTrip, bool limited = true) {
    const uint64_t window = control_.window();
    for (int i = 0; i < 10; ++i) {
      now_ += round_trip / 10;
      control_.on_round_trip(round_trip, window, now_);
      control_.on_delivered(window / 10, limited, now_);
    }
  }
  void leave_slow_start() {
    for (int i = 0; i < 5; ++i) round();
    for (int i = 0; i < 8; ++i) round(2 * kRoundTrip);
    ASSERT_FALSE(control_.in_slow_start());
  }

  CongestionWindow control_{kInitial, 1 << 30, 100'000};
  Time now_ = kSecond;
};

TEST_F(Congestion, ItBeginsWithTheInitialWindowAndWithoutPace) {
  EXPECT_EQ(control_.window(), kInitial);
  EXPECT_EQ(control_.time_of(1'000'000), 0);
}

TEST_F(Congestion, SlowStartDoublesTheWindowEachRoundTrip) {
  round();
  EXPECT_NEAR(static_cast<double>(control_.window()), 2 * kInitial, 100);
  round();
  EXPECT_NEAR(static_cast<double>(control_.window()), 4 * kInitial, 200);
  EXPECT_TRUE(control_.in_slow_start());
}

TEST_F(Congestion, SlowStartEndsWhenAllOfARoundTripTookLonger) {
  for (int i = 0; i < 3; ++i) round();
  const uint64_t before = control_.window();
  round(kRoundTrip + kRoundTrip / 10);
  EXPECT_TRUE(control_.in_slow_start());
  for (int i = 0; i < 7; ++i) round(kRoundTrip + kRoundTrip / 5);
  EXPECT_FALSE(control_.in_slow_start());
  EXPECT_LT(control_.window(), 10 * before);
}

// A host that was off its core for a moment is not a queue.
TEST_F(Congestion, SlowStartGoesOnWhenRoundTripsAreShortAgain) {
  for (int i = 0; i < 3; ++i) round();
  round(kRoundTrip + kRoundTrip / 5);
  const uint64_t before = control_.window();
  for (int i = 0; i < 10; ++i) round();
  EXPECT_TRUE(control_.in_slow_start());
  EXPECT_GT(control_.window(), 100 * before);
}

TEST_F(Congestion, AWindowThatIsNotUsedDoesNotGrow) {
  for (int i = 0; i < 10; ++i) round(kRoundTrip, false);
  EXPECT_EQ(control_.window(), kInitial);
}

TEST_F(Congestion, IdleTimeIsNoTimeToGrowIn) {
  leave_slow_start();
  control_.on_loss(1500, true, now_);
  now_ += 100 * kSecond;
  control_.on_delivered(1500, false, now_);
  const uint64_t before = control_.window();
  round();
  EXPECT_LT(control_.window(), before + before / 20);
}

TEST_F(Congestion, ALossWithAQueueTakesTheWindowDownOncePerRoundTrip) {
  leave_slow_start();
  const auto before = static_cast<double>(control_.window());
  control_.on_loss(1500, true, now_);
  const uint64_t after = control_.window();
  EXPECT_GE(static_cast<double>(after), 0.7 * before - 1);
  EXPECT_LE(static_cast<double>(after), 0.85 * before + 1);
  control_.on_loss(1500, true, now_ + kRoundTrip / 2);
  EXPECT_EQ(control_.window(), after);
  control_.on_loss(1500, true, now_ + 3 * kRoundTrip);
  EXPECT_LT(control_.window(), after);
}

TEST_F(Congestion, MoreOfALossThatIsKnownChangesNothing) {
  leave_slow_start();
  const uint64_t before = control_.window();
  control_.on_loss(1500, false, now_);
  EXPECT_EQ(control_.window(), before);
}

TEST_F(Congestion, ALossWhileTheQueueIsEmptyIsTheLinksOwn) {
  leave_slow_start();
  round();
  round();
  round();
  const uint64_t before = control_.window();
  control_.on_loss(1500, true, now_);
  EXPECT_EQ(control_.window(), before);
}

// Where a queue shorter than the noise of hosts would not be seen.
TEST_F(Congestion, SoNearThatAQueueCannotBeSeenALossTakesASmallWindowDown) {
  constexpr Duration kShort = 100 * kMicrosecond;
  for (const bool small : {true, false}) {
    control_ = CongestionWindow(small ? 15'000 : 60'000, 1 << 30, 1 << 30);
    for (int i = 0; i < 3; ++i) round(kShort, false);
    const uint64_t before = control_.window();
    control_.on_loss(1500, true, now_);
    EXPECT_EQ(control_.window() < before, small);
  }
}

TEST_F(Congestion, ALossWhenNothingWasMeasuredOfLateIsNot) {
  leave_slow_start();
  for (int i = 0; i < 3; ++i) round();
  const uint64_t before = control_.window();
  control_.on_loss(1500, true, now_ + 3 * kRoundTrip);
  EXPECT_LT(control_.window(), before);
}

// A clock that was read too early makes one, a path that has changed makes many.
TEST_F(Congestion, AMuchShorterRoundTripMustBeSeenAFewTimes) {
  round();
  control_.on_round_trip(kRoundTrip / 2, kInitial, now_);
  control_.on_round_trip(kRoundTrip / 2, kInitial, now_);
  EXPECT_EQ(control_.least_round_trip(), kRoundTrip);
  round();
  for (int i = 0; i < 4; ++i) control_.on_round_trip(kRoundTrip / 2, kInitial, ++now_);
  EXPECT_EQ(control_.least_round_trip(), kRoundTrip / 2);
}

// Four late packets of a round trip are no queue if those of the next are not late.
TEST_F(Congestion, SlowStartGoesOnWhenTheQueueTurnsOutToBeEmpty) {
  leave_slow_start();
  round();
  EXPECT_TRUE(control_.in_slow_start());
}

// A host that was off its core, and a link that loses packets: together they look like a queue.
TEST_F(Congestion, OneLossAfterALongRoundTripMakesSlowStartWait) {
  for (const auto repair :
       {CongestionWindow::Repair::kWhatWasLost, CongestionWindow::Repair::kAllThatFollowed}) {
    control_ = CongestionWindow(kInitial, 1 << 30, 100'000);
    for (int i = 0; i < 6; ++i) round();
    const uint64_t before = control_.window();
    now_ += kRoundTrip / 10;
    control_.on_round_trip(kRoundTrip + kRoundTrip / 5, before, now_);
    control_.on_loss(1500, true, now_, repair);
    // Who sends all again that followed has to believe it.
    EXPECT_EQ(control_.window() < before, repair == CongestionWindow::Repair::kAllThatFollowed);
  }
  // And it is a queue when it lasts.
  control_ = CongestionWindow(kInitial, 1 << 30, 100'000);
  for (int i = 0; i < 6; ++i) round();
  for (int i = 0; i < 3; ++i) {
    round(kRoundTrip + kRoundTrip / 5);
    control_.on_loss(1500, true, now_, CongestionWindow::Repair::kWhatWasLost);
  }
  EXPECT_FALSE(control_.in_slow_start());
}

// Packets that overtake each other before anything is known of the way.
TEST_F(Congestion, LossesThatSeemManyDoNotSettleWhatWasDoubtful) {
  control_.on_loss(1500, true, now_);
  ASSERT_LT(control_.window(), kInitial);
  control_.on_round_trip(kRoundTrip, 0, now_ += kRoundTrip);
  now_ += 5 * kRoundTrip;
  for (int i = 0; i < 3; ++i) control_.on_loss(1500, true, now_);
  control_.on_round_trip(kRoundTrip, 0, now_ += 10 * kRoundTrip);
  for (int i = 0; i < 10; ++i) round();
  EXPECT_GT(control_.window(), 10 * kInitial);
}

TEST_F(Congestion, SlowStartDoesNotGoOnAfterALossWithAQueue) {
  leave_slow_start();
  control_.on_loss(1500, true, now_);
  for (int i = 0; i < 10; ++i) round();
  EXPECT_FALSE(control_.in_slow_start());
}

TEST_F(Congestion, AWindowReducedWithNothingMeasuredGrowsFastWhenTheQueueIsEmpty) {
  control_.on_loss(1500, true, now_);
  EXPECT_LT(control_.window(), kInitial);
  EXPECT_FALSE(control_.in_slow_start());
  for (int i = 0; i < 2; ++i) round();
  EXPECT_TRUE(control_.in_slow_start());
}

TEST_F(Congestion, LossesBeforeTheFirstRoundTripCountOnce) {
  for (int i = 0; i < 10; ++i) control_.on_loss(3000, true, now_ + i);
  EXPECT_GE(control_.window(), kInitial / 2);
  for (int i = 0; i < 2; ++i) round();
  EXPECT_TRUE(control_.in_slow_start());
}

TEST_F(Congestion, WhenOneInEightIsLostItIsNotTheLink) {
  leave_slow_start();
  for (int i = 0; i < 3; ++i) round();
  const uint64_t before = control_.window();
  for (int i = 0; i < 20; ++i) {
    round();
    control_.on_loss(control_.window() / 5, true, now_);
  }
  EXPECT_LT(control_.window(), before);
}

TEST_F(Congestion, AMarkTakesALittleLess) {
  leave_slow_start();
  const auto before = static_cast<double>(control_.window());
  control_.on_mark(now_);
  EXPECT_NEAR(static_cast<double>(control_.window()), 0.8 * before, 1);
  control_.on_mark(now_ + kMillisecond);
  EXPECT_NEAR(static_cast<double>(control_.window()), 0.8 * before, 1);
}

TEST_F(Congestion, SilenceBeginsAnew) {
  leave_slow_start();
  now_ += kSecond;
  control_.on_timeout(now_);
  EXPECT_LE(control_.window(), 3'000u);
  EXPECT_TRUE(control_.in_slow_start());
}

TEST_F(Congestion, TheTimeoutOfOneAmongOthersThatGoOnIsALossLikeAnother) {
  leave_slow_start();
  const auto before = static_cast<double>(control_.window());
  control_.on_timeout(now_);
  EXPECT_GE(static_cast<double>(control_.window()), 0.7 * before - 1);
}

// RFC 9438: back at the size at which it was reduced after K, flat there, and on.
TEST_F(Congestion, TheWindowComesBackToWhereItWas) {
  leave_slow_start();
  const uint64_t before = control_.window();
  control_.on_loss(1500, true, now_);
  for (int i = 0; i < 3'000 && control_.window() < before; ++i) round(2 * kRoundTrip);
  EXPECT_GE(control_.window(), before);
  EXPECT_LT(control_.window(), before + before / 10);
}

TEST_F(Congestion, AWindowLeavesInLessThanARoundTrip) {
  leave_slow_start();
  const Duration all = control_.time_of(control_.window());
  EXPECT_LT(all, control_.round_trip());
  EXPECT_GT(all, control_.round_trip() / 2);
}

TEST_F(Congestion, NearByTheWindowIsWhatTheReceiverHasRoomForAndWhatIsOnTheWire) {
  for (int i = 0; i < 100; ++i) {
    now_ += 100 * kMicrosecond;
    control_.on_round_trip(100 * kMicrosecond, 30'000, now_);
    control_.on_delivered(30'000, true, now_);
  }
  EXPECT_NEAR(static_cast<double>(control_.window()), 130'000, 4'000);
}

TEST_F(Congestion, NearByTheWindowFitsTheRoomThatAReceiverSaysItHas) {
  const auto window_with = [this](uint64_t room) {
    control_.set_room(room);
    for (int i = 0; i < 100; ++i) {
      now_ += 100 * kMicrosecond;
      control_.on_round_trip(100 * kMicrosecond, 30'000, now_);
      control_.on_delivered(30'000, true, now_);
    }
    return static_cast<double>(control_.window());
  };
  EXPECT_NEAR(window_with(100'000), 130'000, 4'000);
  EXPECT_NEAR(window_with(50'000), 80'000, 4'000);
  EXPECT_NEAR(window_with(1), 33'000, 4'000);  // enough to go on with
  EXPECT_NEAR(window_with(200'000), 230'000, 4'000);
  EXPECT_NEAR(window_with(1 << 30), 1'078'000, 4'000);  // no more than is of use
}

TEST_F(Congestion, AnAnswerThatSeemsToTakeNoTimeDoesNotHideAQueue) {
  control_.on_round_trip(0, 0, now_);
  control_.on_round_trip(-5, 0, now_);
  EXPECT_GT(control_.round_trip(), 10 * kMicrosecond);
}

TEST_F(Congestion, TheWindowHasABound) {
  CongestionWindow control(kInitial, 2 * kInitial, 10 * kInitial);
  for (int i = 0; i < 100; ++i) control.on_delivered(kInitial, true, now_);
  EXPECT_EQ(control.window(), 2 * kInitial);
}

TEST_F(Congestion, LossesThatWereNoneAreTakenBack) {
  leave_slow_start();
  const uint64_t before = control_.window();
  control_.on_loss(1'500, true, now_);
  control_.on_loss(1'500, true, now_);
  ASSERT_LT(control_.window(), before);
  now_ += kRoundTrip;
  control_.on_needless_repair(1'500, now_);
  EXPECT_LT(control_.window(), before) << "the other may have been lost";
  control_.on_needless_repair(1'500, now_);
  EXPECT_GE(control_.window(), before);
}

// Slow start was over for a queue, and is there again: it grows, or ends.
TEST_F(Congestion, WhatIsTakenBackGoesOnGrowing) {
  control_.on_loss(1'500, true, now_);
  control_.on_round_trip(kRoundTrip, 0, now_ += kRoundTrip);
  now_ += 10 * kRoundTrip;
  for (int i = 0; i < 6; ++i) round();
  for (int i = 0; i < 5; ++i) round(kRoundTrip + kRoundTrip / 4);
  ASSERT_FALSE(control_.in_slow_start());
  control_.on_needless_repair(1'500, now_);
  const uint64_t before = control_.window();
  for (int i = 0; i < 100; ++i) round(kRoundTrip + kRoundTrip / 4);
  EXPECT_FALSE(control_.in_slow_start());
  EXPECT_GT(control_.window(), before);
}

TEST_F(Congestion, AfterALongTimeNothingIsTakenBack) {
  leave_slow_start();
  const uint64_t before = control_.window();
  control_.on_loss(1'500, true, now_);
  control_.on_needless_repair(1'500, now_ + 100 * kRoundTrip);
  EXPECT_LT(control_.window(), before);
}

}  // namespace
}  // namespace verbena::transport
