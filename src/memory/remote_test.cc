// SPDX-License-Identifier: Apache-2.0
// Use of keys by a peer; each Fault has a test that names it.
#include "memory/domain_test_fixture.h"

namespace verbena::memory {
namespace {

class RemoteTest : public DomainTest {
 protected:
  RemoteTest() : keys_(region(64, 4096)) {}

  // All four ways to use a key; they must agree wherever the check is one and the same.
  std::vector<Fault> every_use(const RemoteUser& user, RKey rkey, uint64_t addr) {
    Pieces pieces(staging_);
    const RemoteAddr at{addr};
    const uint8_t bytes[8]{};
    return {domain_.check_remote(user, rkey, at, 8, kRemoteRead),
            domain_.remote_write(user, rkey, at, bytes, true),
            domain_.remote_read(user, rkey, at, 8, pieces),
            reason(domain_.remote_atomic(user, rkey, at, AtomicOp::kFetchAdd, 1, 0)),
            domain_.remote_atomic_write(user, rkey, at, bytes)};
  }
  static std::vector<Fault> all(Fault fault) { return std::vector<Fault>(5, fault); }
  uint64_t word(size_t at) const {
    uint64_t value;
    std::memcpy(&value, arena_ + at, sizeof value);
    return value;
  }
  void expect_word(size_t at, uint64_t value) {
    EXPECT_EQ(word(at), value);
    std::memcpy(expected_ + at, &value, sizeof value);
  }
  RegionKeys keys_;
};

TEST_F(RemoteTest, WriteAndRead) {
  const std::vector<uint8_t> bytes = {1, 2, 3, 4, 5};
  ASSERT_EQ(domain_.remote_write(user_, keys_.rkey, RemoteAddr{kIova + 10}, bytes, false),
            Fault::kNone);
  expect_write(74, bytes);
  Pieces pieces(staging_);
  ASSERT_EQ(domain_.remote_read(user_, keys_.rkey, RemoteAddr{kIova + 10}, 5, pieces),
            Fault::kNone);
  EXPECT_EQ(flat(pieces), bytes);
  ASSERT_EQ(pieces.list().size(), 1u);
  EXPECT_EQ(pieces.list()[0].data(), arena_ + 74);
}

TEST_F(RemoteTest, ZeroBasedRegion) {
  const auto keys =
      domain_
          .register_region(pd_,
                           {.base = arena_ + 256, .length = 16, .access = kRemoteRead | kZeroBased})
          .value();
  Pieces pieces(staging_);
  ASSERT_EQ(domain_.remote_read(user_, keys.rkey, RemoteAddr{0}, 16, pieces), Fault::kNone);
  EXPECT_EQ(flat(pieces), arena_bytes(256, 16));
}

TEST_F(RemoteTest, LengthZeroChecksNothing) {
  const RKey none{0};
  Pieces pieces(staging_);
  EXPECT_EQ(domain_.check_remote(user_, none, RemoteAddr{0}, 0, kRemoteWrite), Fault::kNone);
  EXPECT_EQ(domain_.remote_write(user_, none, RemoteAddr{0}, {}, true), Fault::kNone);
  EXPECT_EQ(domain_.remote_read(user_, none, RemoteAddr{0}, 0, pieces), Fault::kNone);
  EXPECT_EQ(pieces.bytes(), 0u);
}

TEST_F(RemoteTest, NoSuchKey) {
  for (const uint32_t key : {0u, 1u, ~0u, keys_.rkey.value ^ 1, keys_.rkey.value ^ 0x80,
                             keys_.rkey.value ^ 0x100, keys_.rkey.value ^ 0x80000000}) {
    EXPECT_EQ(every_use(user_, RKey{key}, kIova), all(Fault::kNoSuchKey));
  }
}

TEST_F(RemoteTest, WrongState) {
  EXPECT_EQ(every_use(user_, window(WindowType::kType2), kIova), all(Fault::kWrongState));
}

TEST_F(RemoteTest, WrongPd) {
  EXPECT_EQ(every_use({.pd = other_pd_, .qpn = Qpn{17}}, keys_.rkey, kIova), all(Fault::kWrongPd));
}

TEST_F(RemoteTest, WrongQp) {
  const RKey bound = domain_
                         .bind_window(window(WindowType::kType2), user_,
                                      {.region = keys_.lkey,
                                       .addr = kIova,
                                       .length = 64,
                                       .access = kRemoteRead | kRemoteWrite | kRemoteAtomic})
                         .value();
  EXPECT_EQ(every_use({.pd = pd_, .qpn = Qpn{18}}, bound, kIova), all(Fault::kWrongQp));
}

TEST_F(RemoteTest, NoAccess) {
  const uint8_t bytes[8]{};
  Pieces pieces(staging_);
  const RKey reads = region(0, 64, kRemoteRead).rkey;
  const RKey writes = region(0, 64, kLocalWrite | kRemoteWrite).rkey;
  const RemoteAddr at{kIova};
  EXPECT_EQ(domain_.remote_write(user_, reads, at, bytes, true), Fault::kNoAccess);
  EXPECT_EQ(domain_.remote_atomic_write(user_, reads, at, bytes), Fault::kNoAccess);
  EXPECT_EQ(reason(domain_.remote_atomic(user_, reads, at, AtomicOp::kFetchAdd, 1, 0)),
            Fault::kNoAccess);
  EXPECT_EQ(domain_.remote_read(user_, writes, at, 8, pieces), Fault::kNoAccess);
  EXPECT_EQ(domain_.check_remote(user_, writes, at, 8, kRemoteAtomic), Fault::kNoAccess);
  EXPECT_EQ(domain_.check_remote(user_, writes, at, 8, kFlushGlobal), Fault::kNoAccess);
  EXPECT_EQ(domain_.check_remote(user_, writes, at, 8, kRemoteWrite | kRemoteRead),
            Fault::kNoAccess);
  const RKey flushes = region(0, 64, kFlushGlobal).rkey;
  EXPECT_EQ(domain_.check_remote(user_, flushes, at, 8, kFlushGlobal), Fault::kNone);
}

TEST_F(RemoteTest, OutOfBounds) {
  for (const uint64_t addr : {kIova - 8, kIova - 1, kIova + 4089, kIova + 4096, uint64_t{0},
                              ~uint64_t{0}, ~uint64_t{0} - 7}) {
    EXPECT_EQ(every_use(user_, keys_.rkey, addr), all(Fault::kOutOfBounds)) << addr;
  }
  EXPECT_EQ(domain_.check_remote(user_, keys_.rkey, RemoteAddr{kIova}, ~uint64_t{0}, kRemoteRead),
            Fault::kOutOfBounds);
  EXPECT_EQ(
      domain_.check_remote(user_, keys_.rkey, RemoteAddr{kIova + 8}, ~uint64_t{0} - 7, kRemoteRead),
      Fault::kOutOfBounds);
  EXPECT_EQ(domain_.check_remote(user_, keys_.rkey, RemoteAddr{kIova}, 4096, kRemoteRead),
            Fault::kNone);
}

TEST_F(RemoteTest, Misaligned) {
  const uint8_t bytes[8]{};
  for (uint64_t offset = 1; offset < 8; ++offset) {
    const RemoteAddr at{kIova + offset};
    EXPECT_EQ(reason(domain_.remote_atomic(user_, keys_.rkey, at, AtomicOp::kFetchAdd, 1, 0)),
              Fault::kMisaligned);
    EXPECT_EQ(domain_.remote_atomic_write(user_, keys_.rkey, at, bytes), Fault::kMisaligned);
  }
  // The address is a multiple of 8, the memory it stands for is not.
  const RKey odd = region(4, 64).rkey;
  EXPECT_EQ(reason(domain_.remote_atomic(user_, odd, RemoteAddr{kIova}, AtomicOp::kFetchAdd, 1, 0)),
            Fault::kMisaligned);
  // And the other way round.
  EXPECT_EQ(
      reason(domain_.remote_atomic(user_, odd, RemoteAddr{kIova + 4}, AtomicOp::kFetchAdd, 1, 0)),
      Fault::kMisaligned);
}

TEST_F(RemoteTest, Page) {
  FakeAccessor accessor;
  const auto keys = on_demand_region(accessor);
  EXPECT_EQ(
      domain_.remote_atomic(user_, keys.rkey, RemoteAddr{kIova + 8}, AtomicOp::kFetchAdd, 0, 0),
      word(8));
  EXPECT_EQ(accessor.reads, 1);
  EXPECT_EQ(accessor.write_sizes, std::vector<size_t>{8});
  accessor.remove_page(arena_ + 512);
  Pieces pieces(staging_);
  const RemoteAddr at{kIova + 512};
  const uint8_t bytes[8]{};
  EXPECT_EQ(domain_.check_remote(user_, keys.rkey, at, 8, kRemoteRead), Fault::kNone);
  EXPECT_EQ(domain_.remote_read(user_, keys.rkey, at, 8, pieces), Fault::kPage);
  EXPECT_EQ(domain_.remote_write(user_, keys.rkey, at, bytes, true), Fault::kPage);
  EXPECT_EQ(reason(domain_.remote_atomic(user_, keys.rkey, at, AtomicOp::kFetchAdd, 1, 0)),
            Fault::kPage);
  EXPECT_EQ(domain_.remote_atomic_write(user_, keys.rkey, at, bytes), Fault::kPage);
}

// What a peer has read before is read so that its absence is no more than a fault.
TEST_F(RemoteTest, WhatIsAskedForAgainMayBeGone) {
  FakeAccessor accessor;
  Domain domain(random_, {.repeats = &accessor});
  const PdId pd = domain.allocate_pd().value();
  const RemoteUser user{.pd = pd, .qpn = Qpn{17}};
  const auto region =
      domain.register_region(pd, {.base = arena_, .length = 4096, .iova = kIova, .access = kAll})
          .value();
  const RKey window =
      domain
          .bind_window(
              domain.allocate_window(pd, WindowType::kType1).value(), user,
              {.region = region.lkey, .addr = kIova, .length = 4096, .access = kRemoteRead})
          .value();
  const auto key_over = [&](const std::optional<Signature>& signature) {
    const auto keys = domain.create_key(pd, {4, signature.has_value(), false}).value();
    KeyConfig config;
    config.access = kRemoteRead;
    config.start = kIova;
    config.has_layout = true;
    config.blocks = {{kIova, 512, 0, region.lkey}, {kIova + 512, 3584, 0, region.lkey}};
    config.signature = signature;
    EXPECT_EQ(domain.configure_key(keys.lkey, pd, config), Fault::kNone);
    return keys.rkey;
  };
  const SignatureDomain crc{.kind = SignatureKind::kCrc32, .block = 512, .seed = 0};
  for (const RKey key :
       {region.rkey, window, key_over(std::nullopt), key_over(Signature{.wire = crc})}) {
    accessor = FakeAccessor();
    Pieces first(staging_);
    ASSERT_EQ(domain.remote_read(user, key, RemoteAddr{kIova + 256}, 512, first), Fault::kNone);
    const auto bytes = flat(first);
    EXPECT_EQ(accessor.reads, 0);
    Pieces again(staging_);
    ASSERT_EQ(domain.remote_read(user, key, RemoteAddr{kIova + 256}, 512, again, true),
              Fault::kNone);
    EXPECT_EQ(flat(again), bytes);
    EXPECT_GT(accessor.reads, 0);
    accessor.remove_page(arena_ + 512);
    Pieces gone(staging_);
    EXPECT_EQ(domain.remote_read(user, key, RemoteAddr{kIova + 256}, 512, gone, true),
              Fault::kPage);
    // The owner's own, and a peer's first, are as before.
    Pieces third(staging_);
    EXPECT_EQ(domain.remote_read(user, key, RemoteAddr{kIova + 256}, 512, third), Fault::kNone);
    EXPECT_EQ(flat(third), bytes);
  }
}

TEST_F(RemoteTest, AtomicsOnDemandGoThroughTheAccessorAlone) {
  FakeAccessor accessor;
  const auto keys = on_demand_region(accessor);
  const auto atomic = [&](AtomicOp op, uint64_t swap_add, uint64_t compare) {
    return domain_.remote_atomic(user_, keys.rkey, RemoteAddr{kIova + 8}, op, swap_add, compare);
  };
  const uint64_t before = word(8);
  EXPECT_EQ(atomic(AtomicOp::kFetchAdd, 3, 0), before);
  expect_word(8, before + 3);
  EXPECT_EQ(atomic(AtomicOp::kCompareSwap, 42, before + 3), before + 3);
  expect_word(8, 42);
  EXPECT_EQ(accessor.write_sizes.size(), 2U);
  EXPECT_EQ(atomic(AtomicOp::kCompareSwap, 43, 41), 42U);
  EXPECT_EQ(accessor.write_sizes.size(), 2U) << "nothing is stored";
  const uint8_t bytes[8] = {8, 7, 6, 5, 4, 3, 2, 1};
  EXPECT_EQ(domain_.remote_atomic_write(user_, keys.rkey, RemoteAddr{kIova + 8}, bytes),
            Fault::kNone);
  expect_write(8, bytes);
  // Gone between the read and the write.
  accessor.read_only = true;
  EXPECT_EQ(reason(atomic(AtomicOp::kFetchAdd, 1, 0)), Fault::kPage);
  EXPECT_EQ(domain_.remote_atomic_write(user_, keys.rkey, RemoteAddr{kIova + 8}, bytes),
            Fault::kPage);
}

TEST_F(RemoteTest, FetchAddGivesTheOldValueAndWraps) {
  const uint64_t before = word(64);
  EXPECT_EQ(domain_.remote_atomic(user_, keys_.rkey, RemoteAddr{kIova}, AtomicOp::kFetchAdd, 5, 77),
            before);
  expect_word(64, before + 5);
  EXPECT_EQ(domain_.remote_atomic(user_, keys_.rkey, RemoteAddr{kIova}, AtomicOp::kFetchAdd,
                                  ~uint64_t{0}, 0),
            before + 5);
  expect_word(64, before + 4);
}

TEST_F(RemoteTest, CompareSwapSwapsOnlyOnAMatch) {
  const RemoteAddr at{kIova + 8};
  const uint64_t before = word(72);
  EXPECT_EQ(domain_.remote_atomic(user_, keys_.rkey, at, AtomicOp::kCompareSwap, 42, before + 1),
            before);
  expect_word(72, before);
  EXPECT_EQ(domain_.remote_atomic(user_, keys_.rkey, at, AtomicOp::kCompareSwap, 42, before),
            before);
  expect_word(72, 42);
}

TEST_F(RemoteTest, AtomicWriteKeepsTheOrderOfBytes) {
  const uint8_t bytes[8] = {8, 7, 6, 5, 4, 3, 2, 1};
  ASSERT_EQ(domain_.remote_atomic_write(user_, keys_.rkey, RemoteAddr{kIova + 4088}, bytes),
            Fault::kNone);
  expect_write(64 + 4088, bytes);
}

TEST_F(RemoteTest, AStretchIsAllOrNothing) {
  const RemoteAddr at{kIova + 10};
  const auto stretch = domain_.remote_stretch(user_, keys_.rkey, at, 1000, kRemoteWrite);
  EXPECT_EQ(stretch.data(), arena_ + 74);
  EXPECT_EQ(stretch.size(), 1000u);
  EXPECT_TRUE(domain_.remote_stretch(user_, keys_.rkey, at, 4087, kRemoteWrite).empty());
  EXPECT_TRUE(
      domain_.remote_stretch(user_, RKey(keys_.rkey.value ^ 1), at, 8, kRemoteRead).empty());
  const RemoteUser stranger{PdId(user_.pd.value + 1), user_.qpn};
  EXPECT_TRUE(domain_.remote_stretch(stranger, keys_.rkey, at, 8, kRemoteRead).empty());
  const RegionKeys readable = region(0, 4096, kRemoteRead);
  EXPECT_TRUE(
      domain_.remote_stretch(user_, readable.rkey, RemoteAddr{kIova}, 8, kRemoteWrite).empty());
}

}  // namespace
}  // namespace verbena::memory
