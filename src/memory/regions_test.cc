// SPDX-License-Identifier: Apache-2.0
// Protection domains and regions: each Error has a test that names it.
#include <limits>
#include <string>

#include "memory/domain_test_fixture.h"

namespace verbena::memory {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

class RegionsTest : public DomainTest {
 protected:
  RegionSpec spec(uint32_t access) {
    return {.base = arena_, .length = 100, .iova = kIova, .access = access};
  }
  Error refusal(const RegionSpec& with) { return reason(domain_.register_region(pd_, with)); }
  // What a remote read of the region's first byte says.
  Fault remote(RKey rkey) const {
    return domain_.check_remote(user_, rkey, RemoteAddr{kIova}, 1, kRemoteRead);
  }
  Fault local(LKey lkey, uint64_t addr = kIova, bool write = false) const {
    const Sge sge{.addr = addr, .length = 1, .lkey = lkey};
    return domain_.check_local(pd_, {&sge, 1}, write);
  }
};

TEST_F(RegionsTest, EveryErrorAndFaultHasAName) {
  for (const Error error :
       {Error::kInvalid, Error::kNoSuchPd, Error::kNoSuchKey, Error::kBusy, Error::kTooMany}) {
    EXPECT_NE(std::string(to_string(error)), "unknown error");
  }
  for (const Fault fault :
       {Fault::kNone, Fault::kNoSuchKey, Fault::kWrongState, Fault::kWrongPd, Fault::kWrongQp,
        Fault::kNoAccess, Fault::kOutOfBounds, Fault::kMisaligned, Fault::kPage}) {
    EXPECT_NE(std::string(to_string(fault)), "unknown fault");
  }
}

TEST_F(RegionsTest, PdsAreCountedLimitedAndBusyWithMembers) {
  Domain small(random_, {.limits = {.max_pds = 2, .max_regions = 4, .max_windows = 4}});
  const PdId first = small.allocate_pd().value();
  const PdId second = small.allocate_pd().value();
  EXPECT_NE(first, second);
  EXPECT_EQ(reason(small.allocate_pd()), Error::kTooMany);
  const auto keys = small.register_region(first, spec(kLocalWrite)).value();
  const RKey window = small.allocate_window(first, WindowType::kType1).value();
  EXPECT_EQ(reason(small.deallocate_pd(first)), Error::kBusy);
  ASSERT_TRUE(small.deregister_region(keys.lkey));
  EXPECT_EQ(reason(small.deallocate_pd(first)), Error::kBusy);
  ASSERT_TRUE(small.deallocate_window(window));
  EXPECT_TRUE(small.deallocate_pd(first));
  EXPECT_EQ(reason(small.deallocate_pd(first)), Error::kNoSuchPd);
  EXPECT_NE(small.allocate_pd().value(), first);  // numbers rest
  EXPECT_EQ(small.usage().pds, 2u);
}

TEST_F(RegionsTest, NoSuchPd) {
  const PdId gone = domain_.allocate_pd().value();
  ASSERT_TRUE(domain_.deallocate_pd(gone));
  for (const PdId pd : {PdId{0}, PdId{999}, gone}) {
    EXPECT_EQ(reason(domain_.deallocate_pd(pd)), Error::kNoSuchPd);
    EXPECT_EQ(reason(domain_.register_region(pd, spec(0))), Error::kNoSuchPd);
    EXPECT_EQ(reason(domain_.allocate_window(pd, WindowType::kType2)), Error::kNoSuchPd);
    const auto keys = domain_.register_region(pd_, spec(0)).value();
    EXPECT_EQ(reason(domain_.reregister_region(keys.lkey, pd, spec(0))), Error::kNoSuchPd);
  }
}

TEST_F(RegionsTest, ContradictionsAreInvalid) {
  FakeAccessor accessor;
  EXPECT_EQ(refusal(spec(kRemoteWrite)), Error::kInvalid);
  EXPECT_EQ(refusal(spec(kRemoteAtomic | kRemoteRead)), Error::kInvalid);
  EXPECT_EQ(refusal(spec(1u << 7)), Error::kInvalid);    // not a right of ours
  EXPECT_EQ(refusal(spec(kOnDemand)), Error::kInvalid);  // no accessor
  EXPECT_EQ(refusal({.base = arena_, .length = 8, .access = 0, .accessor = &accessor}),
            Error::kInvalid);
  EXPECT_EQ(refusal({.base = nullptr, .length = 8}), Error::kInvalid);
  EXPECT_EQ(refusal({.base = arena_, .length = 8, .iova = 8, .access = kZeroBased}),
            Error::kInvalid);
  EXPECT_EQ(refusal({.base = arena_, .length = 8, .iova = kMax - 6}), Error::kInvalid);
  EXPECT_EQ(refusal({.base = arena_, .length = kMax - 16}), Error::kInvalid);
  EXPECT_EQ(domain_.usage().regions, 0u);
}

TEST_F(RegionsTest, LimitsAreTooMany) {
  Domain small(random_, {.limits = {.max_regions = 2, .max_windows = 1, .max_region_bytes = 100}});
  const PdId pd = small.allocate_pd().value();
  EXPECT_EQ(reason(small.register_region(pd, {.base = arena_, .length = 101})), Error::kTooMany);
  // Each by itself: all regions and all windows.
  ASSERT_TRUE(small.register_region(pd, spec(0)));
  ASSERT_TRUE(small.allocate_window(pd, WindowType::kType2));
  EXPECT_EQ(reason(small.allocate_window(pd, WindowType::kType1)), Error::kTooMany);
  ASSERT_TRUE(small.register_region(pd, spec(0)));
  EXPECT_EQ(reason(small.register_region(pd, spec(0))), Error::kTooMany);
  const auto usage = small.usage();
  EXPECT_EQ(usage.regions, 2u);
  EXPECT_EQ(usage.windows, 1u);
}

TEST_F(RegionsTest, ARegionMayEndAtTheEndOfTheAddressSpace) {
  const auto keys =
      domain_.register_region(pd_, {.base = arena_, .length = 8, .iova = kMax - 7}).value();
  EXPECT_EQ(local(keys.lkey, kMax), Fault::kNone);
  EXPECT_EQ(local(keys.lkey, 0), Fault::kOutOfBounds);
}

TEST_F(RegionsTest, NoRemoteAccessMeansNoRkey) {
  const RegionKeys keys = region(0, 100, kLocalWrite | kMwBind);
  EXPECT_EQ(keys.rkey, RKey{0});
  EXPECT_EQ(remote(keys.rkey), Fault::kNoSuchKey);
  EXPECT_EQ(remote(RKey{keys.lkey.value}), Fault::kNoSuchKey);  // an lkey is not an rkey
  EXPECT_EQ(local(keys.lkey, kIova, true), Fault::kNone);
}

TEST_F(RegionsTest, KeysAreEqualUnlessStrict) {
  const RegionKeys keys = region(0, 100, kRemoteRead);
  EXPECT_EQ(keys.lkey.value, keys.rkey.value);
  EXPECT_EQ(remote(keys.rkey), Fault::kNone);

  Domain strict(random_, {.strict_keys = true});
  const PdId pd = strict.allocate_pd().value();
  const auto split = strict.register_region(pd, spec(kRemoteRead)).value();
  EXPECT_NE(split.lkey.value >> 8, split.rkey.value >> 8);
  const auto as_rkey = [&](uint32_t key) {
    return strict.check_remote({.pd = pd}, RKey{key}, RemoteAddr{kIova}, 1, kRemoteRead);
  };
  const auto as_lkey = [&](uint32_t key) {
    const Sge sge{.addr = kIova, .length = 1, .lkey = LKey{key}};
    return strict.check_local(pd, {&sge, 1}, false);
  };
  EXPECT_EQ(as_rkey(split.rkey.value), Fault::kNone);
  EXPECT_EQ(as_lkey(split.lkey.value), Fault::kNone);
  EXPECT_EQ(as_rkey(split.lkey.value), Fault::kNoSuchKey);
  EXPECT_EQ(as_lkey(split.rkey.value), Fault::kNoSuchKey);
  ASSERT_TRUE(strict.deregister_region(split.lkey));
  EXPECT_EQ(as_rkey(split.rkey.value), Fault::kNoSuchKey);
  EXPECT_EQ(as_lkey(split.lkey.value), Fault::kNoSuchKey);
}

TEST_F(RegionsTest, StrictKeysFillTheTableToItsLimit) {
  Domain strict(random_, {.limits = {.max_regions = 50, .max_windows = 0}, .strict_keys = true});
  const PdId pd = strict.allocate_pd().value();
  LKey lkey;
  for (int i = 0; i < 50; ++i) lkey = strict.register_region(pd, spec(kRemoteRead)).value().lkey;
  EXPECT_EQ(reason(strict.register_region(pd, spec(0))), Error::kTooMany);
  // Even then a region may change.
  EXPECT_TRUE(strict.reregister_region(lkey, pd, spec(kRemoteRead | kLocalWrite)));
}

TEST_F(RegionsTest, DeregisteringEndsBothKeysAtOnce) {
  const RegionKeys keys = region(0, 100);
  ASSERT_TRUE(domain_.deregister_region(keys.lkey));
  EXPECT_EQ(remote(keys.rkey), Fault::kNoSuchKey);
  EXPECT_EQ(local(keys.lkey), Fault::kNoSuchKey);
  EXPECT_EQ(reason(domain_.deregister_region(keys.lkey)), Error::kNoSuchKey);
  EXPECT_EQ(reason(domain_.reregister_region(keys.lkey, pd_, spec(0))), Error::kNoSuchKey);
  EXPECT_EQ(reason(domain_.query_region(keys.lkey)), Error::kNoSuchKey);
  EXPECT_EQ(domain_.usage().regions, 0u);
}

TEST_F(RegionsTest, BoundWindowsKeepARegion) {
  const RegionKeys keys = region(0, 100);
  const RKey bound = domain_
                         .bind_window(window(WindowType::kType1), user_,
                                      {.region = keys.lkey, .addr = kIova, .length = 10})
                         .value();
  EXPECT_EQ(domain_.query_region(keys.lkey)->bound_windows, 1u);
  EXPECT_EQ(reason(domain_.deregister_region(keys.lkey)), Error::kBusy);
  EXPECT_EQ(reason(domain_.reregister_region(keys.lkey, pd_, spec(0))), Error::kBusy);
  EXPECT_EQ(remote(keys.rkey), Fault::kNone);  // and it is as it was
  ASSERT_TRUE(domain_.deallocate_window(bound));
  EXPECT_TRUE(domain_.deregister_region(keys.lkey));
}

TEST_F(RegionsTest, QueryTellsWhatWasRegistered) {
  FakeAccessor accessor;
  const RegionSpec asked{.base = arena_ + 3,
                         .length = 77,
                         .iova = 5,
                         .access = kLocalWrite | kOnDemand | kRemoteRead,
                         .accessor = &accessor};
  const RegionKeys keys = domain_.register_region(pd_, asked).value();
  const QueryRegion told = domain_.query_region(keys.lkey).value();
  EXPECT_EQ(told.pd, pd_);
  EXPECT_EQ(told.spec.base, asked.base);
  EXPECT_EQ(told.spec.length, asked.length);
  EXPECT_EQ(told.spec.iova, asked.iova);
  EXPECT_EQ(told.spec.access, asked.access);
  EXPECT_EQ(told.spec.accessor, asked.accessor);
  EXPECT_EQ(told.keys.lkey, keys.lkey);
  EXPECT_EQ(told.keys.rkey, keys.rkey);
  EXPECT_EQ(told.bound_windows, 0u);
}

TEST_F(RegionsTest, ReregisteringForAnotherPdKeepsTheKeys) {
  const RegionKeys keys = domain_.register_region(pd_, spec(kRemoteRead)).value();
  const auto moved = domain_.reregister_region(keys.lkey, other_pd_, spec(kRemoteRead));
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->lkey, keys.lkey);
  EXPECT_EQ(moved->rkey, keys.rkey);
  EXPECT_EQ(remote(keys.rkey), Fault::kWrongPd);
  EXPECT_EQ(local(keys.lkey), Fault::kWrongPd);
  EXPECT_TRUE(domain_.deallocate_pd(pd_));  // has no members any more
  EXPECT_EQ(reason(domain_.deallocate_pd(other_pd_)), Error::kBusy);
}

TEST_F(RegionsTest, ReregisteringRightsOrPlaceGivesNewKeys) {
  RegionSpec now = spec(kRemoteRead);
  RegionKeys keys = domain_.register_region(pd_, now).value();
  const auto change = [&](auto&& edit) {
    edit();
    const RegionKeys old = keys;
    keys = domain_.reregister_region(old.lkey, pd_, now).value();
    EXPECT_NE(keys.lkey, old.lkey);
    EXPECT_EQ(local(old.lkey), Fault::kNoSuchKey);
    EXPECT_EQ(remote(old.rkey), Fault::kNoSuchKey);
    EXPECT_EQ(local(keys.lkey, now.iova), Fault::kNone);
  };
  change([&] { now.access = kRemoteRead | kLocalWrite; });
  change([&] { now.base += 8; });
  change([&] { now.length = 50; });
  change([&] { now.iova = 0x500; });
  EXPECT_EQ(local(keys.lkey, 0x500 + 50), Fault::kOutOfBounds);
  change([&] { now.access = kLocalWrite; });
  EXPECT_EQ(keys.rkey, RKey{0});
  EXPECT_EQ(domain_.usage().regions, 1u);
}

TEST_F(RegionsTest, ARefusedChangeLeavesTheRegion) {
  const RegionKeys keys = region(0, 100, kRemoteRead);
  EXPECT_EQ(reason(domain_.reregister_region(keys.lkey, other_pd_, spec(kRemoteWrite))),
            Error::kInvalid);
  EXPECT_EQ(remote(keys.rkey), Fault::kNone);
}

}  // namespace
}  // namespace verbena::memory
