// SPDX-License-Identifier: Apache-2.0
#include "store_cli/sizes.h"

#include <gtest/gtest.h>

namespace verbena::store_cli {
namespace {

TEST(Sizes, AreReadAsPeopleWriteThem) {
  struct Case {
    const char* text;
    uint64_t bytes;
  };
  for (const auto& [text, bytes] : {Case{"0", 0},
                                    {"4096", 4096},
                                    {"4096B", 4096},
                                    {"10k", 10240},
                                    {"10K", 10240},
                                    {"10KiB", 10240},
                                    {"10 KiB", 10240},
                                    {"10KB", 10000},
                                    {"1.5M", 1572864},
                                    {"0.5G", 536870912},
                                    {"512MiB", 536870912},
                                    {"2TB", 2000000000000},
                                    {"15E", 15ULL << 60},
                                    {"18446744073709551615", UINT64_MAX}}) {
    EXPECT_EQ(parse_size(text), bytes) << text;
  }
}

TEST(Sizes, AreRefusedWithAReason) {
  for (const char* text : {"",
                           "G",
                           "-1",
                           "+1",
                           " 1",
                           "1 ",
                           "1  G",
                           "1GG",
                           "1GiBB",
                           "1.",
                           "1.G",
                           ".5G",
                           "0x10",
                           "1e3",
                           "1.5",
                           "16E",
                           "18446744073709551616",
                           "99999999999E",
                           "1.0000000001G",
                           "1,5G",
                           "nan"}) {
    const auto size = parse_size(text);
    ASSERT_FALSE(size.has_value()) << text << " gave " << *size;
    EXPECT_NE(size.error().find("invalid size"), std::string::npos);
  }
}

TEST(Sizes, RangesAreOffsetAndLength) {
  const auto range = parse_range("4K:1M");
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->offset, 4096U);
  EXPECT_EQ(range->length, 1048576U);
  EXPECT_EQ(parse_range("7:")->offset, 7U);
  EXPECT_EQ(parse_range("7:")->length, 0U);
  for (const char* text : {"", "7", ":", ":7", "7:0", "1:x", "x:1", "1:2:3",
                           "1:18446744073709551615", "18446744073709551615:1"}) {
    EXPECT_FALSE(parse_range(text).has_value()) << text;
  }
}

TEST(Sizes, AreShortForPeople) {
  EXPECT_EQ(human_size(0), "0 B");
  EXPECT_EQ(human_size(9999), "9999 B");
  EXPECT_EQ(human_size(10240), "10.0 KiB");
  EXPECT_EQ(human_size(1048576), "1.0 MiB");
  EXPECT_EQ(human_size(300 << 20), "300 MiB");
  EXPECT_EQ(human_size(uint64_t{10} << 30), "10.0 GiB");
  EXPECT_EQ(human_size(UINT64_MAX), "16.0 EiB");
}

}  // namespace
}  // namespace verbena::store_cli
