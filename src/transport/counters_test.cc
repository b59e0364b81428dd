// SPDX-License-Identifier: Apache-2.0
// Each NAK, drop, retry and duplicate branch is hit by a test that names it: when all tests have
// run, every counter must have been looked at by one that found it raised.
#include "transport/counters.h"

#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

class EveryCounterIsNamed : public ::testing::Environment {
 public:
  void TearDown() override {
    if (::testing::GTEST_FLAG(filter) != "*") return;  // some tests were left out on purpose
    for (size_t i = 0; i < kCounters; ++i) {
      EXPECT_TRUE(named_counters()[i])
          << kCounterName[i] << " (" << kCounterText[i] << ") is hit by no test";
    }
  }
};

[[maybe_unused]] const ::testing::Environment* const kEveryCounter =
    ::testing::AddGlobalTestEnvironment(new EveryCounterIsNamed);

TEST(Counters, HaveNamesAndWords) {
  for (size_t i = 0; i < kCounters; ++i) {
    EXPECT_EQ(kCounterName[i][0], 'k');
    EXPECT_NE(kCounterText[i][0], '\0');
  }
  Counters counters;
  counters.add(Counter::kTimeout);
  counters.add(Counter::kTimeout, 2);
  EXPECT_EQ(counters[Counter::kTimeout], 3u);
  EXPECT_EQ(counters.at(static_cast<size_t>(Counter::kTimeout)), 3u);
}

}  // namespace
}  // namespace verbena::transport::testing
