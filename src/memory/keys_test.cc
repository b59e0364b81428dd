// SPDX-License-Identifier: Apache-2.0
// Keys tell nothing about one another: a peer who has seen some cannot name the next.
#include "memory/keys.h"

#include <bit>
#include <map>
#include <set>

#include "memory/domain_test_fixture.h"

namespace verbena::memory {
namespace {

class KeysTest : public DomainTest {};

TEST_F(KeysTest, EveryBitIsAsOftenSetAsNotAndPairsAreUnrelated) {
  constexpr int kKeys = 20000;
  int ones[32]{};
  int flips[32]{};
  uint32_t previous = 0;
  for (int i = 0; i < kKeys; ++i) {
    const uint32_t key = region(0, 64).lkey.value;
    for (int bit = 0; bit < 32; ++bit) {
      ones[bit] += key >> bit & 1;
      flips[bit] += (key ^ previous) >> bit & 1;
    }
    previous = key;
  }
  for (int bit = 0; bit < 32; ++bit) {  // 6 standard deviations: 424
    EXPECT_NEAR(ones[bit], kKeys / 2.0, 450) << bit;
    EXPECT_NEAR(flips[bit], kKeys / 2.0, 450) << bit;
  }
}

TEST_F(KeysTest, WindowsAreDrawnTheSameWay) {
  std::set<uint32_t> indices;
  std::set<uint32_t> tags;
  for (int i = 0; i < 2000; ++i) {
    const uint32_t key = window(WindowType::kType2).value;
    EXPECT_TRUE(indices.insert(key >> 8).second);
    tags.insert(key & 0xff);
  }
  EXPECT_GT(tags.size(), 250u);
}

TEST_F(KeysTest, AKeyGivenBackIsNotTheNextOneGivenOut) {
  std::set<uint32_t> seen;
  for (int i = 0; i < 20000; ++i) {
    const RegionKeys keys = region(0, 64);
    EXPECT_TRUE(seen.insert(keys.lkey.value).second) << "a stale key would work again";
    ASSERT_TRUE(domain_.deregister_region(keys.lkey));
  }
}

TEST_F(KeysTest, ZeroAndSmallIndicesAreNeverGiven) {
  for (int i = 0; i < 20000; ++i) {
    const RegionKeys keys = region(0, 64);
    EXPECT_GT(keys.lkey.value >> 8, 1u);
    ASSERT_TRUE(domain_.deregister_region(keys.lkey));
  }
}

// The memory of entries is reused, their addresses do not move, and a reused one remembers nothing.
TEST(KeyTableTest, EntriesStayWhereTheyAre) {
  SeededRandom random(3);
  KeyTable table(random, 1000, 1);
  std::map<uint32_t, Entry*> model;
  for (int step = 0; step < 20000; ++step) {
    if (!table.full() && random.below(2) == 0) {
      Entry& entry = table.create();
      EXPECT_FALSE(entry.usable);
      EXPECT_EQ(entry.lkey, 0u);
      const uint32_t key = table.add_key(entry);
      entry.lkey = key;
      entry.usable = true;
      EXPECT_TRUE(model.emplace(key, &entry).second);
    } else if (!model.empty()) {
      const auto victim = std::next(model.begin(), static_cast<long>(random.below(model.size())));
      EXPECT_EQ(table.find(victim->first), victim->second);
      table.remove_key(victim->first);
      table.destroy(*victim->second);
      EXPECT_EQ(table.find(victim->first), nullptr);
      model.erase(victim);
    }
  }
  for (const auto& [key, entry] : model) {
    EXPECT_EQ(table.find(key), entry);
    EXPECT_EQ(entry->lkey, key);
  }
}

}  // namespace
}  // namespace verbena::memory
