// SPDX-License-Identifier: Apache-2.0
#include "transport/scoreboard.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "base/random.h"

namespace verbena::transport {
namespace {

using wire::Psn;

constexpr Duration kRoundTrip = 10 * kMillisecond;
constexpr Duration kWindow = 2 * kMillisecond;
constexpr uint32_t kCost = 1000;
constexpr uint32_t kFirst = wire::Psn::kMask - 5;  // PSNs begin again soon

class Board : public ::testing::Test {
 protected:
  void send(Scoreboard& board, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; ++i) board.on_sent(psn(i), kCost, true, 0, now_);
  }
  static Psn psn(uint32_t i) { return Psn(kFirst) + i; }

  Scoreboard requests_{Scoreboard::Of::kRequests, psn(0)};
  Scoreboard responses_{Scoreboard::Of::kResponses, psn(0)};
  Time now_ = kSecond;
};

TEST_F(Board, OneThatAnotherOvertookIsLostWhenItIsLate) {
  send(requests_, 0, 4);
  now_ += kRoundTrip;
  EXPECT_EQ(requests_.on_arrived(psn(2), now_), kCost);
  EXPECT_EQ(requests_.on_arrived(psn(2), now_), 0u);  // it is known
  EXPECT_EQ(requests_.find_lost(kWindow, now_).packets, 0u);
  EXPECT_EQ(requests_.next_look(), now_ + kWindow);
  now_ += kWindow;
  const Scoreboard::Lost lost = requests_.find_lost(kWindow, now_);
  EXPECT_EQ(lost.packets, 2u);
  EXPECT_EQ(lost.cost, 2 * kCost);
  EXPECT_EQ(requests_.first_lost(), psn(0));
  EXPECT_EQ(requests_.away(), 3 * kCost);  // one arrived, two lost
  EXPECT_EQ(requests_.next_look(), kNever);
}

TEST_F(Board, ARepairThatIsLostIsSeenByWhatWasSentAfterIt) {
  send(requests_, 0, 2);
  now_ += kRoundTrip;
  (void)requests_.on_arrived(psn(1), now_);
  now_ += kWindow;
  ASSERT_EQ(requests_.find_lost(kWindow, now_).packets, 1u);
  send(requests_, 0, 1);
  EXPECT_FALSE(requests_.first_lost());
  EXPECT_EQ(requests_.away(), kCost);
  send(requests_, 2, 3);
  now_ += kRoundTrip;
  (void)requests_.on_arrived(psn(2), now_);
  now_ += kWindow;
  EXPECT_EQ(requests_.find_lost(kWindow, now_).packets, 1u);
  EXPECT_EQ(requests_.first_lost(), psn(0));
}

TEST_F(Board, WhatArrivesAfterAllIsNotLost) {
  send(requests_, 0, 3);
  now_ += kRoundTrip;
  (void)requests_.on_arrived(psn(2), now_);
  now_ += kWindow;
  ASSERT_EQ(requests_.find_lost(kWindow, now_).packets, 2u);
  EXPECT_EQ(requests_.on_arrived(psn(1), now_), kCost);
  EXPECT_EQ(requests_.on_all_arrived_before(psn(3), now_), 2 * kCost);
  EXPECT_EQ(requests_.away(), 0u);
  EXPECT_FALSE(requests_.first_lost());
}

TEST_F(Board, OnlyWhatWasSentCanArrive) {
  send(requests_, 0, 3);
  EXPECT_EQ(requests_.on_arrived(psn(3), now_), 0u);
  EXPECT_EQ(requests_.on_arrived(psn(5000), now_), 0u);
  EXPECT_EQ(requests_.on_arrived(psn(0) - 1, now_), 0u);
  EXPECT_EQ(requests_.away(), 0u);
}

TEST_F(Board, ARoundTripIsThatOfTheLastSentThatArrived) {
  requests_.on_sent(psn(0), kCost, true, 7, now_);
  now_ += kMillisecond;
  requests_.on_sent(psn(1), kCost, true, 9, now_);
  now_ += kRoundTrip;
  (void)requests_.on_all_arrived_before(psn(2), now_);
  const auto sample = requests_.take_sample();
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->round_trip, kRoundTrip);
  EXPECT_EQ(sample->delivered, 9u);
  EXPECT_FALSE(requests_.take_sample());
}

// Sooner than it can come back.
TEST_F(Board, TheAnswerToAnEarlierCopySaysNothingOfTheRepair) {
  send(requests_, 0, 2);
  now_ += kRoundTrip;
  (void)requests_.on_arrived(psn(1), now_);
  now_ += kWindow;
  ASSERT_EQ(requests_.find_lost(kWindow, now_).packets, 1u);
  send(requests_, 2, 3);
  send(requests_, 0, 1);
  (void)requests_.take_sample();
  now_ += kMillisecond;
  (void)requests_.on_all_arrived_before(psn(2), now_);
  EXPECT_FALSE(requests_.take_sample());
  EXPECT_EQ(requests_.find_lost(kWindow, now_ + kSecond).packets, 0u);  // 2 was sent before it
}

TEST_F(Board, ANeedlessRepairIsToldOnce) {
  send(requests_, 0, 2);
  requests_.on_repair(psn(0));
  (void)requests_.on_all_arrived_before(psn(2), now_);
  EXPECT_FALSE(requests_.was_needless(psn(1)));
  EXPECT_TRUE(requests_.was_needless(psn(0)));
  EXPECT_FALSE(requests_.was_needless(psn(0)));
  EXPECT_FALSE(requests_.was_needless(psn(2)));
  EXPECT_FALSE(requests_.was_needless(psn(0) - 4096));
}

TEST_F(Board, ItGrowsUpToItsBound) {
  send(requests_, 0, Scoreboard::kMaxPackets + 100);
  EXPECT_EQ(distance(psn(0), requests_.end()), static_cast<int32_t>(Scoreboard::kMaxPackets));
  EXPECT_EQ(requests_.on_all_arrived_before(psn(5000), now_), 0u);
  EXPECT_EQ(requests_.begin(), psn(5000));
  send(requests_, 5000, 5001);
  EXPECT_EQ(requests_.on_arrived(psn(5000), now_), kCost);
}

// Those behind the last that arrived may still be on their way, whenever they were asked for.
TEST_F(Board, AResponseIsMissingWhenALaterOneIsThere) {
  send(responses_, 0, 10);
  now_ += kRoundTrip;
  (void)responses_.on_arrived(psn(3), now_);
  EXPECT_EQ(responses_.find_lost(kWindow, now_).packets, 0u);
  EXPECT_EQ(responses_.next_look(), now_ + kWindow);
  now_ += kWindow;
  EXPECT_EQ(responses_.find_lost(kWindow, now_).packets, 3u);
  send(responses_, 0, 3);  // asked for again
  now_ += kRoundTrip;
  (void)responses_.on_arrived(psn(2), now_);
  EXPECT_EQ(responses_.find_lost(kWindow, now_).packets, 0u);
  now_ += kWindow;
  EXPECT_EQ(responses_.find_lost(kWindow, now_).packets, 2u);  // and none of those behind 3
}

TEST_F(Board, AResponseIsMissingWhenWhatFollowsItWasAcknowledged) {
  send(responses_, 0, 2);
  responses_.on_overtaken_before(psn(5));
  EXPECT_EQ(responses_.find_lost(0, now_).packets, 2u);
}

// Against a plain list: what is away is what arrived or is lost, whatever happens in which order.
TEST_F(Board, TheSumsAreThoseOfThePackets) {
  SeededRandom random(1);
  std::vector<bool> arrived(20'000);
  uint32_t una = 0;
  uint32_t end = 0;
  for (int step = 0; step < 20'000 && end < arrived.size(); ++step) {
    now_ += static_cast<Duration>(random.below(100 * kMicrosecond));
    switch (random.below(4)) {
      case 0:
        if (end - una < 4000) send(requests_, end, end + 1), ++end;
        break;
      case 1:
        if (end != una) {
          const auto i = una + static_cast<uint32_t>(random.below(end - una));
          EXPECT_EQ(requests_.on_arrived(psn(i), now_), arrived[i] ? 0 : kCost);
          arrived[i] = true;
        }
        break;
      case 2:
        (void)requests_.find_lost(kWindow, now_);
        if (const auto lost = requests_.first_lost()) {
          const auto i = static_cast<uint32_t>(distance(psn(0), *lost));
          ASSERT_FALSE(arrived[i]);
          send(requests_, i, i + 1);
        }
        break;
      default:
        if (random.below(50) == 0) {
          const auto to = una + static_cast<uint32_t>(random.below(end - una + 1));
          uint64_t known = 0;
          for (; una < to; ++una) known += arrived[una] ? kCost : 0;
          ASSERT_EQ(requests_.on_all_arrived_before(psn(to), now_), known);
        }
        break;
    }
    uint64_t away = 0;
    for (uint32_t i = una; i < end; ++i) {
      away += arrived[i] || requests_.is_lost(psn(i)) ? kCost : 0;
    }
    ASSERT_EQ(requests_.away(), away);
  }
}

// Whatever is sent and arrives, and wherever in the ring it begins.
TEST_F(Board, TheAwaitedAreThoseOfANaiveModel) {
  SeededRandom random(7);
  uint32_t begin = 0;
  uint32_t end = 0;
  std::set<uint32_t> awaited;
  for (int step = 0; step < 4000; ++step) {
    const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random.below(n)); };
    const uint32_t sent = std::min(below(200), Scoreboard::kMaxPackets - (end - begin));
    send(requests_, end, end + sent);
    for (uint32_t i = 0; i < sent; ++i) awaited.insert(end++);
    for (uint32_t i = below(100); i > 0 && end != begin; --i) {
      const uint32_t which = begin + below(end - begin);
      EXPECT_EQ(requests_.on_arrived(psn(which), now_) != 0, awaited.erase(which) != 0);
    }
    if (below(4) == 0) {
      begin += below(end - begin + 1);
      (void)requests_.on_all_arrived_before(psn(begin), now_);
      awaited.erase(awaited.begin(), awaited.lower_bound(begin));
    }
    const uint32_t from = begin + below(end - begin + 2);
    const auto next = awaited.lower_bound(from);
    ASSERT_EQ(requests_.next_awaited(psn(from)), psn(next == awaited.end() ? end : *next));
    const uint32_t first = awaited.empty() ? end : *awaited.begin();
    ASSERT_EQ(requests_.next_awaited(psn(begin) - below(1 << 20)), psn(first));
  }
}

TEST_F(Board, AnswersThatWaitedForARepairTellNoRoundTrip) {
  send(responses_, 0, 2);
  responses_.distrust_times();
  send(responses_, 2, 3);
  now_ += 3 * kRoundTrip;
  (void)responses_.on_arrived(psn(1), now_);
  EXPECT_FALSE(responses_.take_sample());
  (void)responses_.on_arrived(psn(2), now_);
  EXPECT_TRUE(responses_.take_sample());
}

}  // namespace
}  // namespace verbena::transport
