// SPDX-License-Identifier: Apache-2.0
#include "transport/doorbells.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "transport/queue_pair.h"

namespace verbena::transport {
namespace {

struct DoorbellsTest : ::testing::Test {
  DoorbellsTest() {
    for (uint32_t i = 0; i < 3; ++i) {
      qps.push_back(std::make_unique<QueuePair>(
          Qpn(i), QpInit{}, QpQueues{SendQueue({4, 1, 0}, false), RecvQueue(4, 1)}));
    }
  }
  [[nodiscard]] std::vector<uint32_t> answered() {
    std::vector<uint32_t> numbers;
    bells.answer_all([&](QueuePair& qp) { numbers.push_back(qp.qpn.value); });
    std::ranges::sort(numbers);
    return numbers;
  }

  std::vector<std::unique_ptr<QueuePair>> qps;
  Doorbells bells;
};

using Numbers = std::vector<uint32_t>;

TEST_F(DoorbellsTest, TheFirstThatWasRungIsAnsweredFirst) {
  for (const uint32_t i : {1, 0, 2}) bells.ring(*qps[i]);
  bells.forget(*qps[0]);
  Numbers numbers;
  bells.answer_all([&](QueuePair& qp) { numbers.push_back(qp.qpn.value); });
  EXPECT_EQ(numbers, (Numbers{1, 2}));
}

TEST_F(DoorbellsTest, EachThatWasRungIsAnsweredOnce) {
  EXPECT_FALSE(bells.any());
  bells.ring(*qps[0]);
  bells.ring(*qps[2]);
  bells.ring(*qps[0]);
  EXPECT_TRUE(bells.any());
  EXPECT_EQ(answered(), (Numbers{0, 2}));
  EXPECT_FALSE(bells.any());
  EXPECT_EQ(answered(), Numbers{});
}

TEST_F(DoorbellsTest, OneThatIsRungWhileItIsAnsweredComesAgain) {
  bells.ring(*qps[1]);
  bells.answer_all([&](QueuePair& qp) { bells.ring(qp); });
  EXPECT_EQ(answered(), Numbers{1});
}

TEST_F(DoorbellsTest, OneThatIsGoneIsNotAnswered) {
  for (const auto& qp : qps) bells.ring(*qp);
  bells.forget(*qps[1]);
  EXPECT_EQ(answered(), (Numbers{0, 2}));
  bells.forget(*qps[1]);
  EXPECT_FALSE(bells.any());
}

}  // namespace
}  // namespace verbena::transport
