// SPDX-License-Identifier: Apache-2.0
#include "demo/show_limits.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

namespace verbena::demo {
namespace {

TEST(ShowLimits, OneLineEachWithTheValueThatHolds) {
  device::DeviceLimits limits;
  limits.max_qp = 17;
  const std::string text = table_of(limits);
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(text, '\n')), device::rows_of(limits).size());
  EXPECT_TRUE(text.starts_with("max_qp                        17\n")) << text;
  EXPECT_NE(text.find("max_mr_bytes      70368744177664\n"), std::string::npos) << text;
}

TEST(ShowLimits, AsJson) {
  device::DeviceLimits limits;
  limits.max_qp = 17;
  const auto json = nlohmann::json::parse(json_of(limits));
  EXPECT_EQ(json.size(), device::rows_of(limits).size());
  EXPECT_EQ(json["max_qp"], 17);
  EXPECT_EQ(json["max_mr_bytes"], limits.max_mr_bytes);
}

}  // namespace
}  // namespace verbena::demo
