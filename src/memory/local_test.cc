// SPDX-License-Identifier: Apache-2.0
// Scatter/gather lists from a work queue.
#include <array>
#include <limits>

#include "memory/domain_test_fixture.h"

namespace verbena::memory {
namespace {

class LocalTest : public DomainTest {
 protected:
  LocalTest() : keys_(region(0, 8192)) {}
  Sge at(uint64_t offset, uint32_t length) const {
    return {.addr = kIova + offset, .length = length, .lkey = keys_.lkey};
  }
  Fault gather(std::span<const Sge> list, uint64_t offset, uint32_t n) {
    Pieces pieces(staging_);
    return domain_.gather(pd_, list, offset, n, pieces);
  }
  Fault scatter(std::span<const Sge> list, uint64_t offset, std::span<const uint8_t> bytes) {
    return domain_.scatter(pd_, list, offset, bytes, true);
  }
  RegionKeys keys_;
};

TEST_F(LocalTest, GatherPointsAtTheMemory) {
  const Sge list[] = {at(0, 100), at(500, 50), at(550, 50)};
  Pieces pieces(staging_);
  ASSERT_EQ(domain_.gather(pd_, list, 0, 200, pieces), Fault::kNone);
  ASSERT_EQ(pieces.list().size(), 2u);  // the last two lie side by side
  EXPECT_EQ(pieces.list()[0].data(), arena_);
  EXPECT_EQ(pieces.list()[1].data(), arena_ + 500);
  EXPECT_EQ(pieces.list()[1].size(), 100u);
  EXPECT_EQ(pieces.bytes(), 200u);
}

TEST_F(LocalTest, EveryRangeOfAListIsTheSameRangeOfItsBytes) {
  const Sge list[] = {at(3, 5), at(100, 0), at(200, 7), at(50, 1), at(0, 0), at(300, 11)};
  Pieces whole(staging_);
  ASSERT_EQ(domain_.gather(pd_, list, 0, 24, whole), Fault::kNone);
  const std::vector<uint8_t> all = flat(whole);
  for (uint32_t offset = 0; offset <= 24; ++offset) {
    for (uint32_t n = 0; offset + n <= 24; ++n) {
      Pieces part(staging_);
      ASSERT_EQ(domain_.gather(pd_, list, offset, n, part), Fault::kNone);
      EXPECT_EQ(flat(part), std::vector<uint8_t>(all.begin() + offset, all.begin() + offset + n));
    }
  }
}

TEST_F(LocalTest, ThirtyTwoEntriesAreStagedAndScatteredInOrder) {
  std::array<Sge, 32> list;
  for (uint32_t i = 0; i < list.size(); ++i) list[i] = at(i * 100, i + 1);
  const auto total = static_cast<uint32_t>(total_bytes(list));
  EXPECT_EQ(total, 32u * 33 / 2);
  std::vector<uint8_t> bytes(total);
  for (uint32_t i = 0; i < total; ++i) bytes[i] = static_cast<uint8_t>(i ^ 0x5a);
  ASSERT_EQ(domain_.check_local(pd_, list, true), Fault::kNone);
  ASSERT_EQ(scatter(list, 0, bytes), Fault::kNone);
  size_t done = 0;
  for (uint32_t i = 0; i < list.size(); ++i) {
    expect_write(i * 100, std::span(bytes).subspan(done, i + 1));
    done += i + 1;
  }
  Pieces pieces(staging_);
  ASSERT_EQ(domain_.gather(pd_, list, 0, total, pieces), Fault::kNone);
  EXPECT_EQ(pieces.list().size(), Pieces::kMax);
  EXPECT_EQ(flat(pieces), bytes);
}

TEST_F(LocalTest, AnEmptyListIsAnEmptyMessage) {
  EXPECT_EQ(total_bytes({}), 0u);
  EXPECT_EQ(domain_.check_local(pd_, {}, true), Fault::kNone);
  EXPECT_EQ(gather({}, 0, 0), Fault::kNone);
  EXPECT_EQ(scatter({}, 0, {}), Fault::kNone);
  EXPECT_EQ(gather({}, 0, 1), Fault::kOutOfBounds);
  EXPECT_EQ(gather({}, 1, 0), Fault::kOutOfBounds);
}

TEST_F(LocalTest, PastTheListIsOutOfBounds) {
  const Sge list[] = {at(0, 10), at(20, 10)};
  const uint8_t bytes[11]{};
  EXPECT_EQ(gather(list, 20, 0), Fault::kNone);
  EXPECT_EQ(gather(list, 21, 0), Fault::kOutOfBounds);
  EXPECT_EQ(gather(list, 20, 1), Fault::kOutOfBounds);
  EXPECT_EQ(gather(list, 10, 11), Fault::kOutOfBounds);
  EXPECT_EQ(scatter(list, 10, bytes), Fault::kOutOfBounds);      // and nothing is written
  EXPECT_EQ(scatter({list, 1}, 0, bytes), Fault::kOutOfBounds);  // with one entry likewise
  EXPECT_EQ(scatter({list, 1}, ~uint64_t{0}, bytes), Fault::kOutOfBounds);
}

TEST_F(LocalTest, NoSuchKey) {
  const Sge list[] = {{.addr = kIova, .length = 4, .lkey = LKey{keys_.lkey.value ^ 1}}};
  const uint8_t bytes[4]{};
  EXPECT_EQ(domain_.check_local(pd_, list, false), Fault::kNoSuchKey);
  EXPECT_EQ(gather(list, 0, 4), Fault::kNoSuchKey);
  EXPECT_EQ(scatter(list, 0, bytes), Fault::kNoSuchKey);
}

TEST_F(LocalTest, WrongPd) {
  const Sge list[] = {at(0, 4)};
  const uint8_t bytes[4]{};
  Pieces pieces(staging_);
  EXPECT_EQ(domain_.check_local(other_pd_, list, false), Fault::kWrongPd);
  EXPECT_EQ(domain_.gather(other_pd_, list, 0, 4, pieces), Fault::kWrongPd);
  EXPECT_EQ(domain_.scatter(other_pd_, list, 0, bytes, true), Fault::kWrongPd);
}

TEST_F(LocalTest, NoAccess) {
  const RegionKeys read_only = region(0, 100, 0);
  const Sge list[] = {{.addr = kIova, .length = 4, .lkey = read_only.lkey}};
  const uint8_t bytes[4]{};
  EXPECT_EQ(domain_.check_local(pd_, list, true), Fault::kNoAccess);
  EXPECT_EQ(scatter(list, 0, bytes), Fault::kNoAccess);
  EXPECT_EQ(domain_.check_local(pd_, list, false), Fault::kNone);
  EXPECT_EQ(gather(list, 0, 4), Fault::kNone);
}

TEST_F(LocalTest, OutOfBounds) {
  const uint8_t bytes[4]{};
  for (const Sge& sge : {at(8189, 4), at(8192, 4), at(uint64_t(-1), 4), at(0, 8193)}) {
    EXPECT_EQ(domain_.check_local(pd_, {&sge, 1}, false), Fault::kOutOfBounds);
    if (sge.length == 4) {
      EXPECT_EQ(gather({&sge, 1}, 0, 4), Fault::kOutOfBounds);
      EXPECT_EQ(scatter({&sge, 1}, 0, bytes), Fault::kOutOfBounds);
    }
  }
}

// An entry that begins below the region must not be let in by an offset that wraps to inside it.
TEST_F(LocalTest, AnEntryDoesNotWrapIntoItsRegion) {
  const auto zero =
      domain_
          .register_region(pd_, {.base = arena_, .length = 100, .access = kLocalWrite | kZeroBased})
          .value();
  const Sge sge{.addr = std::numeric_limits<uint64_t>::max() - 9, .length = 50, .lkey = zero.lkey};
  const uint8_t bytes[4]{};
  EXPECT_EQ(gather({&sge, 1}, 20, 4), Fault::kOutOfBounds);
  EXPECT_EQ(scatter({&sge, 1}, 20, bytes), Fault::kOutOfBounds);
}

TEST_F(LocalTest, AFaultInALaterEntryWritesNothing) {
  const Sge list[] = {at(0, 10), {.addr = kIova, .length = 10, .lkey = LKey{}}};
  const uint8_t bytes[15]{};
  EXPECT_EQ(scatter(list, 0, bytes), Fault::kNoSuchKey);
  // Not touched, not looked at.
  const uint8_t ten[10]{};
  EXPECT_EQ(scatter(list, 0, ten), Fault::kNone);
  expect_write(0, ten);
}

TEST_F(LocalTest, EntriesOfLengthZeroAreNotLookedAt) {
  const Sge list[] = {{.addr = 1, .length = 0, .lkey = LKey{0xdead}}, at(0, 4), {}};
  EXPECT_EQ(domain_.check_local(pd_, list, true), Fault::kNone);
  EXPECT_EQ(gather(list, 0, 4), Fault::kNone);
}

TEST_F(LocalTest, OnDemandGoesThroughTheAccessor) {
  FakeAccessor accessor;
  const auto keys = domain_
                        .register_region(pd_, {.base = arena_,
                                               .length = 4096,
                                               .access = kLocalWrite | kZeroBased | kOnDemand,
                                               .accessor = &accessor})
                        .value();
  const Sge list[] = {{.addr = 0, .length = 100, .lkey = keys.lkey}, at(4096, 100)};
  Pieces pieces(staging_);
  ASSERT_EQ(domain_.gather(pd_, list, 0, 200, pieces), Fault::kNone);
  EXPECT_EQ(accessor.reads, 1);
  ASSERT_EQ(pieces.list().size(), 2u);
  EXPECT_EQ(pieces.list()[0].data(), staging_);
  EXPECT_EQ(pieces.list()[1].data(), arena_ + 4096);
  std::vector<uint8_t> want = arena_bytes(0, 100);
  const std::vector<uint8_t> direct = arena_bytes(4096, 100);
  want.insert(want.end(), direct.begin(), direct.end());
  EXPECT_EQ(flat(pieces), want);

  // In the middle of a message one call; where it ends, the last word apart.
  const uint8_t bytes[64] = {1, 2, 3};
  ASSERT_EQ(domain_.scatter(pd_, list, 0, bytes, false), Fault::kNone);
  EXPECT_EQ(accessor.write_sizes, (std::vector<size_t>{64}));
  ASSERT_EQ(domain_.scatter(pd_, list, 0, bytes, true), Fault::kNone);
  EXPECT_EQ(accessor.write_sizes, (std::vector<size_t>{64, 56, 8}));
  expect_write(0, bytes);
}

TEST_F(LocalTest, Page) {
  FakeAccessor accessor;
  accessor.remove_page(arena_ + 512);
  const auto keys = domain_
                        .register_region(pd_, {.base = arena_,
                                               .length = 4096,
                                               .access = kLocalWrite | kZeroBased | kOnDemand,
                                               .accessor = &accessor})
                        .value();
  const Sge sge{.addr = 510, .length = 4, .lkey = keys.lkey};
  const uint8_t bytes[4]{};
  EXPECT_EQ(domain_.check_local(pd_, {&sge, 1}, true), Fault::kNone);  // rights, not presence
  EXPECT_EQ(gather({&sge, 1}, 0, 4), Fault::kPage);
  EXPECT_EQ(scatter({&sge, 1}, 0, bytes), Fault::kPage);
  expect_write(
      510, std::span(bytes).first(2));  // those before the missing page are there, as with a NIC
}

// ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND): every address is the region's, none need
// exist.
TEST_F(LocalTest, OnDemandMayCoverTheWholeAddressSpace) {
  FakeAccessor accessor;
  const auto keys = domain_
                        .register_region(pd_, {.base = nullptr,
                                               .length = uint64_t{1} << 46,
                                               .access = kLocalWrite | kOnDemand,
                                               .accessor = &accessor})
                        .value();
  accessor.remove_page(nullptr);
  const Sge null{.addr = 16, .length = 4, .lkey = keys.lkey};
  EXPECT_EQ(gather({&null, 1}, 0, 4), Fault::kPage);
  static uint8_t far_away[4] = {9, 8, 7, 6};
  const Sge sge{.addr = reinterpret_cast<uint64_t>(far_away), .length = 4, .lkey = keys.lkey};
  if (sge.addr < uint64_t{1} << 46) {
    Pieces pieces(staging_);
    ASSERT_EQ(domain_.gather(pd_, {&sge, 1}, 0, 4, pieces), Fault::kNone);
    EXPECT_EQ(flat(pieces), (std::vector<uint8_t>{9, 8, 7, 6}));
  }
}

TEST_F(LocalTest, AStretchIsAsMuchOfOneEntryAsIsAskedFor) {
  const Sge list[] = {at(100, 50), at(0, 0), at(500, 60)};
  const auto stretch = [&](uint64_t offset, uint64_t n) {
    return domain_.stretch(pd_, list, offset, n, true);
  };
  EXPECT_EQ(stretch(0, 20).data(), arena_ + 100);
  EXPECT_EQ(stretch(0, 20).size(), 20u);
  EXPECT_EQ(stretch(30, 100).data(), arena_ + 130);
  EXPECT_EQ(stretch(30, 100).size(), 20u);
  EXPECT_EQ(stretch(50, 100).data(), arena_ + 500);
  EXPECT_EQ(stretch(50, 100).size(), 60u);
  EXPECT_TRUE(stretch(110, 1).empty());
  EXPECT_TRUE(stretch(0, 0).empty());
}

TEST_F(LocalTest, WhatMayNotBeUsedIsNoStretch) {
  const RegionKeys read_only = region(0, 4096, 0);
  const Sge readable{.addr = kIova, .length = 100, .lkey = read_only.lkey};
  EXPECT_EQ(domain_.stretch(pd_, {&readable, 1}, 0, 100, false).size(), 100u);
  EXPECT_TRUE(domain_.stretch(pd_, {&readable, 1}, 0, 100, true).empty());
  const Sge beyond = at(8000, 1000);
  EXPECT_EQ(domain_.stretch(pd_, {&beyond, 1}, 0, 100, true).size(), 100u);
  EXPECT_TRUE(domain_.stretch(pd_, {&beyond, 1}, 0, 200, true).empty());
  const Sge good = at(0, 100);
  EXPECT_TRUE(domain_.stretch(PdId(pd_.value + 1), {&good, 1}, 0, 100, true).empty());
  FakeAccessor accessor;
  const RegionKeys on_demand = on_demand_region(accessor);
  const Sge missing{.addr = kIova, .length = 100, .lkey = on_demand.lkey};
  EXPECT_TRUE(domain_.stretch(pd_, {&missing, 1}, 0, 100, false).empty());
}

}  // namespace
}  // namespace verbena::memory
