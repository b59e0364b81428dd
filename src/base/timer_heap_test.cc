// SPDX-License-Identifier: Apache-2.0
// The heap against a multimap that does what the heap promises in the simplest way.
#include "base/timer_heap.h"

#include <algorithm>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace verbena {
namespace {

struct Object {
  int id = 0;
  TimerHook timer;
};

TEST(TimerHeap, FiresWhenDueAndOnlyOnce) {
  TimerHeap<Object> heap;
  Object a{1, {}};
  EXPECT_EQ(heap.next(), kNever);
  heap.set(a, 100);
  EXPECT_EQ(heap.next(), 100);
  EXPECT_EQ(heap.pop_due(99), nullptr);
  EXPECT_EQ(heap.pop_due(100), &a);
  EXPECT_EQ(heap.pop_due(1000), nullptr);
  EXPECT_EQ(heap.size(), 0u);
}

TEST(TimerHeap, ADeadlineMovedLaterFiresLater) {
  TimerHeap<Object> heap;
  Object a{1, {}};
  heap.set(a, 100);
  heap.set(a, 200);
  EXPECT_LE(heap.next(), 200);
  EXPECT_EQ(heap.pop_due(150), nullptr);
  EXPECT_EQ(heap.next(), 200);
  EXPECT_EQ(heap.pop_due(200), &a);
}

TEST(TimerHeap, ADeadlineMovedEarlierFiresEarlier) {
  TimerHeap<Object> heap;
  Object a{1, {}};
  Object b{2, {}};
  heap.set(a, 100);
  heap.set(b, 200);
  heap.set(b, 50);
  EXPECT_EQ(heap.next(), 50);
  EXPECT_EQ(heap.pop_due(60), &b);
  EXPECT_EQ(heap.pop_due(60), nullptr);
}

TEST(TimerHeap, NeverCancels) {
  TimerHeap<Object> heap;
  Object a{1, {}};
  heap.set(a, 100);
  heap.set(a, kNever);
  EXPECT_EQ(heap.pop_due(1000), nullptr);
  EXPECT_EQ(heap.next(), kNever);
  heap.set(a, kNever);
  EXPECT_EQ(heap.size(), 0u);
}

TEST(TimerHeap, ARemovedObjectIsForgotten) {
  TimerHeap<Object> heap;
  std::vector<Object> objects(10);
  for (int i = 0; i < 10; ++i) heap.set(objects[static_cast<size_t>(i)], 100 - i);
  for (auto& object : objects) heap.remove(object);
  for (auto& object : objects) heap.remove(object);
  EXPECT_EQ(heap.size(), 0u);
}

TEST(TimerHeap, BehavesAsAMultimap) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    TimerHeap<Object> heap;
    std::vector<Object> objects(1 + random.below(40));
    for (size_t i = 0; i < objects.size(); ++i) objects[i].id = static_cast<int>(i);
    std::multimap<Time, int> model;
    const auto forget = [&](int id) {
      std::erase_if(model, [id](const auto& entry) { return entry.second == id; });
    };
    Time now = 0;
    for (int step = 0; step < 2000; ++step) {
      Object& object = objects[random.below(objects.size())];
      switch (random.below(5)) {
        case 0:
        case 1: {
          const Time deadline = now + static_cast<Time>(random.below(100));
          heap.set(object, deadline);
          forget(object.id);
          model.emplace(deadline, object.id);
          break;
        }
        case 2:
          heap.set(object, kNever);
          forget(object.id);
          break;
        case 3:
          heap.remove(object);
          forget(object.id);
          break;
        default: {
          now += static_cast<Time>(random.below(30));
          std::vector<int> fired;
          while (Object* due = heap.pop_due(now)) fired.push_back(due->id);
          std::vector<int> want;
          while (!model.empty() && model.begin()->first <= now) {
            want.push_back(model.begin()->second);
            model.erase(model.begin());
          }
          std::ranges::sort(fired);
          std::ranges::sort(want);
          ASSERT_EQ(fired, want);
          ASSERT_GT(heap.next(), now);  // or whoever sleeps until next() would spin
        }
      }
      // Possibly early, never late.
      ASSERT_LE(heap.next(), model.empty() ? kNever : model.begin()->first);
      ASSERT_LE(heap.size(), objects.size());
    }
  }
}

}  // namespace
}  // namespace verbena
