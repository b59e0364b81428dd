// SPDX-License-Identifier: Apache-2.0
#include "backend/tier_choice.h"

#include <gtest/gtest.h>

namespace verbena::backend {
namespace {

TEST(TierChoice, Directories) {
  EXPECT_EQ(std::get<DirectoryChoice>(*parse_tier("dir:/srv/a:b?c")).path, "/srv/a:b?c");
  for (const char* const bad : {"", "dir", "dir:", "/srv", "s3:x", "DIR:/srv"}) {
    EXPECT_FALSE(parse_tier(bad)) << bad;
  }
}

TEST(TierChoice, Pools) {
  const auto plain = std::get<RadosOptions>(*parse_tier("rados:cache"));
  EXPECT_EQ(plain.pool, "cache");
  EXPECT_EQ(plain.name_space, "");
  const auto all = std::get<RadosOptions>(
      *parse_tier("rados:p/n/m?conf=/etc/a=b.conf&user=me&timeout=5&lease=7"));
  EXPECT_EQ(all.operation_timeout_s, 5u);
  EXPECT_EQ(all.lease_s, 7u);
  EXPECT_EQ(all.pool, "p");
  EXPECT_EQ(all.name_space, "n/m");
  EXPECT_EQ(all.conf, "/etc/a=b.conf");
  EXPECT_EQ(all.user, "me");
  for (const char* const bad : {"rados", "rados:", "rados:/n", "rados:p?x=1", "rados:p?conf",
                                "rados:p?timeout=1", "rados:p?lease=5s"}) {
    EXPECT_FALSE(parse_tier(bad)) << bad;
  }
}

}  // namespace
}  // namespace verbena::backend
