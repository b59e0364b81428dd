// SPDX-License-Identifier: Apache-2.0
#include "link/roster.h"

#include <algorithm>
#include <memory>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/random.h"

namespace verbena::link {
namespace {

class RosterTest : public ::testing::Test {
 protected:
  void enter(uint8_t slot) {
    auto name = listen_on(names_.member(slot), 1);
    ASSERT_TRUE(name);
    held_[slot] = std::move(*name);
    roster_.enter(slot, {.pid = 1, .source_port = {0xc001, 0xc002}, .budget = 100'000});
    kernel_.push_back(slot);
  }
  // Death as the kernel sees it; the table does not know yet.
  void die(uint8_t slot) {
    held_[slot].reset();
    const auto at = std::ranges::find(kernel_, slot);
    *at = kernel_.back();
    kernel_.pop_back();
  }
  uint32_t reap() { return roster_.reap_dead(names_, std::nullopt, 1000); }

  const std::unique_ptr<SharedTable> table_ = std::make_unique<SharedTable>();
  GroupNames names_{"roster-test" + std::to_string(::getpid()), 1};
  Roster roster_{*table_};
  std::array<UniqueFd, kSlots> held_;
  std::vector<uint8_t> kernel_;
};

TEST_F(RosterTest, FollowsTheKernelDeathByDeath) {
  SeededRandom random(3);
  for (uint8_t slot = 1; slot <= 40; ++slot) enter(slot);
  while (!kernel_.empty()) {
    die(kernel_[random.below(kernel_.size())]);
    EXPECT_EQ(reap(), 1U);
    EXPECT_EQ(roster_.order(Family::kIpv4), kernel_);
    EXPECT_EQ(roster_.order(Family::kIpv6), kernel_);
  }
}

// A process without descriptors cannot tell who lives: it buries nobody.
TEST_F(RosterTest, WithoutDescriptorsNobodyIsReaped) {
  for (uint8_t slot = 1; slot <= 3; ++slot) enter(slot);
  die(2);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const uint32_t reaped = reap();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(reaped, 0U);
  EXPECT_EQ(reap(), 1U);
}

TEST_F(RosterTest, ProbesInAnyOrderFindTheTruth) {
  SeededRandom random(4);
  for (int round = 0; round < 200; ++round) {
    while (kernel_.size() < 20) {
      const auto slot = roster_.choose_slot(random, 5000, 0);
      ASSERT_TRUE(slot);
      enter(*slot);
    }
    for (int i = 0; i < 6; ++i) die(kernel_[random.below(kernel_.size())]);
    EXPECT_EQ(reap(), 6U);
    // Each survivor hears which index is its own, in any order.
    std::vector<uint32_t> indices(kernel_.size());
    for (uint32_t i = 0; i < indices.size(); ++i) indices[i] = i;
    for (size_t i = indices.size() - 1; i > 0; --i)
      std::swap(indices[i], indices[random.below(i + 1)]);
    for (const uint32_t i : indices) (void)roster_.move_to(Family::kIpv4, i, kernel_[i]);
    for (const uint32_t i : indices) (void)roster_.move_to(Family::kIpv6, i, kernel_[i]);
    ASSERT_EQ(roster_.order(Family::kIpv4), kernel_);
    ASSERT_EQ(roster_.order(Family::kIpv6), kernel_);
  }
}

TEST_F(RosterTest, MendsWhatAKilledHolderLeft) {
  for (uint8_t slot = 1; slot <= 5; ++slot) enter(slot);
  GroupOrder& order = table_->orders[0];
  order.slot[0] = 3;    // twice; 1 is missing
  order.slot[1] = 200;  // nobody
  order.count = 0xffffffff;
  EXPECT_EQ(reap(), 0U);
  std::vector<uint8_t> mended = roster_.order(Family::kIpv4);
  std::ranges::sort(mended);
  EXPECT_EQ(mended, (std::vector<uint8_t>{1, 2, 3, 4, 5}));
}

TEST_F(RosterTest, SlotsRestUnlessAllDo) {
  SeededRandom random(5);
  for (int slot = kFirstSlot; slot <= kLastSlot; ++slot) enter(static_cast<uint8_t>(slot));
  EXPECT_FALSE(roster_.choose_slot(random, 0, 0));
  roster_.leave(9, 1000);
  roster_.leave(7, 2000);
  EXPECT_EQ(roster_.choose_slot(random, 2500, 1200), 9);    // only 9 has rested
  EXPECT_EQ(roster_.choose_slot(random, 2500, 10'000), 9);  // none has; 9 longest
}

}  // namespace
}  // namespace verbena::link
