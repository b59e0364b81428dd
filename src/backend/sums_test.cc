// SPDX-License-Identifier: Apache-2.0
#include "backend/sums.h"

#include <gtest/gtest.h>

#include "backend/part_ranges.h"
#include "store/crc_parts.h"

namespace verbena::backend {
namespace {

TEST(Sums, PlacesOfParts) {
  EXPECT_EQ(place_of(0), (SumsPlace{0, 0}));
  EXPECT_EQ(place_of(754), (SumsPlace{0, 754}));
  EXPECT_EQ(place_of(755), (SumsPlace{1, 0}));
  EXPECT_EQ(place_of(755 + 1022), (SumsPlace{1, 1022}));
  EXPECT_EQ(place_of(755 + 1023), (SumsPlace{2, 0}));
  for (const uint64_t page : {0, 1, 2, 1000}) {
    EXPECT_EQ(place_of(first_part_of(page)), (SumsPlace{page, 0}));
    EXPECT_EQ(first_part_of(page) + parts_in(page), first_part_of(page + 1));
  }
  EXPECT_EQ(pages_for(0), 1u);
  EXPECT_EQ(pages_for(755), 1u);
  EXPECT_EQ(pages_for(756), 2u);
}

// The example of docs/backend.md: the format does not change unnoticed.
TEST(Sums, HeadIsAsDocumented) {
  const SumsHead head{.key = {"a/b", {1, 2}},
                      .state = {.version = 0x0102030405060708, .size = 5, .modified_ns = 9},
                      .file_modified_ns = 10};
  SumsPage page{};
  set_crc(page, {0, 0}, 0x11223344);
  encode(head, page);
  seal(page, 0);
  EXPECT_EQ(decode_sums_head(page), head);
  EXPECT_EQ(crc_at(page, {0, 0}), 0x11223344u);
  EXPECT_EQ(crc_at(page, {0, 1}), store::crc_of_zeros(kPartBytes));
  const auto text = [&](size_t at, size_t n) {
    return std::string(page.begin() + static_cast<ptrdiff_t>(at),
                       page.begin() + static_cast<ptrdiff_t>(at + n));
  };
  EXPECT_EQ(text(0, 14), std::string("VERBENA SUMS\n\0", 14));
  EXPECT_EQ(text(14, 6), std::string("\0\0\0\1\0\0", 6));
  EXPECT_EQ(text(20, 8), std::string("\1\2\3\4\5\6\7\10"));
  EXPECT_EQ(page[35], 5);
  EXPECT_EQ(page[43], 9);
  EXPECT_EQ(page[51], 10);
  EXPECT_EQ(page[59], 1);
  EXPECT_EQ(page[67], 2);
  EXPECT_EQ(text(68, 5), std::string("\0\3a/b", 5));
}

TEST(Sums, PagesOfHolesAreZeros) {
  SumsPage page{};
  EXPECT_TRUE(is_sealed(page, 1));
  EXPECT_FALSE(is_sealed(page, 0));
  set_crc(page, {1, 3}, store::crc_of_zeros(kPartBytes));
  seal(page, 1);
  EXPECT_EQ(page, SumsPage{});
  set_crc(page, {1, 3}, 77);
  EXPECT_FALSE(is_sealed(page, 1));
  seal(page, 1);
  EXPECT_TRUE(is_sealed(page, 1));
  page[100] ^= 1;
  EXPECT_FALSE(is_sealed(page, 1));
}

TEST(Sums, RefusesWhatNoWriterWrites) {
  SumsPage good{};
  encode({.key = {"x", {}}, .state = {1, 2, 3}, .file_modified_ns = 4}, good);
  seal(good, 0);
  const auto fault_with = [&](size_t at, uint8_t value) {
    SumsPage page = good;
    page[at] = value;
    seal(page, 0);
    return decode_sums_head(page).error();
  };
  EXPECT_EQ(fault_with(3, 'x'), SumsFault::kMagic);
  EXPECT_EQ(fault_with(17, 2), SumsFault::kVersion);
  EXPECT_EQ(fault_with(19, 1), SumsFault::kShape);     // reserved
  EXPECT_EQ(fault_with(27, 0), SumsFault::kShape);     // version 0
  EXPECT_EQ(fault_with(28, 0x80), SumsFault::kShape);  // size
  EXPECT_EQ(fault_with(68, 4), SumsFault::kShape);     // name of 1025 bytes
  EXPECT_EQ(fault_with(70, 1), SumsFault::kShape);     // a control character in it
  EXPECT_EQ(fault_with(71, 1), SumsFault::kShape);     // something after it
  good[1071] = 1;
  EXPECT_EQ(decode_sums_head(good).error(), SumsFault::kCheck);
  EXPECT_EQ(decode_sums_head(SumsPage{}).error(), SumsFault::kCheck);
}

TEST(PartRanges, AddsOnceAndNamesGaps) {
  PartRanges ranges;
  EXPECT_TRUE(ranges.covers(5, 5));
  EXPECT_TRUE(ranges.add(10, 20));
  EXPECT_FALSE(ranges.add(19, 21));
  EXPECT_FALSE(ranges.add(5, 11));
  EXPECT_FALSE(ranges.add(5, 30));
  EXPECT_FALSE(ranges.add(12, 13));
  EXPECT_TRUE(ranges.add(20, 25));
  EXPECT_TRUE(ranges.add(5, 10));
  EXPECT_TRUE(ranges.add(40, 50));
  EXPECT_TRUE(ranges.covers(5, 25));
  EXPECT_EQ(ranges.gaps(0, 60), (std::vector<PartRange>{{0, 5}, {25, 40}, {50, 60}}));
  EXPECT_EQ(ranges.gaps(10, 30), (std::vector<PartRange>{{25, 30}}));
  EXPECT_EQ(ranges.gaps(30, 35), (std::vector<PartRange>{{30, 35}}));
  EXPECT_EQ(ranges.gaps(41, 45), (std::vector<PartRange>{}));
}

}  // namespace
}  // namespace verbena::backend
