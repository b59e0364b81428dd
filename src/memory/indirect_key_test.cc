// SPDX-License-Identifier: Apache-2.0
// Indirect keys: their life, and what is checked at each use.
#include "memory/domain_test_fixture.h"
#include "memory/signature_model.h"

namespace verbena::memory {
namespace {

using Bytes = std::vector<uint8_t>;

class IndirectKeyTest : public DomainTest {
 protected:
  static constexpr uint32_t kKeyRights = kLocalWrite | kRemoteWrite | kRemoteRead;

  RegionKeys key(uint32_t max_entries = 16, bool signature = false, bool remote = false) {
    return domain_.create_key(pd_, {max_entries, signature, remote}).value();
  }
  static KeyConfig list(std::vector<KeyBlock> blocks, uint32_t access = kKeyRights) {
    KeyConfig config;
    config.access = access;
    config.has_layout = true;
    config.blocks = std::move(blocks);
    return config;
  }
  Fault configure(LKey key, const KeyConfig& config) {
    return domain_.configure_key(key, pd_, config);
  }
  Bytes read(RKey rkey, uint64_t at, uint32_t n, Fault wanted = Fault::kNone) {
    Pieces pieces(staging_);
    EXPECT_EQ(domain_.remote_read(user_, rkey, RemoteAddr(at), n, pieces), wanted);
    return wanted == Fault::kNone ? flat(pieces) : Bytes{};
  }
  static Bytes joined(Bytes a, const Bytes& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
};

TEST_F(IndirectKeyTest, FreeConfiguredInvalidatedFree) {
  const auto region_keys = region(0, 4096);
  const auto keys = key();
  EXPECT_EQ(keys.lkey.value, keys.rkey.value);
  (void)read(keys.rkey, 0, 1, Fault::kWrongState);
  const auto config =
      list({{kIova + 100, 8, 0, region_keys.lkey}, {kIova + 3, 5, 0, region_keys.lkey}});
  ASSERT_EQ(configure(keys.lkey, config), Fault::kNone);
  EXPECT_EQ(read(keys.rkey, 0, 13), joined(arena_bytes(100, 8), arena_bytes(3, 5)));
  (void)read(keys.rkey, 0, 14, Fault::kOutOfBounds);
  EXPECT_EQ(domain_.invalidate_local(keys.rkey, pd_), Fault::kNone);
  (void)read(keys.rkey, 0, 1, Fault::kWrongState);
  EXPECT_EQ(domain_.invalidate_local(keys.rkey, pd_), Fault::kWrongState);
  ASSERT_EQ(configure(keys.lkey, config), Fault::kNone) << "and again";
  EXPECT_TRUE(domain_.destroy_key(keys.lkey));
  (void)read(keys.rkey, 0, 1, Fault::kNoSuchKey);
  EXPECT_EQ(reason(domain_.destroy_key(keys.lkey)), Error::kNoSuchKey);
}

TEST_F(IndirectKeyTest, WritesGoWhereTheListSays) {
  const auto a = region(0, 4096);
  const auto b = region(8192, 4096);
  const auto keys = key();
  ASSERT_EQ(configure(keys.lkey, list({{kIova + 1, 3, 0, a.lkey},
                                       {kIova + 7, 1, 0, b.lkey},
                                       {kIova, 0, 0, LKey(99)},
                                       {kIova + 9, 4, 0, a.lkey}})),
            Fault::kNone);
  const Bytes bytes{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(domain_.remote_write(user_, keys.rkey, RemoteAddr(1), bytes, true), Fault::kNone);
  expect_write(2, Bytes{1, 2});
  expect_write(8199, Bytes{3});
  expect_write(9, Bytes{4, 5, 6});
}

TEST_F(IndirectKeyTest, AnInterleaveRepeatsByStrides) {
  const auto a = region(0, 4096);
  const auto keys = key(3);
  KeyConfig config = list({{kIova, 8, 2, a.lkey}, {kIova + 64, 4, 6, a.lkey}});
  config.interleaved = true;
  config.repeat = 3;
  ASSERT_EQ(configure(keys.lkey, config), Fault::kNone);
  Bytes all;
  for (const size_t round : {0u, 1u, 2u}) {
    all = joined(all, arena_bytes(round * 10, 8));
    all = joined(all, arena_bytes(64 + round * 10, 4));
  }
  EXPECT_EQ(read(keys.rkey, 0, 36), all);
  EXPECT_EQ(read(keys.rkey, 11, 10), Bytes(all.begin() + 11, all.begin() + 21));
  (void)read(keys.rkey, 30, 7, Fault::kOutOfBounds);
}

TEST_F(IndirectKeyTest, WhatLiesUnderItIsCheckedAtEveryUse) {
  const auto a = region(0, 4096, kRemoteRead);  // not writable
  const auto foreign =
      domain_
          .register_region(other_pd_, {.base = arena_, .length = 64, .iova = kIova, .access = kAll})
          .value();
  const auto keys = key();
  const Bytes one{1};
  ASSERT_EQ(configure(keys.lkey, list({{kIova, 8, 0, a.lkey}})), Fault::kNone);
  EXPECT_EQ(read(keys.rkey, 0, 8), arena_bytes(0, 8));
  EXPECT_EQ(domain_.remote_write(user_, keys.rkey, RemoteAddr(0), one, true), Fault::kNoAccess);
  ASSERT_TRUE(domain_.deregister_region(a.lkey));
  (void)read(keys.rkey, 0, 8, Fault::kNoSuchKey);
  ASSERT_EQ(configure(keys.lkey, list({{kIova, 8, 0, foreign.lkey}})), Fault::kNone);
  (void)read(keys.rkey, 0, 8, Fault::kWrongPd);
  const auto b = region(0, 16);
  ASSERT_EQ(configure(keys.lkey, list({{kIova + 12, 8, 0, b.lkey}})), Fault::kNone);
  EXPECT_EQ(read(keys.rkey, 0, 4), arena_bytes(12, 4));
  (void)read(keys.rkey, 0, 5, Fault::kOutOfBounds);
}

TEST_F(IndirectKeyTest, ItsOwnRightsHoldToo) {
  const auto a = region(0, 4096);
  const auto keys = key();
  ASSERT_EQ(configure(keys.lkey, list({{kIova, 8, 0, a.lkey}}, kRemoteRead)), Fault::kNone);
  EXPECT_EQ(read(keys.rkey, 0, 8), arena_bytes(0, 8));
  const Bytes one{1};
  EXPECT_EQ(domain_.remote_write(user_, keys.rkey, RemoteAddr(0), one, true), Fault::kNoAccess);
  const Sge sge{0, 8, keys.lkey};
  EXPECT_EQ(domain_.scatter(pd_, {&sge, 1}, 0, one, true), Fault::kNoAccess);
  (void)read(keys.rkey, 0, 8);
  const RemoteUser other{.pd = other_pd_, .qpn = Qpn(3)};
  Pieces pieces(staging_);
  EXPECT_EQ(domain_.remote_read(other, keys.rkey, RemoteAddr(0), 1, pieces), Fault::kWrongPd);
  // A window cannot lie over it.
  const auto mw = window(WindowType::kType2);
  EXPECT_EQ(reason(domain_.bind_window(mw, user_, {.region = keys.lkey, .length = 8})),
            Fault::kNoAccess);
  EXPECT_EQ(configure(keys.lkey, list({{kIova, 8, 0, a.lkey}}, kMwBind)), Fault::kOutOfBounds);
}

TEST_F(IndirectKeyTest, RemoteInvalidationOnlyWhereItIsAllowed) {
  const auto a = region(0, 4096);
  const auto no = key();
  const auto yes = key(4, false, true);
  for (const auto& keys : {no, yes}) {
    ASSERT_EQ(configure(keys.lkey, list({{kIova, 8, 0, a.lkey}})), Fault::kNone);
  }
  EXPECT_EQ(domain_.invalidate_remote(no.rkey, user_), Fault::kNoAccess);
  EXPECT_EQ(domain_.invalidate_remote(yes.rkey, {other_pd_, Qpn(1)}), Fault::kWrongPd);
  EXPECT_EQ(domain_.invalidate_remote(yes.rkey, user_), Fault::kNone);
  (void)read(yes.rkey, 0, 1, Fault::kWrongState);
  EXPECT_EQ(read(no.rkey, 0, 8), arena_bytes(0, 8));
}

TEST_F(IndirectKeyTest, KeysOverKeysAndNoCircles) {
  const auto a = region(0, 4096);
  const auto inner = key();
  const auto outer = key();
  ASSERT_EQ(configure(inner.lkey, list({{kIova + 10, 4, 0, a.lkey}, {kIova + 50, 4, 0, a.lkey}})),
            Fault::kNone);
  ASSERT_EQ(configure(outer.lkey, list({{2, 4, 0, inner.lkey}, {0, 2, 0, inner.lkey}})),
            Fault::kNone);
  EXPECT_EQ(read(outer.rkey, 0, 6),
            joined(joined(arena_bytes(12, 2), arena_bytes(50, 2)), arena_bytes(10, 2)));
  // In a circle: refused, not followed.
  ASSERT_EQ(configure(inner.lkey, list({{0, 4, 0, outer.lkey}})), Fault::kNone);
  ASSERT_EQ(configure(outer.lkey, list({{0, 4, 0, inner.lkey}})), Fault::kNone);
  (void)read(outer.rkey, 0, 4, Fault::kWrongState);
  EXPECT_TRUE(domain_.remote_stretch(user_, outer.rkey, RemoteAddr(0), 4, kRemoteRead).empty());
}

TEST_F(IndirectKeyTest, FourDeepAndNoDeeper) {
  LKey under = region(0, 4096).lkey;
  uint64_t at = kIova;
  for (uint32_t depth = 1; depth <= 5; ++depth) {
    const auto keys = key();
    ASSERT_EQ(configure(keys.lkey, list({{at, 8, 0, under}})), Fault::kNone);
    (void)read(keys.rkey, 0, 8,
               depth <= IndirectKey::kMaxDepth ? Fault::kNone : Fault::kWrongState);
    under = keys.lkey;
    at = 0;
  }
}

TEST_F(IndirectKeyTest, SignaturesOverAListOfPieces) {
  const auto a = region(0, 4096);
  const auto pieces = key();
  const auto keys = key(4, true);
  ASSERT_EQ(configure(pieces.lkey, list({{kIova, 300, 0, a.lkey}, {kIova + 1000, 216, 0, a.lkey}})),
            Fault::kNone);
  KeyConfig config = list({{0, 516, 0, pieces.lkey}});
  config.signature = Signature{.memory = {.kind = SignatureKind::kCrc32, .block = 512, .seed = 0}};
  ASSERT_EQ(configure(keys.lkey, config), Fault::kNone);
  Bytes data(512);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 3);
  ASSERT_EQ(domain_.remote_write(user_, keys.rkey, RemoteAddr(0), data, true), Fault::kNone);
  expect_write(0, std::span(data).first(300));
  expect_write(1000, std::span(data).subspan(300));
  expect_write(1212, signature_model::naive_signature(config.signature->memory, data, 0));
}

// What went out before was checked then.
TEST_F(IndirectKeyTest, ChecksNothingTwice) {
  const auto a = region(0, 4096);
  const auto keys = key(4, true);
  KeyConfig config = list({{kIova, 516, 0, a.lkey}});
  config.signature = Signature{.memory = {.kind = SignatureKind::kCrc32, .block = 512, .seed = 0},
                               .check_mask = 0xf0};
  ASSERT_EQ(configure(keys.lkey, config), Fault::kNone);
  Pieces pieces(staging_);
  EXPECT_EQ(domain_.remote_read(user_, keys.rkey, RemoteAddr(0), 512, pieces, true), Fault::kNone);
  EXPECT_FALSE(domain_.take_signature_error(keys.lkey).value());
  (void)read(keys.rkey, 0, 512);
  EXPECT_TRUE(domain_.take_signature_error(keys.lkey).value());
}

// A signature of which only the end was seen cannot be called right; the next one can.
TEST_F(IndirectKeyTest, ASignatureWhoseBeginningWasNotSeen) {
  const auto a = region(0, 4096);
  const auto keys = key(4, true);
  KeyConfig config = list({{kIova, 2048, 0, a.lkey}});
  const SignatureDomain wire{.kind = SignatureKind::kCrc32, .block = 512, .seed = 0};
  config.signature = Signature{.wire = wire, .check_mask = 0xf0};
  ASSERT_EQ(configure(keys.lkey, config), Fault::kNone);
  // One that begins with what is there when nothing was seen.
  Bytes data(1024, 7);
  while (signature_model::naive_signature(wire, std::span(data).first(512), 0)[0] != 0) {
    if (++data[0] == 0) ++data[1];
  }
  const Bytes all = signature_model::together(wire, data, {}, 0);
  const auto write = [&](uint64_t at, uint64_t n) {
    EXPECT_EQ(domain_.remote_write(user_, keys.rkey, RemoteAddr(at), std::span(all).subspan(at, n),
                                   false),
              Fault::kNone);
  };
  write(0, 512);
  write(513, 3);
  const auto error = domain_.take_signature_error(keys.lkey).value();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->offset, 0u);
  write(516, 516);
  EXPECT_FALSE(domain_.take_signature_error(keys.lkey).value());
  expect_write(0, data);
}

// The sum of what came before a fault is not taken for that of a new transfer.
TEST_F(IndirectKeyTest, BeginsAgainAfterAFault) {
  FakeAccessor accessor;
  const auto a = on_demand_region(accessor);
  const auto keys = key(4, true);
  KeyConfig config = list({{kIova, 512, 0, a.lkey}});
  const SignatureDomain wire{.kind = SignatureKind::kCrc32, .block = 512, .seed = 0};
  config.signature = Signature{.wire = wire};
  config.blocks = {{kIova, 100, 0, a.lkey}, {kIova + 1024, 412, 0, a.lkey}};
  ASSERT_EQ(configure(keys.lkey, config), Fault::kNone);
  accessor.remove_page(arena_ + 1024);
  (void)read(keys.rkey, 0, 512, Fault::kPage);
  accessor = FakeAccessor();
  const Bytes data = joined(arena_bytes(0, 100), arena_bytes(1024, 412));
  EXPECT_EQ(read(keys.rkey, 0, 516), signature_model::together(wire, data, {}, 0));
}

// For each block of the one, blocks of the other would be read again, and so on.
TEST_F(IndirectKeyTest, NoSignaturesUnderSignatures) {
  const auto a = region(0, 4096);
  const auto inner = key(4, true);
  const auto between = key();
  const auto outer = key(4, true);
  KeyConfig config = list({{kIova, 1024, 0, a.lkey}});
  config.signature = Signature{.wire = {.kind = SignatureKind::kCrc32, .block = 512, .seed = 0}};
  ASSERT_EQ(configure(inner.lkey, config), Fault::kNone);
  ASSERT_EQ(configure(between.lkey, list({{4, 600, 0, inner.lkey}})), Fault::kNone);
  EXPECT_EQ(read(between.rkey, 0, 508), arena_bytes(4, 508));
  config.blocks = {{0, 600, 0, between.lkey}};
  ASSERT_EQ(configure(outer.lkey, config), Fault::kNone);
  (void)read(outer.rkey, 0, 8, Fault::kWrongState);
  EXPECT_EQ(domain_.remote_write(user_, outer.rkey, RemoteAddr(0), Bytes(8), true),
            Fault::kWrongState);
  EXPECT_EQ(read(between.rkey, 0, 508), arena_bytes(4, 508));
}

TEST_F(IndirectKeyTest, WhatCannotBeConfigured) {
  const KeySpec plain{.max_entries = 2};
  const KeySpec sign{.max_entries = 2, .signature = true};
  const KeyBlock block{0, 8, 0, LKey(1)};
  EXPECT_EQ(check_config(plain, list({block, block})), ConfigError::kNone);
  EXPECT_EQ(check_config(plain, list({block, block, block})), ConfigError::kTooMany);
  EXPECT_EQ(check_config(plain, list({})), ConfigError::kInvalid);
  EXPECT_EQ(check_config(plain, list({block}, kOnDemand)), ConfigError::kInvalid);
  KeyConfig strides = list({block});
  strides.interleaved = true;
  EXPECT_EQ(check_config(plain, strides), ConfigError::kNone);
  strides.repeat = 0;
  EXPECT_EQ(check_config(plain, strides), ConfigError::kInvalid);
  strides.repeat = 2;
  strides.blocks[0].skip = 65528;
  EXPECT_EQ(check_config(plain, strides), ConfigError::kInvalid);
  strides.blocks = {block, block};
  EXPECT_EQ(check_config(plain, strides), ConfigError::kTooMany) << "the head takes one entry";
  KeyConfig signature = list({block});
  signature.signature = Signature{.wire = {.kind = SignatureKind::kCrc32, .block = 512, .seed = 0},
                                  .check_mask = 0xf0};
  EXPECT_EQ(check_config(plain, signature), ConfigError::kInvalid);
  EXPECT_EQ(check_config(sign, signature), ConfigError::kNone);
  signature.signature->copy_mask = 0xf0;
  EXPECT_EQ(check_config(sign, signature), ConfigError::kInvalid);
  signature.signature = Signature{};
  EXPECT_EQ(check_config(sign, signature), ConfigError::kInvalid);
}

// A peer's answer may invalidate the key, and a request behind may configure it, before the program
// can ask what was found.
TEST_F(IndirectKeyTest, AWrongSignatureIsKeptUntilItIsTaken) {
  const auto a = region(0, 4096);
  const auto keys = key(4, true);
  KeyConfig config = list({{kIova, 2 * 516, 0, a.lkey}});
  config.signature = Signature{.memory = {.kind = SignatureKind::kCrc32, .block = 512, .seed = 0},
                               .check_mask = 0xf0};
  const auto first_of = [&](auto&& change) {
    EXPECT_EQ(configure(keys.lkey, config), Fault::kNone);
    (void)read(keys.rkey, 512, 512);  // the second block
    change();
    EXPECT_EQ(configure(keys.lkey, config), Fault::kNone);
    (void)read(keys.rkey, 0, 512);
    const auto error = domain_.take_signature_error(keys.lkey).value();
    EXPECT_FALSE(domain_.take_signature_error(keys.lkey).value()) << "one at a time";
    return error ? error->offset : 9999;
  };
  KeyConfig reset;
  reset.reset_signature = true;
  EXPECT_EQ(first_of([] {}), 516u);
  EXPECT_EQ(first_of([&] { EXPECT_EQ(configure(keys.lkey, reset), Fault::kNone); }), 516u);
  EXPECT_EQ(first_of([&] { EXPECT_EQ(domain_.invalidate_local(keys.rkey, pd_), Fault::kNone); }),
            516u);
  EXPECT_EQ(domain_.invalidate_local(keys.rkey, pd_), Fault::kNone);
  EXPECT_FALSE(domain_.take_signature_error(keys.lkey).value());
}

// Transfers of less than a block, one after the other, and what lies there changes in between.
TEST_F(IndirectKeyTest, ASignatureIsOfWhatLiesThereWhenItsBlockEnds) {
  const auto a = region(0, 4096);
  const auto keys = key(4, true);
  KeyConfig config = list({{kIova, 516, 0, a.lkey}});
  config.signature = Signature{.memory = {.kind = SignatureKind::kCrc32, .block = 512, .seed = 0},
                               .check_mask = 0xf0};
  ASSERT_EQ(configure(keys.lkey, config), Fault::kNone);
  const auto write = [&](uint64_t at, uint32_t n, uint8_t value) {
    EXPECT_EQ(domain_.remote_write(user_, keys.rkey, RemoteAddr(at), Bytes(n, value), true),
              Fault::kNone);
  };
  write(0, 512, 1);
  (void)read(keys.rkey, 0, 100);
  write(0, 512, 2);  // through the key
  (void)read(keys.rkey, 100, 412);
  EXPECT_FALSE(domain_.take_signature_error(keys.lkey).value());
  write(0, 100, 3);
  arena_[50] = 4;  // by the program
  write(100, 412, 3);
  (void)read(keys.rkey, 0, 512);
  EXPECT_FALSE(domain_.take_signature_error(keys.lkey).value());
  expect_write(0, arena_bytes(0, 516));
}

TEST_F(IndirectKeyTest, ReconfiguringChangesOnlyWhatItSets) {
  const auto a = region(0, 4096);
  const auto keys = key(4, true);
  KeyConfig config = list({{kIova, 516, 0, a.lkey}});
  config.signature = Signature{.memory = {.kind = SignatureKind::kCrc32, .block = 512, .seed = 0},
                               .check_mask = 0xf0};
  ASSERT_EQ(configure(keys.lkey, config), Fault::kNone);
  EXPECT_EQ(read(keys.rkey, 0, 512), arena_bytes(0, 512));
  const auto error = domain_.take_signature_error(keys.lkey).value();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->field, SignatureField::kGuard);
  EXPECT_EQ(error->offset, 0u);
  EXPECT_FALSE(domain_.take_signature_error(keys.lkey).value()) << "told once";
  EXPECT_EQ(domain_.signature_errors(), 1u);
  // Another layout, the same signature.
  ASSERT_EQ(configure(keys.lkey, list({{kIova + 8, 516, 0, a.lkey}}, kRemoteRead)), Fault::kNone);
  EXPECT_EQ(read(keys.rkey, 0, 512), arena_bytes(8, 512));
  EXPECT_TRUE(domain_.take_signature_error(keys.lkey).value());
  // Its signature alone is taken away: the range is that of memory again.
  KeyConfig reset;
  reset.reset_signature = true;
  ASSERT_EQ(configure(keys.lkey, reset), Fault::kNone);
  EXPECT_EQ(read(keys.rkey, 0, 516), arena_bytes(8, 516));
  EXPECT_FALSE(domain_.take_signature_error(keys.lkey).value());
  // Rights alone.
  KeyConfig rights;
  rights.access = kRemoteWrite;
  ASSERT_EQ(configure(keys.lkey, rights), Fault::kNone);
  (void)read(keys.rkey, 0, 1, Fault::kNoAccess);
}

// Its signature would lie behind the layout, in memory that is nobody's to write.
TEST_F(IndirectKeyTest, ABlockWithoutRoomForItsSignatureIsNoPartOfIt) {
  const auto a = region(0, 4096);
  const auto keys = key(4, true);
  KeyConfig config = list({{kIova, 516, 0, a.lkey}, {kIova + 1000, 515, 0, a.lkey}});
  config.signature = Signature{.memory = {.kind = SignatureKind::kCrc32, .block = 512, .seed = 0}};
  ASSERT_EQ(configure(keys.lkey, config), Fault::kNone);
  EXPECT_EQ(read(keys.rkey, 0, 512), arena_bytes(0, 512));
  (void)read(keys.rkey, 0, 513, Fault::kOutOfBounds);
  const Bytes bytes(513);
  EXPECT_EQ(domain_.remote_write(user_, keys.rkey, RemoteAddr(512), bytes, true),
            Fault::kOutOfBounds);
}

TEST_F(IndirectKeyTest, ARangeMayBeginAtAnAddress) {
  const auto a = region(0, 4096);
  const auto keys = key();
  KeyConfig config = list({{kIova, 8, 0, a.lkey}, {kIova + 16, 8, 0, a.lkey}});
  config.start = 0x7000;
  ASSERT_EQ(configure(keys.lkey, config), Fault::kNone);
  EXPECT_EQ(read(keys.rkey, 0x7000 + 6, 4), joined(arena_bytes(6, 2), arena_bytes(16, 2)));
  (void)read(keys.rkey, 0, 4, Fault::kOutOfBounds);
}

TEST_F(IndirectKeyTest, AtomicsWhereAWordLiesWhole) {
  const auto a = region(0, 4096);
  const auto keys = key();
  ASSERT_EQ(
      configure(
          keys.lkey,
          list({{kIova, 8, 0, a.lkey}, {kIova + 32, 4, 0, a.lkey}, {kIova + 40, 4, 0, a.lkey}},
               kRemoteAtomic)),
      Fault::kNone);
  uint64_t old;
  std::memcpy(&old, arena_, 8);
  EXPECT_EQ(domain_.remote_atomic(user_, keys.rkey, RemoteAddr(0), AtomicOp::kFetchAdd, 1, 0), old);
  const uint64_t sum = old + 1;
  expect_write(0, {reinterpret_cast<const uint8_t*>(&sum), 8});
  EXPECT_EQ(
      reason(domain_.remote_atomic(user_, keys.rkey, RemoteAddr(8), AtomicOp::kFetchAdd, 1, 0)),
      Fault::kMisaligned);
}

TEST_F(IndirectKeyTest, OnDemandMemoryUnderneath) {
  FakeAccessor accessor;
  const auto a = on_demand_region(accessor);
  const auto keys = key(4, true);
  ASSERT_EQ(configure(keys.lkey, list({{kIova + 3, 4, 0, a.lkey}, {kIova + 1, 2, 0, a.lkey}})),
            Fault::kNone);
  EXPECT_EQ(read(keys.rkey, 0, 6), joined(arena_bytes(3, 4), arena_bytes(1, 2)));
  accessor.remove_page(arena_);
  (void)read(keys.rkey, 0, 6, Fault::kPage);
}

TEST_F(IndirectKeyTest, CopiesBetweenKeys) {
  const auto a = region(0, 4096);
  const auto b = region(8192, 8192);
  const auto keys = key();
  ASSERT_EQ(configure(keys.lkey, list({{kIova, 3000, 0, a.lkey}, {kIova + 3500, 500, 0, a.lkey}})),
            Fault::kNone);
  const Sge from{0, 3400, keys.lkey};
  EXPECT_EQ(domain_.copy(pd_, {kIova + 5, 3400, b.lkey}, from), Fault::kNone);
  expect_write(8197, arena_bytes(0, 3000));
  expect_write(8197 + 3000, arena_bytes(3500, 400));
  EXPECT_EQ(domain_.copy(pd_, {kIova + 5000, 3400, b.lkey}, from), Fault::kOutOfBounds);
  EXPECT_EQ(domain_.copy(other_pd_, {kIova, 3400, b.lkey}, from), Fault::kWrongPd);
  // A program's mistake, and no more than that: for the sanitizers.
  EXPECT_EQ(domain_.copy(pd_, {kIova + 8, 3400, b.lkey}, {kIova + 5, 3400, b.lkey}), Fault::kNone);
  expect_write(8200, arena_bytes(8200, 3400));
}

TEST_F(IndirectKeyTest, GoesWithItsProtectionDomain) {
  const auto keys = domain_.create_key(other_pd_, {.max_entries = 4}).value();
  EXPECT_EQ(domain_.usage().indirect_keys, 1u);
  EXPECT_EQ(reason(domain_.deallocate_pd(other_pd_)), Error::kBusy);
  domain_.abandon_pds({other_pd_.value});
  EXPECT_EQ(domain_.usage().indirect_keys, 0u);
  EXPECT_EQ(domain_.configure_key(keys.lkey, other_pd_, {}), Fault::kNoSuchKey);
}

}  // namespace
}  // namespace verbena::memory
