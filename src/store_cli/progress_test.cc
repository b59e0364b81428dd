// SPDX-License-Identifier: Apache-2.0
#include "store_cli/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/utf8.h"

namespace verbena::store_cli {
namespace {

using testing::HasSubstr;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kMiB = 1 << 20;

TEST(Progress, IsNotShownBeforeASecond) {
  ProgressMeter meter("put", 100 * kMiB, 5 * kSecond);
  EXPECT_FALSE(meter.update(1 * kMiB, 5 * kSecond, 79));
  EXPECT_FALSE(meter.update(50 * kMiB, 6 * kSecond - 1, 79));
  EXPECT_TRUE(meter.update(50 * kMiB, 6 * kSecond, 79));
}

TEST(Progress, IsShownFiveTimesASecondAtMost) {
  ProgressMeter meter("put", 100 * kMiB, 0);
  int shown = 0;
  for (uint64_t ms = 1000; ms < 2000; ++ms) {
    shown += meter.update(ms * 1000, ms * 1'000'000, 79) ? 1 : 0;
  }
  EXPECT_EQ(shown, 5);
}

TEST(Progress, HasBytesRateAndWhatIsLeft) {
  ProgressMeter meter("put", 400 * kMiB, 0);
  const auto line = meter.update(100 * kMiB, kSecond, 100);
  ASSERT_TRUE(line);
  EXPECT_EQ(
      *line,
      "put  [#######-----------------------]   25%  100 MiB of 400 MiB  100 MiB/s  0:03 left");
}

TEST(Progress, FollowsTheRate) {
  ProgressMeter meter("put", 10000 * kMiB, 0);
  uint64_t done = 0;
  std::string line;
  for (uint64_t s = 1; s <= 30; ++s) {
    done += s <= 10 ? 100 * kMiB : 10 * kMiB;
    line = meter.update(done, s * kSecond, 100).value_or("");
  }
  EXPECT_THAT(line, HasSubstr("10.0 MiB/s"));
}

TEST(Progress, FitsNarrowTerminals) {
  for (const size_t width : {1U, 5U, 20U, 40U, 79U, 200U}) {
    ProgressMeter meter("put", 400 * kMiB, 0);
    const auto line = meter.update(100 * kMiB, kSecond, width);
    ASSERT_TRUE(line);
    EXPECT_LE(line->size(), width);
  }
}

TEST(Progress, TellsOfTheFileItIsAt) {
  ProgressMeter meter("sending", 400 * kMiB, 0);
  const FileProgress file{"photos/a.jpg", 50 * kMiB, 100 * kMiB};
  EXPECT_EQ(meter.update(100 * kMiB, kSecond, 120, file).value_or(""),
            "sending  [#######-----------------------]   25%  100 MiB of 400 MiB  100 MiB/s  0:03 "
            "left  photos/a.jpg 50%  0:01 left");
  EXPECT_EQ(meter.update(200 * kMiB, 2 * kSecond, 79, file).value_or(""),
            "sending   50%  200 MiB of 400 MiB  100 MiB/s  0:02 left  photos/a.jpg 50%");
  EXPECT_EQ(meter.update(300 * kMiB, 3 * kSecond, 60, file).value_or(""),
            "sending   75%  300 MiB of 400 MiB  100 MiB/s  0:01 left");
  const auto unknown = meter.update(400 * kMiB, 4 * kSecond, 120, {"photos/a.jpg", 0, 0});
  EXPECT_THAT(unknown.value_or(""), testing::EndsWith("  photos/a.jpg"));
}

TEST(Progress, CutsNamesBetweenCharacters) {
  for (size_t width = 40; width < 120; ++width) {
    ProgressMeter meter("receiving", 0, 0);
    const auto line = meter.update(
        kMiB, kSecond, width, {"\u00e4\u00f6\u00fc/\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587", 0, kMiB});
    std::string_view rest = line.value();
    size_t columns = 0;
    while (!rest.empty()) {
      const uint32_t character = take_character(rest);
      ASSERT_NE(character, 0u) << *line;
      columns += character >= 0x1100 ? 2 : 1;
    }
    EXPECT_LE(columns, width) << *line;
  }
}

TEST(Progress, GoesWithoutATotal) {
  ProgressMeter meter("put", 0, 0);
  EXPECT_EQ(meter.update(100 * kMiB, 2 * kSecond, 79), "put  100 MiB  50.0 MiB/s");
}

TEST(Progress, SurvivesAFileThatGrowsAndAStandstill) {
  ProgressMeter meter("put", kMiB, 0);
  EXPECT_THAT(meter.update(5 * kMiB, kSecond, 79).value_or(""),
              HasSubstr("100%  1.0 MiB of 1.0 MiB"));
  ProgressMeter still("put", kMiB, 0);
  EXPECT_THAT(still.update(0, kSecond, 79).value_or(""), HasSubstr("0%"));
  EXPECT_THAT(still.update(1, 100000 * kSecond, 79).value_or(""), HasSubstr("left"));
}

}  // namespace
}  // namespace verbena::store_cli
