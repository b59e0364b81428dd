// SPDX-License-Identifier: Apache-2.0
#include "base/secret_order.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace verbena {
namespace {

TEST(SecretOrder, GivesEachNumberOnceBeforeOneComesAgain) {
  SeededRandom random(1);
  SecretOrder<16> order(random);
  std::vector<bool> seen(1 << 16);
  for (size_t i = 0; i < seen.size(); ++i) {
    const uint32_t number = order.next();
    ASSERT_LT(number, seen.size());
    ASSERT_FALSE(seen[number]) << number << " came again";
    seen[number] = true;
  }
  EXPECT_TRUE(seen[order.next()]);
}

// Who has seen two numbers guesses the third: by the step between them, by either of them, and by
// what another order with the same first number gave.
TEST(SecretOrder, TwoDoNotTellTheThird) {
  SeededRandom random(2);
  constexpr int kOrders = 4000;
  int right = 0;
  for (int i = 0; i < kOrders; ++i) {
    SecretOrder<16> order(random);
    const uint32_t first = order.next();
    const uint32_t second = order.next();
    const uint32_t third = order.next();
    const uint32_t step = second - first;
    for (const uint32_t guess : {second + step, second - step, second + 1, second ^ first}) {
      right += (guess & 0xffff) == third ? 1 : 0;
    }
  }
  // By chance 0.24 of 16000.
  EXPECT_LE(right, 5);
}

TEST(SecretOrder, StepsAreAllDifferent) {
  SeededRandom random(3);
  SecretOrder<16> order(random);
  std::set<uint32_t> steps;
  uint32_t last = order.next();
  for (int i = 0; i < 1000; ++i) {
    const uint32_t next = order.next();
    steps.insert((next - last) & 0xffff);
    last = next;
  }
  EXPECT_GT(steps.size(), 950U);  // by chance some eight come twice
}

}  // namespace
}  // namespace verbena
