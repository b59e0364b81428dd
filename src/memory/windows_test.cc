// SPDX-License-Identifier: Apache-2.0
// Windows of both types: every state, every way between them, every refusal by name.
#include "memory/domain_test_fixture.h"

namespace verbena::memory {
namespace {

constexpr uint64_t kRegionBytes = 1000;

class WindowsTest : public DomainTest {
 protected:
  WindowsTest() : keys_(region(100, kRegionBytes)) {}

  WindowBind bind(uint64_t at, uint64_t length, uint32_t access = kRemoteRead | kRemoteWrite) {
    return {.region = keys_.lkey, .addr = kIova + at, .length = length, .access = access};
  }
  Fault read(RKey rkey, uint64_t addr, uint64_t n = 1, Qpn qpn = Qpn{17}) const {
    return domain_.check_remote({.pd = pd_, .qpn = qpn}, rkey, RemoteAddr{addr}, n, kRemoteRead);
  }
  Fault bind_fault(RKey rkey, const WindowBind& with) {
    return reason(domain_.bind_window(rkey, user_, with));
  }
  uint32_t bound_windows() const { return domain_.query_region(keys_.lkey)->bound_windows; }

  RegionKeys keys_;
};

TEST_F(WindowsTest, UnboundIsOfNoUse) {
  for (const WindowType type : {WindowType::kType1, WindowType::kType2}) {
    const RKey rkey = window(type);
    EXPECT_EQ(read(rkey, kIova), Fault::kWrongState);
    const Sge sge{.addr = kIova, .length = 1, .lkey = LKey{rkey.value}};
    EXPECT_EQ(domain_.check_local(pd_, {&sge, 1}, false), Fault::kNoSuchKey);
  }
  EXPECT_EQ(domain_.usage().windows, 2u);
}

TEST_F(WindowsTest, Type1IsReboundAtWillAndItsKeyGoesUpByOne) {
  const RKey fresh = window(WindowType::kType1);
  const RKey first = domain_.bind_window(fresh, user_, bind(0, 10)).value();
  EXPECT_EQ(first.value >> 8, fresh.value >> 8);
  EXPECT_EQ(first.value & 0xff, (fresh.value + 1) & 0xff);
  EXPECT_EQ(read(fresh, kIova), Fault::kNoSuchKey);
  EXPECT_EQ(read(first, kIova, 10), Fault::kNone);
  EXPECT_EQ(read(first, kIova, 11), Fault::kOutOfBounds);
  const RKey second = domain_.bind_window(first, user_, bind(500, 20)).value();
  EXPECT_EQ(read(first, kIova), Fault::kNoSuchKey);
  EXPECT_EQ(read(second, kIova), Fault::kOutOfBounds);
  EXPECT_EQ(read(second, kIova + 500, 20), Fault::kNone);
  EXPECT_EQ(read(second, kIova + 500, 20, Qpn{99}), Fault::kNone);  // any queue pair of the PD
  EXPECT_EQ(bound_windows(), 1u);
}

TEST_F(WindowsTest, Type1TagWraps) {
  RKey rkey = window(WindowType::kType1);
  const RKey fresh = rkey;
  for (int i = 0; i < 256; ++i) rkey = domain_.bind_window(rkey, user_, bind(0, 10)).value();
  EXPECT_EQ(rkey, fresh);
  EXPECT_EQ(read(rkey, kIova), Fault::kNone);
}

TEST_F(WindowsTest, Type1OfZeroLengthUnbinds) {
  const RKey bound = domain_.bind_window(window(WindowType::kType1), user_, bind(0, 10)).value();
  const RKey unbound = domain_.bind_window(bound, user_, {}).value();
  EXPECT_EQ(read(bound, kIova), Fault::kNoSuchKey);
  EXPECT_EQ(read(unbound, kIova), Fault::kWrongState);
  EXPECT_EQ(bound_windows(), 0u);
  const RKey again = domain_.bind_window(unbound, user_, {}).value();  // nothing left to unbind
  EXPECT_TRUE(domain_.bind_window(again, user_, bind(0, 10)));
}

TEST_F(WindowsTest, Type1IsNeitherZeroBasedNorInvalidated) {
  const RKey rkey = window(WindowType::kType1);
  EXPECT_EQ(bind_fault(rkey, bind(0, 10, kRemoteRead | kZeroBased)), Fault::kNoAccess);
  const RKey bound = domain_.bind_window(rkey, user_, bind(0, 10)).value();
  EXPECT_EQ(domain_.invalidate_local(bound, pd_), Fault::kWrongState);
  EXPECT_EQ(domain_.invalidate_remote(bound, user_), Fault::kWrongState);
  EXPECT_EQ(read(bound, kIova), Fault::kNone);
}

TEST_F(WindowsTest, Type2IsBoundOnceUnderTheChosenTag) {
  const RKey fresh = window(WindowType::kType2);
  WindowBind with = bind(10, 10);
  with.tag = static_cast<uint8_t>(fresh.value + 5);
  const RKey bound = domain_.bind_window(fresh, user_, with).value();
  EXPECT_EQ(bound.value, (fresh.value & ~0xffu) | *with.tag);
  EXPECT_EQ(read(fresh, kIova + 10), Fault::kNoSuchKey);
  EXPECT_EQ(read(bound, kIova + 10, 10), Fault::kNone);
  EXPECT_EQ(read(bound, kIova + 9), Fault::kOutOfBounds);
  EXPECT_EQ(bind_fault(bound, bind(0, 5)), Fault::kWrongState);
  EXPECT_EQ(read(bound, kIova + 10, 10), Fault::kNone);
}

TEST_F(WindowsTest, Type2BelongsToItsQueuePair) {
  const RKey bound = domain_.bind_window(window(WindowType::kType2), user_, bind(0, 10)).value();
  EXPECT_EQ(read(bound, kIova, 1, Qpn{18}), Fault::kWrongQp);
  EXPECT_EQ(domain_.invalidate_remote(bound, {.pd = pd_, .qpn = Qpn{18}}), Fault::kWrongQp);
  EXPECT_EQ(domain_.invalidate_remote(bound, {.pd = other_pd_, .qpn = Qpn{17}}), Fault::kWrongPd);
  EXPECT_EQ(read(bound, kIova), Fault::kNone);
}

TEST_F(WindowsTest, Type2IsInvalidatedByEitherSideAndBoundAgain) {
  RKey rkey = window(WindowType::kType2);
  for (uint8_t tag = 0; tag < 10; ++tag) {
    WindowBind with = bind(0, 10);
    with.tag = tag;
    rkey = domain_.bind_window(rkey, {.pd = pd_, .qpn = Qpn{17}}, with).value();
    EXPECT_EQ(read(rkey, kIova), Fault::kNone);
    // The local owner may do it from any queue pair, the peer only from this one.
    EXPECT_EQ(
        tag % 2 == 0 ? domain_.invalidate_local(rkey, pd_) : domain_.invalidate_remote(rkey, user_),
        Fault::kNone);
    EXPECT_EQ(read(rkey, kIova), Fault::kWrongState);
    EXPECT_EQ(bound_windows(), 0u);
    EXPECT_EQ(domain_.invalidate_local(rkey, pd_), Fault::kWrongState);
    EXPECT_EQ(domain_.invalidate_remote(rkey, user_), Fault::kWrongState);
  }
}

TEST_F(WindowsTest, Type2ZeroBasedCountsFromZero) {
  const RKey bound = domain_
                         .bind_window(window(WindowType::kType2), user_,
                                      bind(40, 16, kRemoteRead | kRemoteWrite | kZeroBased))
                         .value();
  EXPECT_EQ(read(bound, kIova + 40), Fault::kOutOfBounds);
  EXPECT_EQ(read(bound, 0, 16), Fault::kNone);
  EXPECT_EQ(read(bound, 1, 16), Fault::kOutOfBounds);
  const uint8_t bytes[] = {1, 2, 3};
  EXPECT_EQ(domain_.remote_write(user_, bound, RemoteAddr{13}, bytes, true), Fault::kNone);
  expect_write(100 + 40 + 13, bytes);
}

TEST_F(WindowsTest, Type2OfZeroLengthIsRefused) {
  EXPECT_EQ(bind_fault(window(WindowType::kType2), bind(0, 0)), Fault::kOutOfBounds);
}

TEST_F(WindowsTest, BindNeedsTheSamePdThroughout) {
  for (const WindowType type : {WindowType::kType1, WindowType::kType2}) {
    const RKey rkey = window(type);
    // queue pair of another PD
    EXPECT_EQ(reason(domain_.bind_window(rkey, {.pd = other_pd_, .qpn = Qpn{17}}, bind(0, 10))),
              Fault::kWrongPd);
    // region of another PD
    WindowBind with = bind(0, 10);
    with.region = domain_
                      .register_region(
                          other_pd_, {.base = arena_, .length = 100, .iova = kIova, .access = kAll})
                      .value()
                      .lkey;
    EXPECT_EQ(bind_fault(rkey, with), Fault::kWrongPd);
    // window of another PD
    const RKey foreign = domain_.allocate_window(other_pd_, type).value();
    EXPECT_EQ(bind_fault(foreign, bind(0, 10)), Fault::kWrongPd);
  }
}

TEST_F(WindowsTest, BindNeedsExistingKeys) {
  const RKey rkey = window(WindowType::kType2);
  EXPECT_EQ(bind_fault(RKey{rkey.value ^ 0x100}, bind(0, 10)), Fault::kNoSuchKey);
  EXPECT_EQ(bind_fault(keys_.rkey, bind(0, 10)), Fault::kNoSuchKey);  // a region is no window
  WindowBind with = bind(0, 10);
  with.region = LKey{keys_.lkey.value ^ 1};
  EXPECT_EQ(bind_fault(rkey, with), Fault::kNoSuchKey);
  with.region = LKey{rkey.value};
  EXPECT_EQ(bind_fault(rkey, with), Fault::kNoSuchKey);  // a window is no region
}

TEST_F(WindowsTest, BindNeedsTheRegionsConsent) {
  const RKey rkey = window(WindowType::kType2);
  const auto on = [&](uint32_t region_access, uint32_t window_access) {
    WindowBind with = bind(0, 10, window_access);
    with.region = region(100, kRegionBytes, region_access).lkey;
    return with;
  };
  EXPECT_EQ(bind_fault(rkey, on(kLocalWrite | kRemoteRead, kRemoteRead)), Fault::kNoAccess);
  EXPECT_EQ(bind_fault(rkey, on(kMwBind | kRemoteRead, kRemoteWrite)), Fault::kNoAccess);
  EXPECT_EQ(bind_fault(rkey, on(kMwBind, kRemoteAtomic)), Fault::kNoAccess);
  EXPECT_EQ(bind_fault(rkey, on(kMwBind | kLocalWrite, kLocalWrite)), Fault::kNoAccess);
  EXPECT_EQ(bind_fault(rkey, on(kMwBind | kLocalWrite, kMwBind)), Fault::kNoAccess);
  // The region's own remote rights do not matter: it may have none, and then no rkey.
  EXPECT_TRUE(domain_.bind_window(rkey, user_, on(kMwBind, kRemoteRead)));
}

TEST_F(WindowsTest, BindStaysInsideTheRegion) {
  const RKey rkey = window(WindowType::kType2);
  EXPECT_EQ(bind_fault(rkey, bind(kRegionBytes, 1)), Fault::kOutOfBounds);
  EXPECT_EQ(bind_fault(rkey, bind(1, kRegionBytes)), Fault::kOutOfBounds);
  EXPECT_EQ(bind_fault(rkey, bind(1, ~uint64_t{0})), Fault::kOutOfBounds);
  EXPECT_EQ(bind_fault(rkey, bind(uint64_t(-1), 2)), Fault::kOutOfBounds);
  EXPECT_TRUE(domain_.bind_window(rkey, user_, bind(0, kRegionBytes)));
}

TEST_F(WindowsTest, AFailedBindLeavesTheWindow) {
  const RKey bound = domain_.bind_window(window(WindowType::kType1), user_, bind(0, 10)).value();
  EXPECT_EQ(bind_fault(bound, bind(0, kRegionBytes + 1)), Fault::kOutOfBounds);
  EXPECT_EQ(read(bound, kIova, 10), Fault::kNone);
  EXPECT_EQ(bound_windows(), 1u);
}

TEST_F(WindowsTest, AWindowGrantsWhatItsBindSaysAndNoMore) {
  const RKey bound =
      domain_.bind_window(window(WindowType::kType2), user_, bind(0, 16, kRemoteWrite)).value();
  EXPECT_EQ(read(bound, kIova), Fault::kNoAccess);  // though the region would allow it
  EXPECT_EQ(
      reason(domain_.remote_atomic(user_, bound, RemoteAddr{kIova}, AtomicOp::kFetchAdd, 1, 0)),
      Fault::kNoAccess);
}

TEST_F(WindowsTest, InvalidatingWhatIsNoWindow) {
  EXPECT_EQ(domain_.invalidate_local(keys_.rkey, pd_), Fault::kWrongState);
  EXPECT_EQ(domain_.invalidate_remote(keys_.rkey, user_), Fault::kWrongState);
  EXPECT_EQ(domain_.invalidate_local(RKey{0}, pd_), Fault::kNoSuchKey);
  EXPECT_EQ(domain_.invalidate_remote(RKey{0x12345678}, user_), Fault::kNoSuchKey);
  const RKey bound = domain_.bind_window(window(WindowType::kType2), user_, bind(0, 10)).value();
  EXPECT_EQ(domain_.invalidate_local(RKey{bound.value ^ 0x80}, pd_), Fault::kNoSuchKey);
  EXPECT_EQ(domain_.invalidate_local(bound, other_pd_), Fault::kWrongPd);
}

TEST_F(WindowsTest, AnyKeyItHadNamesAWindowToItsOwner) {
  const RKey fresh = window(WindowType::kType1);
  WindowBind with = bind(0, 10);
  with.tag = static_cast<uint8_t>(fresh.value + 3);
  const RKey bound = domain_.bind_window(fresh, user_, with).value();
  EXPECT_EQ(bound.value, (fresh.value & ~0xffu) | *with.tag);
  with.tag = static_cast<uint8_t>(fresh.value + 4);
  const RKey again = domain_.bind_window(fresh, user_, with).value();
  EXPECT_EQ(read(bound, kIova), Fault::kNoSuchKey);
  EXPECT_EQ(read(again, kIova), Fault::kNone);
  EXPECT_TRUE(domain_.deallocate_window(fresh));
}

TEST_F(WindowsTest, DeallocatingUnbinds) {
  const RKey bound = domain_.bind_window(window(WindowType::kType2), user_, bind(0, 10)).value();
  ASSERT_TRUE(domain_.deallocate_window(bound));
  EXPECT_EQ(read(bound, kIova), Fault::kNoSuchKey);
  EXPECT_EQ(bound_windows(), 0u);
  EXPECT_EQ(reason(domain_.deallocate_window(bound)), Error::kNoSuchKey);
  EXPECT_EQ(reason(domain_.deallocate_window(keys_.rkey)), Error::kNoSuchKey);
  EXPECT_EQ(domain_.usage().windows, 0u);
}

}  // namespace
}  // namespace verbena::memory
