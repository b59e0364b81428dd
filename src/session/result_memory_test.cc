// SPDX-License-Identifier: Apache-2.0
#include "session/result_memory.h"

#include <gtest/gtest.h>

namespace verbena::session {
namespace {

using Verdict = ResultMemory::Verdict;
constexpr protocol::MessageType kOne{101};
constexpr protocol::MessageType kOther{105};
constexpr uint16_t kSpan = 8;

TEST(ResultMemory, AnswersAgainWhatItFinished) {
  ResultMemory memory;
  memory.forget_below(1);
  EXPECT_EQ(memory.begin(3, kOne, kSpan).verdict, Verdict::kNew);
  EXPECT_TRUE(memory.executing(3));
  EXPECT_EQ(memory.begin(3, kOne, kSpan).verdict, Verdict::kExecuting);
  memory.finish(3, std::vector<uint8_t>{7, 8});
  EXPECT_FALSE(memory.executing(3));
  const auto again = memory.begin(3, kOne, kSpan);
  EXPECT_EQ(again.verdict, Verdict::kFinished);
  EXPECT_TRUE(std::ranges::equal(again.response, std::vector<uint8_t>{7, 8}));
  EXPECT_EQ(memory.begin(3, kOther, kSpan).verdict, Verdict::kMismatch);
}

TEST(ResultMemory, AnAbandonedRequestIsNewAgain) {
  ResultMemory memory;
  EXPECT_EQ(memory.begin(1, kOne, kSpan).verdict, Verdict::kNew);
  memory.abandon(1);
  EXPECT_EQ(memory.begin(1, kOne, kSpan).verdict, Verdict::kNew);
}

TEST(ResultMemory, TheSpanBoundsIt) {
  ResultMemory memory;
  memory.forget_below(10);
  EXPECT_EQ(memory.begin(9, kOne, kSpan).verdict, Verdict::kSpan);
  EXPECT_EQ(memory.begin(10 + kSpan, kOne, kSpan).verdict, Verdict::kSpan);
  for (uint64_t id = 10; id < 10 + kSpan; ++id) {
    EXPECT_EQ(memory.begin(id, kOne, kSpan).verdict, Verdict::kNew);
    memory.finish(id, {});
  }
  EXPECT_EQ(memory.size(), kSpan);
  memory.forget_below(14);
  EXPECT_EQ(memory.size(), kSpan - 4u);
  memory.forget_below(3);  // it does not go back
  EXPECT_EQ(memory.oldest(), 14u);
  EXPECT_EQ(memory.begin(UINT64_MAX, kOne, kSpan).verdict, Verdict::kSpan);
}

TEST(ResultMemory, WhatIsExecutingIsForgottenWhenItFinishes) {
  ResultMemory memory;
  EXPECT_EQ(memory.begin(1, kOne, kSpan).verdict, Verdict::kNew);
  memory.forget_below(5);
  EXPECT_EQ(memory.size(), 1u);
  memory.finish(1, {});
  EXPECT_EQ(memory.size(), 0u);
}

}  // namespace
}  // namespace verbena::session
