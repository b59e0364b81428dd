// SPDX-License-Identifier: Apache-2.0
#include "backend/tier_choice.h"

#include <gtest/gtest.h>

namespace verbena::backend {
namespace {

TEST(TierChoice, Directories) {
  EXPECT_EQ(std::get<DirectoryChoice>(*parse_tier("dir:/srv/a:b?c")).path, "/srv/a:b?c");
  for (const char* const bad : {"", "dir", "dir:", "/srv", "s4:x", "DIR:/srv"}) {
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

TEST(TierChoice, Buckets) {
  const auto plain = std::get<S3Options>(*parse_tier("s3:cache?endpoint=http://127.0.0.1:8000"));
  EXPECT_EQ(plain.bucket, "cache");
  EXPECT_EQ(plain.prefix, "");
  EXPECT_EQ(plain.endpoint, "http://127.0.0.1:8000");
  EXPECT_EQ(plain.region, "us-east-1");
  EXPECT_FALSE(plain.bucket_in_host);
  const auto all = std::get<S3Options>(
      *parse_tier("s3:b.c-d/e/f?endpoint=https://"
                  "s3.example.org&region=eu-west-1&style=host&timeout=5&lease=7"));
  EXPECT_EQ(all.bucket, "b.c-d");
  EXPECT_EQ(all.prefix, "e/f");
  EXPECT_EQ(all.region, "eu-west-1");
  EXPECT_TRUE(all.bucket_in_host);
  EXPECT_EQ(all.timeout_s, 5u);
  EXPECT_EQ(all.lease_s, 7u);
  for (const char* const bad :
       {"s3", "s3:", "s3:cache", "s3:x?endpoint=http://a", "s3:cache?endpoint=a",
        "s3:cache?endpoint=ftp://a", "s3:cache?endpoint=http://a/b", "s3:cache?endpoint=http://u@a",
        "s3:cache/?style=x", "s3:cache/../a?endpoint=http://a",
        "s3:cache?endpoint=http://a&style=x", "s3:cache?endpoint=http://a&lease=0",
        "s3:cache?endpoint=http://a&region=a:b"}) {
    EXPECT_FALSE(parse_tier(bad)) << bad;
  }
  // A key has 1024 bytes: what follows the prefix needs room.
  std::string folders(200, 'x');
  folders += "/" + folders + "/" + std::string(98, 'x');
  EXPECT_EQ(parse_tier("s3:x?endpoint=http://a").error(),
            "'x' is not the name of a bucket: 3 to 63 letters, digits, '-', '.' and '_'");
  EXPECT_EQ(parse_tier("s3:?endpoint=http://a").error(),
            "the bucket is missing: s3:BUCKET[/PREFIX]?endpoint=URL");
  EXPECT_EQ(parse_tier("dir:").error(), "the path is missing: dir:PATH");
  EXPECT_TRUE(parse_tier("s3:cache/" + folders + "?endpoint=http://a"));
  EXPECT_FALSE(parse_tier("s3:cache/" + folders + "x?endpoint=http://a"));
}

}  // namespace
}  // namespace verbena::backend
