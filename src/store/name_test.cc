// SPDX-License-Identifier: Apache-2.0
// Names of objects: against every character there is, and what is none.
#include <string>

#include <gtest/gtest.h>

#include "store/record.h"

namespace verbena::store {
namespace {

std::string utf8(uint32_t c) {
  const auto byte = [](uint32_t value) { return static_cast<char>(value); };
  const auto more = [&](int shift) { return byte(0x80 | (c >> shift & 0x3f)); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xc0 | c >> 6), more(0)};
  if (c < 0x10000) return {byte(0xe0 | c >> 12), more(6), more(0)};
  return {byte(0xf0 | c >> 18), more(12), more(6), more(0)};
}

TEST(Name, EveryCharacter) {
  for (uint32_t c = 0; c < 0x120000; ++c) {
    const bool control = c < 0x20 || (c >= 0x7f && c <= 0x9f) || (c >= 0x2028 && c <= 0x202e) ||
                         (c >= 0x2066 && c <= 0x2069);
    const bool none = (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff;
    ASSERT_EQ(good_name("a" + utf8(c) + "b"), !control && !none) << std::hex << c;
  }
}

TEST(Name, EveryTwoBytes) {
  for (int a = 0x80; a < 0x100; ++a) {
    for (int b = 0; b < 0x100; ++b) {
      const std::string name = {static_cast<char>(a), static_cast<char>(b)};
      const bool good = a >= 0xc2 && a <= 0xdf && b >= (a == 0xc2 ? 0xa0 : 0x80) && b <= 0xbf;
      ASSERT_EQ(good_name(name), good) << std::hex << a << " " << b;
    }
  }
}

TEST(Name, WrittenLongerThanNeeded) {
  EXPECT_FALSE(good_name("\xc1\xa1"));          // a
  EXPECT_FALSE(good_name("\xe0\x82\xa0"));      // U+00A0
  EXPECT_FALSE(good_name("\xf0\x82\x82\xac"));  // the euro
  EXPECT_TRUE(good_name("\xe2\x82\xac"));
}

TEST(Name, CutOff) {
  for (const char* whole : {"é", "€", "🌿"}) {
    std::string name = whole;
    EXPECT_TRUE(good_name(name));
    for (name.pop_back(); !name.empty(); name.pop_back()) {
      EXPECT_FALSE(good_name(name));
      EXPECT_FALSE(good_name(name + "a"));
    }
  }
}

TEST(Name, Lengths) {
  EXPECT_TRUE(good_name(""));
  EXPECT_TRUE(good_name(std::string(kMaxNameBytes, '/')));
  EXPECT_FALSE(good_name(std::string(kMaxNameBytes + 1, '/')));
  EXPECT_FALSE(good_name(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace verbena::store
