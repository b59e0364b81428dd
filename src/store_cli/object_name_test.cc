// SPDX-License-Identifier: Apache-2.0
#include "store_cli/object_name.h"

#include <gtest/gtest.h>

#include "store/record.h"

namespace verbena::store_cli {
namespace {

using store::ObjectId;

TEST(ObjectName, TwoNumbersAreAnId) {
  EXPECT_EQ(parse_object("7:42"), ObjectName(ObjectId{7, 42}));
  EXPECT_EQ(parse_object("0x1f:0XA"), ObjectName(ObjectId{31, 10}));
  EXPECT_EQ(parse_object("0:1"), ObjectName(ObjectId{0, 1}));
  EXPECT_EQ(parse_object("007:08"), ObjectName(ObjectId{7, 8}));
  EXPECT_EQ(parse_object("1:18446744073709551615"), ObjectName(ObjectId{1, UINT64_MAX}));
}

TEST(ObjectName, AllElseIsAName) {
  for (const char* text :
       {"a",    "a b",       " ",      "-",     "--",    "-x",   ".",         "../../etc/passwd",
        "1",    "1:",        ":1",     "1:2:3", "1: 2",  "-1:2", "+1:2",      "0x:1",
        "1:0x", "1:2x",      "0x1g:1", "a:b",   "[a,b]", "%s%n", "$(reboot)", "käse/größe",
        "日本", "{\"a\":1}", "*",      "\\"}) {
    const auto object = parse_object(text);
    ASSERT_TRUE(object.has_value()) << text << ": " << object.error();
    EXPECT_EQ(*object, ObjectName(std::string(text)));
    EXPECT_EQ(parse_name(text), text);
  }
}

TEST(ObjectName, IdsThatNobodyCanHaveAreRefused) {
  for (const char* text : {"0:0", "0x0:0", "18446744073709551616:1", "1:0x10000000000000000",
                           "18446744073709551615:1", "0xffffffffffffffff:0"}) {
    EXPECT_FALSE(parse_object(text).has_value()) << text;
  }
}

TEST(ObjectName, NamesThatNobodyCanHaveAreRefused) {
  using std::string_view_literals::operator""sv;
  for (const std::string_view text :
       {""sv, "a\nb"sv, "a\0b"sv, "\x1b[2J"sv, "a\x7f"sv, "\xff"sv, "\xc3"sv, "\xc0\xaf"sv,
        "\xed\xa0\x80"sv, "\xf4\x90\x80\x80"sv, "\xe2\x82"sv}) {
    EXPECT_FALSE(parse_object(text).has_value()) << printable(text);
  }
  EXPECT_TRUE(parse_object(std::string(store::kMaxNameBytes, 'x')).has_value());
  EXPECT_FALSE(parse_object(std::string(store::kMaxNameBytes + 1, 'x')).has_value());
  EXPECT_FALSE(parse_name("1:2").has_value());
}

TEST(ObjectName, IdsAreWrittenSoThatTheyCanBeRead) {
  for (const ObjectId id :
       {ObjectId{0, 1}, ObjectId{7, 42}, ObjectId{UINT64_MAX - 1, UINT64_MAX}}) {
    EXPECT_EQ(parse_object(text_of(id)), ObjectName(id));
  }
}

TEST(ObjectName, TerminalsAreSpared) {
  EXPECT_EQ(printable("plain größe 日本"), "plain größe 日本");
  EXPECT_EQ(printable("\x1b[2J\n"), "\\x1b[2J\\x0a");
  EXPECT_EQ(printable("a\xff\xc3"), "a\\xff\\xc3");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");  // C1: a control sequence begins
  EXPECT_EQ(printable("a\u202egnp.exe"), "a\\xe2\\x80\\xaegnp.exe");  // read backwards
}

}  // namespace
}  // namespace verbena::store_cli
