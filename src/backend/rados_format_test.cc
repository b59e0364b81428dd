// SPDX-License-Identifier: Apache-2.0
#include "backend/rados_format.h"

#include <gtest/gtest.h>

#include "backend/object_path.h"
#include "store/crc_parts.h"

namespace verbena::backend {
namespace {

RadosHead example_head() {
  return {.key = {"a/b", {1, 2}},
          .state = {.version = 5, .size = kStripeBytes + 1, .modified_ns = 7},
          .stripes = {5, 0}};
}

TEST(RadosFormat, HeadsAreReadAsTheyWereWritten) {
  const RadosHead head = example_head();
  const std::string value = encode(head);
  EXPECT_EQ(value.size(), 50u + 3 + 4 + 2 * 8 + 4);
  EXPECT_EQ(value.substr(0, 16), std::string("VBHD\0\0\0\1\0\0\0\0\0\0\0\5", 16));
  EXPECT_EQ(decode_rados_head(value), head);
  for (size_t i = 0; i < value.size(); ++i) {
    std::string other = value;
    other[i] = static_cast<char>(other[i] ^ 1);
    EXPECT_EQ(decode_rados_head(other), std::nullopt) << i;
    EXPECT_EQ(decode_rados_head(value.substr(0, i)), std::nullopt) << i;
  }
}

TEST(RadosFormat, RefusesHeadsThatNoWriterWrites) {
  RadosHead head = example_head();
  head.stripes.push_back(1);
  EXPECT_EQ(decode_rados_head(encode(head)), std::nullopt);
  head = example_head();
  head.state.version = 0;
  EXPECT_EQ(decode_rados_head(encode(head)), std::nullopt);
  head = example_head();
  head.key.name = "\n";
  EXPECT_EQ(decode_rados_head(encode(head)), std::nullopt);
}

TEST(RadosFormat, StripeNames) {
  const StripeName name{digest_of({"a", {}}), 0x1234, 7};
  const std::string text = text_of(name);
  EXPECT_EQ(parse_stripe_name(text), name);
  EXPECT_EQ(text.substr(39), ".0000000000001234.0000000000000007");
  EXPECT_EQ(parse_stripe_name(text + "0"), std::nullopt);
  EXPECT_EQ(parse_stripe_name("index.00"), std::nullopt);
  std::string other = text;
  other[45] = 'g';
  EXPECT_EQ(parse_stripe_name(other), std::nullopt);
}

TEST(RadosFormat, TablesAreThoseOfTheirStripe) {
  const StripeName name{digest_of({"a", {}}), 5, 1};
  StripeTable table{.parts = 3};
  table.crcs.fill(store::crc_of_zeros(kPartBytes));
  table.crcs[1] = 77;
  std::array<uint8_t, kStripeTableBytes> bytes{};
  encode(table, name, bytes);
  const auto read = decode_stripe_table(bytes, name);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->parts, 3u);
  EXPECT_EQ(read->crcs, table.crcs);
  EXPECT_FALSE(decode_stripe_table(bytes, {name.digest, 6, 1}).has_value());
  EXPECT_FALSE(decode_stripe_table(bytes, {name.digest, 5, 2}).has_value());
  EXPECT_FALSE(decode_stripe_table(bytes, {digest_of({"b", {}}), 5, 1}).has_value());
  bytes[70] ^= 1;
  EXPECT_FALSE(decode_stripe_table(bytes, name).has_value());
}

}  // namespace
}  // namespace verbena::backend
