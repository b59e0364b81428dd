// SPDX-License-Identifier: Apache-2.0
#include "verbs/handle.h"

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace verbena::verbs {
namespace {

struct Shown {
  int context;
};
struct Object : Shown, Handle<Object> {
  std::unique_ptr<int> inside = std::make_unique<int>(1);
};

TEST(Handle, TheDeadShowWhatTheyShowedAndAreKnown) {
  auto* const object = new Object;
  object->context = 42;
  EXPECT_TRUE(object->is_alive());
  delete object;
  EXPECT_FALSE(object->is_alive());
  EXPECT_EQ(object->context, 42);
  EXPECT_FALSE(object->claim());
}

TEST(Handle, ToAskForItsEndIsNothingToTheOthers) {
  auto* const object = new Object;
  EXPECT_TRUE(object->claim());
  EXPECT_TRUE(object->is_alive());
  object->disclaim();
  EXPECT_TRUE(object->is_alive());
  EXPECT_TRUE(object->claim());
  object->doom();
  EXPECT_FALSE(object->is_alive());
  EXPECT_FALSE(object->is_dead());
  EXPECT_FALSE(object->claim());
  object->retire();
  EXPECT_TRUE(object->is_dead());
}

TEST(Handle, OneOfManyDestroysIt) {
  auto* const object = new Object;
  std::atomic<int> heard = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      // Each is refused some times before one has its way.
      for (int i = 0; i < 100; ++i) {
        if (!object->claim()) return;
        EXPECT_TRUE(object->is_alive());
        if (i < 99) object->disclaim();
      }
      ++heard;
      object->retire();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(heard, 1);
  EXPECT_TRUE(object->is_dead());
}

struct Slow : Shown, Handle<Slow, 2> {
  std::unique_ptr<int> inside = std::make_unique<int>(7);
};

TEST(Handle, TheInsideLingers) {
  std::vector<Slow*> dead;
  for (int i = 0; i < 3; ++i) {
    dead.push_back(new Slow);
    ASSERT_TRUE(dead.back()->claim());
    dead.back()->retire();
    EXPECT_TRUE(dead.back()->is_dead());
  }
  EXPECT_EQ(*dead[1]->inside, 7) << "a call that had begun goes on";
  EXPECT_EQ(*dead[2]->inside, 7);
}

TEST(Handle, MemoryIsNotUsedAgainSoonButIs) {
  std::set<const Object*> seen;
  const Object* last = nullptr;
  for (int i = 0; i < 1000; ++i) {
    auto* const object = new Object;
    EXPECT_NE(object, last);
    last = object;
    seen.insert(object);
    delete object;
  }
  EXPECT_LT(seen.size(), 200u);
}

}  // namespace
}  // namespace verbena::verbs
