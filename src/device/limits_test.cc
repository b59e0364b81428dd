// SPDX-License-Identifier: Apache-2.0
#include "device/limits.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace verbena::device {
namespace {

TEST(Limits, AreShownByNameWithTheValueThatHolds) {
  DeviceLimits limits;
  limits.max_qp = 17;
  limits.max_mr_bytes = uint64_t{1} << 40;
  limits.max_gids = 3;
  const auto rows = rows_of(limits);
  const auto value = [&](std::string_view name) {
    const auto row = std::ranges::find(rows, name, &LimitRow::name);
    return row == rows.end() ? 0 : row->value;
  };
  EXPECT_EQ(value("max_qp"), 17u);
  EXPECT_EQ(value("max_mr_bytes"), uint64_t{1} << 40);
  EXPECT_EQ(value("max_gids"), 3u);
  std::set<std::string_view> names;
  for (const LimitRow& row : rows) {
    names.insert(row.name);
    EXPECT_GT(row.value, 0u) << row.name;
  }
  EXPECT_EQ(names.size(), rows.size());
}

}  // namespace
}  // namespace verbena::device
