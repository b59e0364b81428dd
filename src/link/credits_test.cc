// SPDX-License-Identifier: Apache-2.0
// The ledger on a table in our own memory: members are objects here, threads in the last test.
#include "link/credits.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace verbena::link {
namespace {

constexpr uint32_t kBudget = 100'000;
constexpr uint32_t kCost = 5'000;

class CreditsTest : public ::testing::Test {
 protected:
  CreditLedger& member(uint8_t slot) {
    table_->slots[slot].budget = kBudget;
    table_->slots[slot].incarnation |= 1;
    ledgers_[slot] = std::make_unique<CreditLedger>(*table_, slot);
    ledgers_[slot]->start_afresh();
    look();
    return *ledgers_[slot];
  }
  void die(uint8_t slot) {
    ledgers_[slot].reset();
    ++table_->slots[slot].incarnation;
    look();
  }
  void look() {
    for (auto& ledger : ledgers_) {
      if (ledger != nullptr) ledger->refresh();
    }
  }
  static uint32_t send_all(CreditLedger& from, uint8_t to) {
    uint32_t count = 0;
    while (from.available(to)) {
      from.spend(to, kCost);
      ++count;
    }
    from.settle();
    return count;
  }

  static void find_empty(CreditLedger& receiver, Time now) {
    receiver.begin_look();
    receiver.found_empty(now);
  }

  const std::unique_ptr<SharedTable> table_ = std::make_unique<SharedTable>();
  std::array<std::unique_ptr<CreditLedger>, kSlots> ledgers_;
};

TEST_F(CreditsTest, BoundedAndReturned) {
  CreditLedger& one = member(1);
  CreditLedger& two = member(2);
  const uint32_t fits = send_all(one, 2);
  EXPECT_GE(fits, (kBudget - CreditLedger::kMaxPacketCost) / kCost);
  EXPECT_LE(fits * kCost, kBudget);
  EXPECT_EQ(two.outstanding(), int64_t{fits} * kCost);
  for (uint32_t i = 0; i < fits; ++i) two.consumed(1, kCost);
  find_empty(two, 1);
  EXPECT_EQ(two.outstanding(), 0);
  EXPECT_EQ(send_all(one, 2), fits);
}

TEST_F(CreditsTest, SendersTogetherStayWithin) {
  for (uint8_t slot = 1; slot <= 40; ++slot) (void)member(slot);
  uint32_t total = 0;
  for (uint8_t slot = 2; slot <= 40; ++slot) total += send_all(*ledgers_[slot], 1);
  EXPECT_LE(total * kCost, kBudget);
  EXPECT_GE(total * kCost, kBudget - CreditLedger::kMaxPacketCost);
}

TEST_F(CreditsTest, OneThatWaitsGetsItsShare) {
  CreditLedger& receiver = member(1);
  CreditLedger& greedy = member(2);
  CreditLedger& modest = member(3);
  (void)send_all(greedy, 1);
  EXPECT_FALSE(modest.available(1));
  uint32_t greedy_sent = 0;
  uint32_t modest_sent = 0;
  for (int i = 0; i < 200; ++i) {  // the greedy one is always quicker
    receiver.consumed(2, kCost);
    receiver.consumed(3, kCost);
    find_empty(receiver, 0);
    greedy_sent += send_all(greedy, 1);
    modest_sent += send_all(modest, 1);
  }
  EXPECT_GT(modest_sent, greedy_sent / 3);
}

TEST_F(CreditsTest, ARefusedOneIsWokenOnce) {
  CreditLedger& receiver = member(1);
  CreditLedger& sender = member(2);
  const uint32_t fits = send_all(sender, 1);
  for (uint32_t i = 0; i < fits; ++i) receiver.consumed(2, kCost);
  find_empty(receiver, 1);
  EXPECT_EQ(receiver.to_wake(), std::vector<uint8_t>{2});
  receiver.to_wake().clear();
  find_empty(receiver, 2);
  EXPECT_TRUE(receiver.to_wake().empty());
  table_->slots[2].polling = 1;
  (void)send_all(sender, 1);
  for (uint32_t i = 0; i < fits; ++i) receiver.consumed(2, kCost);
  find_empty(receiver, 3);
  EXPECT_TRUE(receiver.to_wake().empty());
}

TEST_F(CreditsTest, TheDeadLeaveNothing) {
  CreditLedger& receiver = member(1);
  (void)member(2);
  (void)send_all(*ledgers_[2], 1);
  EXPECT_TRUE(receiver.outstanding() > 0);
  die(2);
  EXPECT_GT(receiver.outstanding(), 0);  // it may still lie in the buffer
  find_empty(receiver, 0);
  EXPECT_EQ(receiver.outstanding(), 0);
  // The next owner of the slot begins even.
  CreditLedger& next = member(2);
  const uint32_t fits = send_all(next, 1);
  EXPECT_GE(fits, (kBudget - CreditLedger::kMaxPacketCost) / kCost);
  for (uint32_t i = 0; i < fits; ++i) receiver.consumed(2, kCost);
  find_empty(receiver, 1);
  EXPECT_EQ(receiver.outstanding(), 0);
}

TEST_F(CreditsTest, ADeadReceiverLeavesNothing) {
  CreditLedger& sender = member(1);
  (void)member(2);
  const uint32_t fits = send_all(sender, 2);
  die(2);
  CreditLedger& next = member(2);
  EXPECT_EQ(next.outstanding(), 0);
  EXPECT_EQ(send_all(sender, 2), fits);
}

// A sender whose data was lost acknowledges what comes the other way, and never is.
TEST_F(CreditsTest, LossIsReclaimedOfASenderThatIsNeverQuiet) {
  CreditLedger& receiver = member(1);
  CreditLedger& sender = member(2);
  const uint32_t fits = send_all(sender, 1);  // all of it lost
  constexpr uint32_t kAck = 100;
  Time now = kSecond;
  const Time until = now + 3 * CreditLedger::kQuiet;
  while (now < until && receiver.reclaimed() == 0) {
    // One is always on its way when the receiver looks.
    sender.spend(1, kAck);
    sender.settle();
    find_empty(receiver, now += 3 * kMillisecond);
    receiver.consumed(2, kAck);
  }
  EXPECT_LE(now, kSecond + 2 * CreditLedger::kQuiet);
  EXPECT_GE(receiver.reclaimed(), fits * kCost);
  EXPECT_LE(receiver.reclaimed(), fits * kCost + kAck);
  EXPECT_EQ(send_all(sender, 1), fits);
}

// It was not there yet when the sockets were read.
TEST_F(CreditsTest, WhatIsSentDuringEachLookIsNotLost) {
  CreditLedger& receiver = member(1);
  CreditLedger& sender = member(2);
  const Time until = kSecond + 4 * CreditLedger::kQuiet;
  for (Time now = kSecond; now < until; now += 3 * kMillisecond) {
    ASSERT_TRUE(receiver.wants_look(now));
    receiver.begin_look();
    ASSERT_TRUE(sender.available(1));
    sender.spend(1, kCost);
    sender.settle();
    receiver.found_empty(now);
    EXPECT_FALSE(receiver.wants_look(now));
    receiver.consumed(2, kCost);
    receiver.found_nothing();
    ASSERT_EQ(receiver.outstanding(), 0);
  }
  EXPECT_EQ(receiver.reclaimed(), 0U);
}

// Nor is what is on its way soon after something was lost.
TEST_F(CreditsTest, WhatIsSentAfterALossWasReclaimedIsNotLost) {
  CreditLedger& receiver = member(1);
  CreditLedger& sender = member(2);
  const uint32_t lost = send_all(sender, 1);
  Time now = kSecond;
  while (receiver.reclaimed() == 0) find_empty(receiver, now += 20 * kMillisecond);
  ASSERT_EQ(receiver.reclaimed(), lost * kCost);
  ASSERT_EQ(send_all(sender, 1), lost);
  find_empty(receiver, now += 20 * kMillisecond);
  EXPECT_EQ(receiver.reclaimed(), lost * kCost);
  EXPECT_EQ(receiver.outstanding(), lost * kCost);
}

// Somebody asleep finds out as soon, though nobody else makes it look.
TEST_F(CreditsTest, LossIsReclaimedInTimeByOneThatSleeps) {
  CreditLedger& receiver = member(1);
  CreditLedger& sender = member(2);
  (void)send_all(sender, 1);
  constexpr uint32_t kAck = 100;
  receiver.expect_leftovers();
  Time now = kSecond;
  find_empty(receiver, now);
  while (receiver.reclaimed() == 0 && now < 4 * kSecond) {
    sender.spend(1, kAck);
    sender.settle();
    receiver.consumed(2, kAck);
    ASSERT_NE(receiver.next_look(), kNever);
    find_empty(receiver, now = receiver.next_look());
  }
  EXPECT_LE(now, kSecond + 2 * CreditLedger::kQuiet);
}

// They would ask, be refused, and want to be woken again.
TEST_F(CreditsTest, NobodyIsWokenWhileThereIsNoRoom) {
  CreditLedger& receiver = member(1);
  CreditLedger& sender = member(2);
  CreditLedger& waiting = member(3);
  const uint32_t fits = send_all(sender, 1);
  ASSERT_FALSE(waiting.available(1));
  Time now = kSecond;
  for (int i = 0; i < 10; ++i) find_empty(receiver, now += 3 * kMillisecond);
  EXPECT_TRUE(receiver.to_wake().empty());
  for (uint32_t k = 0; k < fits; ++k) receiver.consumed(2, kCost);
  find_empty(receiver, now += 3 * kMillisecond);
  EXPECT_NE(std::ranges::find(receiver.to_wake(), uint8_t{3}), receiver.to_wake().end());
}

// Somebody asleep looks while something may be open, and then no more.
TEST_F(CreditsTest, ItSaysWhenToLookAgain) {
  CreditLedger& receiver = member(1);
  CreditLedger& sender = member(2);
  EXPECT_EQ(receiver.next_look(), kNever);
  const uint32_t fits = send_all(sender, 1);
  ASSERT_GT(fits, 1U);
  Time now = kSecond;
  receiver.consumed(2, kCost);  // the rest was lost
  int looks = 0;
  for (; receiver.next_look() != kNever && looks < 20; ++looks) {
    now = std::max(now, receiver.next_look());
    find_empty(receiver, now);
  }
  EXPECT_EQ(receiver.outstanding(), 0);
  EXPECT_LE(looks, 10);
  EXPECT_LE(now, kSecond + 2 * CreditLedger::kQuiet);
  // What was granted since, and lost, it cannot know.
  ASSERT_EQ(send_all(sender, 1), fits);
  EXPECT_EQ(receiver.next_look(), kNever);
  receiver.expect_leftovers();
  EXPECT_NE(receiver.next_look(), kNever);
}

TEST_F(CreditsTest, WhatIsOnItsWayIsNotLost) {
  CreditLedger& receiver = member(1);
  CreditLedger& sender = member(2);
  Time now = kSecond;
  for (int i = 0; i < 1000; ++i) {
    const uint32_t fits = send_all(sender, 1);
    find_empty(receiver, now += 3 * kMillisecond);
    for (uint32_t k = 0; k < fits; ++k) receiver.consumed(2, kCost);
    if (i % 8 == 0) find_empty(receiver, now += 3 * kMillisecond);
  }
  EXPECT_EQ(receiver.reclaimed(), 0U);
}

TEST_F(CreditsTest, LossIsReclaimedWhenQuiet) {
  CreditLedger& receiver = member(1);
  CreditLedger& sender = member(2);
  const uint32_t fits = send_all(sender, 1);
  receiver.consumed(2, kCost);  // the rest was lost
  Time now = kSecond;
  find_empty(receiver, now);
  find_empty(receiver, now += CreditLedger::kQuiet / 2);
  EXPECT_GT(receiver.outstanding(), 0);
  find_empty(receiver, now += CreditLedger::kQuiet);
  EXPECT_EQ(receiver.outstanding(), 0);
  EXPECT_EQ(receiver.reclaimed(), (fits - 1) * kCost);
  receiver.consumed(2, kCost);  // came after all: not given back twice
  find_empty(receiver, now += CreditLedger::kQuiet);
  EXPECT_EQ(receiver.outstanding(), 0);
}

// A sender may be off its core between its reservation and its send.
TEST_F(CreditsTest, RoomIsKeptForOneThatIsAboutToSend) {
  CreditLedger& receiver = member(1);
  CreditLedger& sender = member(2);
  CreditLedger& other = member(3);
  (void)send_all(sender, 1);
  table_->inboxes[3].outstanding = 12'345;  // and one that has not yet said whose it is
  const int64_t reserved = receiver.outstanding();
  for (Time now = kSecond; now < kSecond + 200 * kMillisecond; now += kMillisecond) {
    find_empty(receiver, now);
    find_empty(other, now);
  }
  EXPECT_EQ(receiver.outstanding(), reserved);
  EXPECT_EQ(other.outstanding(), 12'345);
}

TEST_F(CreditsTest, AGrantOfAStoppedSenderIsTakenBack) {
  CreditLedger& receiver = member(1);
  CreditLedger& stopped = member(2);
  ASSERT_TRUE(stopped.available(1));  // and never spends, nor settles
  Time now = kSecond;
  for (int i = 0; i < 4; ++i) find_empty(receiver, now += CreditLedger::kQuiet);
  EXPECT_EQ(receiver.outstanding(), 0);
  stopped.settle();  // goes on: gives back nothing a second time
  EXPECT_EQ(receiver.outstanding(), 0);
}

TEST_F(CreditsTest, AWrongSumIsMendedWhenNothingIsOpen) {
  CreditLedger& receiver = member(1);
  table_->inboxes[1].outstanding = 12'345;  // a sender was killed between two instructions
  Time now = kSecond;
  for (int i = 0; i < 4; ++i) find_empty(receiver, now += CreditLedger::kQuiet);
  EXPECT_EQ(receiver.outstanding(), 0);
}

TEST_F(CreditsTest, UnaskedPacketsCountToo) {
  CreditLedger& receiver = member(1);
  CreditLedger& sender = member(2);
  for (int i = 0; i < 30; ++i) sender.spend(1, kCost);
  EXPECT_EQ(receiver.outstanding(), 30 * kCost);
  EXPECT_FALSE(sender.available(1));
  for (int i = 0; i < 30; ++i) receiver.consumed(2, kCost);
  find_empty(receiver, 1);
  EXPECT_EQ(receiver.outstanding(), 0);
}

// Real concurrency: whatever the interleaving, what lies with the receiver stays within the budget.
TEST_F(CreditsTest, ConcurrentSendersNeverExceedTheBudget) {
  constexpr int kSenders = 3;
  constexpr uint64_t kEach = 2'000;
  (void)member(1);
  for (uint8_t slot = 2; slot < 2 + kSenders; ++slot) (void)member(slot);
  struct Mailbox {
    std::atomic<uint64_t> sent{0};
  };
  std::array<Mailbox, kSenders> boxes;
  std::atomic<int64_t> in_flight{0};
  std::atomic<int64_t> worst{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kSenders; ++i) {
    threads.emplace_back([&, i] {
      CreditLedger& ledger = *ledgers_[static_cast<size_t>(2 + i)];
      for (uint64_t n = 0; n < kEach;) {
        if (!ledger.available(1)) {
          ledger.settle();
          std::this_thread::yield();
          continue;
        }
        ledger.spend(1, kCost);
        const int64_t now = in_flight.fetch_add(kCost) + kCost;
        for (int64_t seen = worst; seen < now && !worst.compare_exchange_weak(seen, now);) {}
        boxes[static_cast<size_t>(i)].sent.store(++n, std::memory_order_release);
        if (n % 7 == 0) ledger.settle();
      }
      ledger.settle();
    });
  }
  CreditLedger& receiver = *ledgers_[1];
  std::array<uint64_t, kSenders> read{};
  for (uint64_t total = 0; total < kEach * kSenders;) {
    bool any = false;
    for (size_t i = 0; i < kSenders; ++i) {
      if (read[i] == boxes[i].sent.load(std::memory_order_acquire)) continue;
      ++read[i];
      ++total;
      any = true;
      in_flight -= kCost;  // before it is given back
      receiver.consumed(static_cast<uint8_t>(2 + i), kCost);
    }
    if (!any) {
      find_empty(receiver, 0);
      std::this_thread::yield();
    }
  }
  for (std::thread& thread : threads) thread.join();
  find_empty(receiver, 0);
  EXPECT_LE(worst, int64_t{kBudget});
  EXPECT_GT(worst, int64_t{kBudget} / 2);
  EXPECT_EQ(receiver.outstanding(), 0);
}

TEST_F(CreditsTest, AReservationIsAsMuchAsThereIsRoomFor) {
  CreditLedger& one = member(1);
  (void)member(2);
  EXPECT_GE(one.reserve(2, 60'000), 60'000);
  one.spend(2, 60'000);
  // Not so much is left, but something.
  const int64_t rest = one.reserve(2, 60'000);
  EXPECT_GE(rest, CreditLedger::kMaxPacketCost);
  EXPECT_LE(rest, int64_t{kBudget} - 60'000);
  one.spend(2, static_cast<uint32_t>(rest));
  EXPECT_EQ(one.reserve(2, 60'000), 0);
  EXPECT_FALSE(one.available(2));
  EXPECT_LE(ledgers_[2]->outstanding(), int64_t{kBudget});
}

}  // namespace
}  // namespace verbena::link
