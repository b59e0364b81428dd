// SPDX-License-Identifier: Apache-2.0
#include "store/ranges.h"

#include <algorithm>
#include <limits>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace verbena::store {
namespace {

constexpr ObjectId kObject{1, 2};
constexpr ObjectId kOther{1, 3};
constexpr uint64_t kLast = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kAll = 0;  // as a length: to the end

template <typename T>
Code code_of(const Result<T>& result) {
  EXPECT_FALSE(result);
  return result ? Code{255} : result.error().code;
}

TEST(Ranges, ReadersShareWritersDoNot) {
  RangeRegistry ranges;
  EXPECT_TRUE(ranges.add(1, kObject, 0, 100, Access::kRead));
  EXPECT_TRUE(ranges.add(2, kObject, 50, 100, Access::kRead));
  EXPECT_EQ(code_of(ranges.add(3, kObject, 99, 1, Access::kWrite)), Code::kConflict);
  EXPECT_TRUE(ranges.add(3, kObject, 150, 1, Access::kWrite));
  EXPECT_EQ(code_of(ranges.add(1, kObject, 150, 1, Access::kRead)), Code::kConflict);
  EXPECT_EQ(code_of(ranges.add(1, kObject, 150, 1, Access::kWrite)), Code::kConflict);
  EXPECT_TRUE(ranges.add(3, kOther, 0, kAll, Access::kWrite));
  EXPECT_EQ(ranges.size(), 4u);
}

TEST(Ranges, AClientIsNotInItsOwnWay) {
  RangeRegistry ranges;
  EXPECT_TRUE(ranges.add(1, kObject, 0, 100, Access::kWrite));
  EXPECT_TRUE(ranges.add(1, kObject, 0, 100, Access::kWrite));
  EXPECT_TRUE(ranges.add(1, kObject, 10, kAll, Access::kRead));
  EXPECT_TRUE(ranges.check_write(1, kObject, 0, 1000));
}

TEST(Ranges, TouchingIsNotOverlapping) {
  RangeRegistry ranges;
  EXPECT_TRUE(ranges.add(1, kObject, 100, 100, Access::kWrite));
  EXPECT_TRUE(ranges.add(2, kObject, 0, 100, Access::kWrite));
  EXPECT_TRUE(ranges.add(2, kObject, 200, kAll, Access::kWrite));
  EXPECT_EQ(code_of(ranges.check_write(2, kObject, 199, 1)), Code::kConflict);
  EXPECT_EQ(code_of(ranges.check_write(2, kObject, 100, 1)), Code::kConflict);
  EXPECT_TRUE(ranges.check_write(2, kObject, 99, 1));
  EXPECT_TRUE(ranges.check_write(2, kObject, 200, 1));
}

TEST(Ranges, SaysWhoIsInTheWayAndWhere) {
  RangeRegistry ranges;
  ASSERT_TRUE(ranges.add(7, kObject, 100, kAll, Access::kRead));
  const auto refused = ranges.check_write(8, kObject, 0, 101);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().what,
            "bytes 0 to 100 of object 1:2 cannot be written by client 8: client 7 has registered "
            "bytes 100 to the end for reading");
}

TEST(Ranges, WritesAreChecked) {
  RangeRegistry ranges;
  EXPECT_TRUE(ranges.check_write(1, kObject, 0, kLast));
  ASSERT_TRUE(ranges.add(1, kObject, 100, 10, Access::kRead));
  EXPECT_TRUE(ranges.check_write(1, kObject, 0, kLast));
  EXPECT_EQ(code_of(ranges.check_write(2, kObject, 0, kLast)), Code::kConflict);
  EXPECT_EQ(code_of(ranges.check_write(0, kObject, 109, 1)), Code::kConflict);
  EXPECT_TRUE(ranges.check_write(0, kObject, 110, kLast));
  EXPECT_TRUE(ranges.check_write(2, kObject, 105, 0)) << "no bytes";
  EXPECT_TRUE(ranges.check_write(2, kOther, 105, 1));
}

TEST(Ranges, EndAtTwoToThe64) {
  RangeRegistry ranges;
  EXPECT_EQ(code_of(ranges.add(1, kObject, 2, kLast, Access::kRead)), Code::kInvalid);
  EXPECT_EQ(code_of(ranges.add(1, kObject, kLast, 2, Access::kRead)), Code::kInvalid);
  EXPECT_EQ(ranges.size(), 0u);
  // [1, 2^64) and the last byte of all.
  EXPECT_TRUE(ranges.add(1, kObject, 1, kLast, Access::kWrite));
  EXPECT_EQ(code_of(ranges.add(2, kObject, kLast, 1, Access::kRead)), Code::kConflict);
  EXPECT_EQ(code_of(ranges.add(2, kObject, kLast, kAll, Access::kRead)), Code::kConflict);
  EXPECT_TRUE(ranges.add(2, kObject, 0, 1, Access::kWrite));
  // A write that would go on behind it is one up to it.
  EXPECT_EQ(code_of(ranges.check_write(2, kObject, kLast, kLast)), Code::kConflict);
  EXPECT_EQ(code_of(ranges.check_write(1, kObject, 0, kLast)), Code::kConflict);
}

TEST(Ranges, NobodyHasNone) {
  RangeRegistry ranges;
  EXPECT_EQ(code_of(ranges.add(0, kObject, 0, 1, Access::kRead)), Code::kInvalid);
}

TEST(Ranges, OnlyItsClientTakesOneAway) {
  RangeRegistry ranges;
  const auto range = ranges.add(1, kObject, 0, 100, Access::kWrite);
  ASSERT_TRUE(range);
  EXPECT_EQ(code_of(ranges.remove(2, *range)), Code::kNotFound);
  EXPECT_EQ(code_of(ranges.remove(1, *range + 1)), Code::kNotFound);
  EXPECT_FALSE(ranges.check_write(2, kObject, 0, 1));
  EXPECT_TRUE(ranges.remove(1, *range));
  EXPECT_EQ(code_of(ranges.remove(1, *range)), Code::kNotFound);
  EXPECT_TRUE(ranges.check_write(2, kObject, 0, 1));
  EXPECT_EQ(ranges.size(), 0u);
}

TEST(Ranges, AClientsAreDroppedAtOnce) {
  RangeRegistry ranges;
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(ranges.add(1, kObject, 10 * i, 5, Access::kWrite));
    ASSERT_TRUE(ranges.add(2, kObject, 10 * i + 5, 5, Access::kWrite));
    ASSERT_TRUE(ranges.add(1, {5, i}, 0, kAll, Access::kRead));
  }
  ranges.drop(ClientId{1});
  ranges.drop(ClientId{3});
  EXPECT_EQ(ranges.size(), 100u);
  EXPECT_TRUE(ranges.check_write(2, kObject, 0, kLast));
  EXPECT_FALSE(ranges.check_write(1, kObject, 995, 5));
  EXPECT_TRUE(ranges.check_write(1, kObject, 990, 5));
}

TEST(Ranges, AnObjectsAreDroppedWithIt) {
  RangeRegistry ranges;
  const auto range = ranges.add(1, kObject, 0, kAll, Access::kWrite);
  const auto other = ranges.add(1, kOther, 0, kAll, Access::kWrite);
  ASSERT_TRUE(range && other);
  ranges.drop(kObject);
  ranges.drop(kObject);
  EXPECT_EQ(ranges.size(), 1u);
  EXPECT_TRUE(ranges.add(2, kObject, 0, 1, Access::kWrite));
  EXPECT_EQ(code_of(ranges.remove(1, *range)), Code::kNotFound);
  EXPECT_TRUE(ranges.remove(1, *other));
}

TEST(Ranges, AClientHasABound) {
  RangeRegistry ranges;
  for (uint64_t i = 0; i < RangeRegistry::kMaxPerClient; ++i) {
    ASSERT_TRUE(ranges.add(1, kObject, i, 1, Access::kRead));
  }
  EXPECT_EQ(code_of(ranges.add(1, kOther, 0, 1, Access::kRead)), Code::kFull);
  EXPECT_TRUE(ranges.add(2, kOther, 0, 1, Access::kRead));
  EXPECT_TRUE(ranges.remove(1, 1));
  EXPECT_TRUE(ranges.add(1, kObject, 0, 1, Access::kRead));
  ranges.drop(ClientId{1});
  EXPECT_EQ(ranges.size(), 1u);
}

// Random steps against a list that is searched from end to end.
class Model {
 public:
  struct Entry {
    RangeId id;
    ClientId client;
    ObjectId object;
    uint64_t offset;
    uint64_t last;
    Access access;
  };
  bool conflicts(const Entry& wish) const {
    return std::ranges::any_of(all, [&](const Entry& e) {
      return e.object == wish.object && e.client != wish.client && e.offset <= wish.last &&
             wish.offset <= e.last && (e.access == Access::kWrite || wish.access == Access::kWrite);
    });
  }
  std::vector<Entry> all;
};

TEST(Ranges, AgreeWithANaiveList) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    RangeRegistry ranges;
    Model model;
    for (int step = 0; step < 2000; ++step) {
      Model::Entry wish{.id = 0,
                        .client = 1 + random.below(5),
                        .object = {0, random.below(3)},
                        .offset = random.below(1000),
                        .last = 0,
                        .access = random.below(3) == 0 ? Access::kWrite : Access::kRead};
      const uint64_t length = random.below(20) == 0 ? kAll : 1 + random.below(40);
      wish.last = length == kAll ? kLast : wish.offset + length - 1;
      const uint64_t what = random.below(100);
      if (what < 60) {
        const auto added = ranges.add(wish.client, wish.object, wish.offset, length, wish.access);
        ASSERT_EQ(!added, model.conflicts(wish)) << step;
        if (added)
          model.all.push_back(
              {*added, wish.client, wish.object, wish.offset, wish.last, wish.access});
      } else if (what < 85 && !model.all.empty()) {
        const auto victim =
            model.all.begin() + static_cast<ptrdiff_t>(random.below(model.all.size()));
        ASSERT_TRUE(ranges.remove(victim->client, victim->id));
        model.all.erase(victim);
      } else if (what < 98) {
        wish.access = Access::kWrite;
        wish.last = wish.offset + 9;
        ASSERT_EQ(!ranges.check_write(wish.client, wish.object, wish.offset, 10),
                  model.conflicts(wish));
      } else if (what == 98) {
        ranges.drop(wish.client);
        std::erase_if(model.all, [&](const auto& e) { return e.client == wish.client; });
      } else {
        ranges.drop(wish.object);
        std::erase_if(model.all, [&](const auto& e) { return e.object == wish.object; });
      }
      ASSERT_EQ(ranges.size(), model.all.size()) << step;
    }
  }
}

// Each thread is a client that wants the same bytes; at any time one of them has them.
TEST(Ranges, FromManyThreads) {
  RangeRegistry ranges;
  int guarded = 0;  // by the range: a race here is one that ThreadSanitizer sees
  constexpr int kRounds = 500;
  std::vector<std::thread> threads;
  for (ClientId client = 1; client <= 4; ++client) {
    threads.emplace_back([&, client] {
      for (int round = 0; round < kRounds;) {
        const auto range = ranges.add(client, kObject, 0, kAll, Access::kWrite);
        if (!range) {
          std::this_thread::yield();
          continue;
        }
        ++guarded;
        ++round;
        if (round % 2 == 0) {
          ranges.drop(client);
        } else {
          EXPECT_TRUE(ranges.remove(client, *range));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(guarded, 4 * kRounds);
  EXPECT_EQ(ranges.size(), 0u);
}

}  // namespace
}  // namespace verbena::store
