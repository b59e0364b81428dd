// SPDX-License-Identifier: Apache-2.0
#include "base/id_table.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace verbena {
namespace {

TEST(IdTableTest, FindsWhatWasInserted) {
  IdTable<int> table(10);
  int one = 1;
  int two = 2;
  EXPECT_EQ(table.find(5), nullptr);
  EXPECT_TRUE(table.insert(5, &one));
  EXPECT_TRUE(table.insert(0, &two));
  EXPECT_EQ(table.find(5), &one);
  EXPECT_EQ(table.find(0), &two);
  EXPECT_EQ(table.find(IdTable<int>::kIdMask), nullptr);
  EXPECT_FALSE(table.insert(5, &two)) << "taken";
  EXPECT_EQ(table.find(5), &one);
  EXPECT_EQ(table.size(), 2u);
  EXPECT_EQ(table.erase(5), &one);
  EXPECT_EQ(table.erase(5), nullptr);
  EXPECT_EQ(table.find(5), nullptr);
  EXPECT_EQ(table.size(), 1u);
}

TEST(IdTableTest, HoldsItsLimitAndNoMore) {
  IdTable<int> table(100);
  int value = 0;
  for (uint32_t id = 0; id < 100; ++id) EXPECT_TRUE(table.insert(id * 7919 & 0xffffff, &value));
  EXPECT_TRUE(table.full());
  EXPECT_FALSE(table.insert(0xabcdef, &value));
  EXPECT_EQ(table.erase(7919), &value);
  EXPECT_FALSE(table.full());
  EXPECT_TRUE(table.insert(0xabcdef, &value));
}

// Against std::map. Ids come from a pool whose low bits collide: long runs, runs that wrap around
// the table's end, and erasures in their midst.
TEST(IdTableTest, AgreesWithAMap) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SeededRandom random(seed);
    const auto limit = static_cast<uint32_t>(1 + random.below(40));
    const uint64_t spread = 1 + random.below(16);
    IdTable<uint64_t> table(limit);
    std::map<uint32_t, uint64_t*> model;
    std::vector<uint64_t> values(64);
    for (int step = 0; step < 2000; ++step) {
      // Low bits within `spread` of the end of any table size up to 128; high bits make them
      // distinct.
      const uint32_t id = static_cast<uint32_t>(random.below(32) << 16) +
                          static_cast<uint32_t>((120 + random.below(spread)) & 127);
      switch (random.below(3)) {
        case 0: {
          uint64_t* const value = &values[random.below(values.size())];
          const bool room = model.size() < limit && !model.contains(id);
          ASSERT_EQ(table.insert(id, value), room) << "seed " << seed;
          if (room) model.emplace(id, value);
          break;
        }
        case 1: {
          const auto found = model.find(id);
          ASSERT_EQ(table.erase(id), found == model.end() ? nullptr : found->second)
              << "seed " << seed;
          if (found != model.end()) model.erase(found);
          break;
        }
        default:
          if (!model.empty()) {
            const auto victim =
                std::next(model.begin(), static_cast<long>(random.below(model.size())));
            ASSERT_EQ(table.erase(victim->first), victim->second) << "seed " << seed;
            model.erase(victim);
          }
      }
      ASSERT_EQ(table.size(), model.size());
      for (const auto& [key, value] : model) ASSERT_EQ(table.find(key), value) << "seed " << seed;
      ASSERT_EQ(table.find(id) != nullptr, model.contains(id)) << "seed " << seed;
    }
    std::map<uint32_t, uint64_t*> visited;
    table.for_each([&](uint32_t id, uint64_t* value) { visited.emplace(id, value); });
    EXPECT_EQ(visited, model) << "seed " << seed;
  }
}

TEST(IdTableTest, DrawnIdsAreFreeUnreservedAndSpread) {
  SeededRandom random(1);
  IdTable<int> table(5000);
  int value = 0;
  uint32_t highest = 0;
  for (int i = 0; i < 5000; ++i) {
    const uint32_t id = table.draw_free_id(random, 0x800000);
    EXPECT_GT(id, 0x800000u);
    EXPECT_LT(id, IdTable<int>::kIdMask);
    EXPECT_TRUE(table.insert(id, &value));
    highest = std::max(highest, id);
  }
  EXPECT_GT(highest, 0xff0000u);
}

TEST(IdTableDeathTest, DrawingFromAFullTableIsABrokenInvariant) {
  SeededRandom random(1);
  IdTable<int> table(1);
  int value = 0;
  ASSERT_TRUE(table.insert(9, &value));
  EXPECT_DEATH((void)table.draw_free_id(random), "invariant broken");
}

}  // namespace
}  // namespace verbena
