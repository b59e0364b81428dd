// SPDX-License-Identifier: Apache-2.0
#include "device/helper_alarm.h"

#include <functional>
#include <utility>

#include <gtest/gtest.h>

namespace verbena::device {

// Not without a name: the compiler wants none in a class template of a header.
namespace alarm_testing {

// Lets the other side act before the step whose turn it is.
struct Interleaving {
  static void step() {
    if (left-- == 0) std::exchange(act, {})();
  }
  static inline int left = -1;
  static inline std::function<void()> act;
};

template <typename T>
class SteppedAtomic {
 public:
  explicit SteppedAtomic(T value) : value_(value) {}
  [[nodiscard]] T load(std::memory_order) const {
    Interleaving::step();
    return value_;
  }
  void store(T value, std::memory_order) {
    Interleaving::step();
    value_ = value;
  }
  T exchange(T value) { return std::exchange(value_, value); }

 private:
  T value_;
};

}  // namespace alarm_testing

namespace {

using alarm_testing::Interleaving;
using alarm_testing::SteppedAtomic;

constexpr Time kNow = 100 * kSecond;
constexpr Time kSoon = kNow + kMillisecond;

TEST(HelperAlarm, OneThreadReceives) {
  HelperAlarm alarm;
  EXPECT_FALSE(alarm.waited(kNow));
  EXPECT_TRUE(alarm.enter());
  EXPECT_FALSE(alarm.enter());
  EXPECT_TRUE(alarm.waited(kNow));
  EXPECT_EQ(alarm.set(kNever, true, kSoon), kNever);
  EXPECT_TRUE(alarm.leave(kNow)) << "it sleeps for ever";
  EXPECT_TRUE(alarm.waited(kNow)) << "expected back";
  EXPECT_EQ(alarm.set(kNever, true, kSoon), kSoon);
  EXPECT_FALSE(alarm.waited(kSoon));
  EXPECT_TRUE(alarm.enter());
  EXPECT_FALSE(alarm.leave(kNow)) << "it looks soon anyway";
  alarm.leave_for_good();
  EXPECT_FALSE(alarm.waited(kNow));
}

TEST(HelperAlarm, IsMovedUp) {
  HelperAlarm alarm;
  EXPECT_EQ(alarm.set(kNever, false, kSoon), kNever);
  EXPECT_TRUE(alarm.move_up(kNow));
  EXPECT_FALSE(alarm.move_up(kSoon));
}

// A thread leaves while the helper is about to sleep, and between any two steps of the one the
// other does all of its own: either the thread wakes the helper, or the helper does not sleep for
// long.
TEST(HelperAlarm, ALeaverIsNeverMissed) {
  constexpr int kMostSteps = 6;
  for (const bool helper_first : {true, false}) {
    for (int at = 0; at < kMostSteps; ++at) {
      BasicHelperAlarm<SteppedAtomic> alarm;
      (void)alarm.set(kSoon, false, kSoon);  // it looked often, just now
      EXPECT_TRUE(alarm.enter());
      bool woken = false;
      Time until = 0;
      const std::function<void()> leave = [&] { woken = alarm.leave(kNow); };
      const std::function<void()> sleep = [&] { until = alarm.set(kNever, true, kSoon); };
      Interleaving::act = helper_first ? leave : sleep;
      Interleaving::left = at;
      (helper_first ? sleep : leave)();
      Interleaving::left = -1;
      if (Interleaving::act) std::exchange(Interleaving::act, {})();  // after the last step
      EXPECT_TRUE(woken || until == kSoon) << (helper_first ? "helper" : "thread") << " at " << at;
    }
  }
}

}  // namespace
}  // namespace verbena::device
