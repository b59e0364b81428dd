// SPDX-License-Identifier: Apache-2.0
// A store as a cache, one thing after the other.
#include "store/store_behind_testing.h"

namespace verbena::store {
namespace {

TEST_F(StoreBehindTest, LeavesAndComesBack) {
  ASSERT_TRUE(store_->create_object(kOne, "one"));
  const Bytes bytes = pattern(100'000, 1);
  write(kOne, 0, bytes);
  EXPECT_EQ(evict(kOne), 0u) << "it is only here";
  EXPECT_EQ(store_->stat(kOne)->only_here, 25u);
  EXPECT_FALSE(store_->stat(kOne)->flushed);
  flush(kOne);
  EXPECT_EQ(shelf_.objects.at("one").bytes, bytes);
  EXPECT_TRUE(store_->stat(kOne)->flushed);
  const uint64_t used = store_->space().used;
  EXPECT_EQ(evict(kOne), 25u);
  EXPECT_EQ(store_->space().used, used - 25);
  for (int opening = 0; opening < 2; ++opening) {
    const auto info = store_->stat(kOne);
    EXPECT_EQ(info->behind, 25u);
    EXPECT_EQ(info->chunks, 0u);
    EXPECT_TRUE(info->flushed);
    EXPECT_EQ(info->size, bytes.size());
    Bytes some(10);
    const auto missing = store_->read(kOne, 50'000, some);
    ASSERT_FALSE(missing.has_value());
    EXPECT_EQ(missing.error().code, Code::kBehind);
    EXPECT_EQ(missing.error().behind.first, 50'000 / kDataBytes);
    reopen_cache();
  }
  EXPECT_EQ(read_all(kOne), bytes);
  EXPECT_EQ(store_->stat(kOne)->behind, 0u);
  EXPECT_TRUE(store_->stat(kOne)->flushed);
  EXPECT_TRUE(store_->prepare_flush(kOne)->nothing());
  reopen_cache();
  EXPECT_EQ(read(kOne, 0, bytes.size()), bytes);
  EXPECT_TRUE(store_->stat(kOne)->flushed);
}

TEST_F(StoreBehindTest, WhatChangesMeanwhileIsNotFlushed) {
  ASSERT_TRUE(store_->create_object(kOne, "one"));
  Bytes bytes = pattern(100'000, 1);
  write(kOne, 0, bytes);
  const Bytes news = pattern(5000, 2);
  flush(kOne, [&] { write(kOne, 20'000, news); });
  std::ranges::copy(news, bytes.begin() + 20'000);
  EXPECT_EQ(store_->stat(kOne)->only_here, 3u);
  EXPECT_EQ(evict(kOne), 22u);
  EXPECT_EQ(read_all(kOne), bytes);
  flush(kOne);
  EXPECT_EQ(shelf_.objects.at("one").bytes, bytes);
  // And the shape of it.
  write(kOne, 0, news);
  flush(kOne, [&] { ASSERT_TRUE(store_->truncate(kOne, 30'000)); });
  EXPECT_FALSE(store_->stat(kOne)->flushed);
  flush(kOne);
  EXPECT_EQ(shelf_.objects.at("one").bytes.size(), 30'000u);
}

TEST_F(StoreBehindTest, HolesOverWhatIsBehind) {
  ASSERT_TRUE(store_->create_object(kOne, "one"));
  Bytes bytes = pattern(20 * kDataBytes, 1);
  write(kOne, 0, bytes);
  flush(kOne);
  EXPECT_EQ(evict(kOne), 20u);
  ASSERT_TRUE(store_->truncate(kOne, 5 * kDataBytes));
  ASSERT_TRUE(store_->truncate(kOne, 20 * kDataBytes));
  EXPECT_FALSE(store_->stat(kOne)->flushed) << "the same size, other bytes";
  std::fill(bytes.begin() + 5 * kDataBytes, bytes.end(), uint8_t{0});
  reopen_cache();
  EXPECT_FALSE(store_->stat(kOne)->flushed);
  flush(kOne);
  EXPECT_EQ(shelf_.objects.at("one").bytes, bytes);
  EXPECT_EQ(evict(kOne), 0u) << "holes take nothing";
  EXPECT_EQ(read_all(kOne), bytes);
  // A cut through a part that is not here.
  evict(kOne);
  const auto cut = store_->truncate(kOne, 100);
  ASSERT_FALSE(cut.has_value());
  EXPECT_EQ(cut.error().code, Code::kBehind);
}

TEST_F(StoreBehindTest, FewBytes) {
  ASSERT_TRUE(store_->create_object(kOne, "one"));
  const Bytes bytes = pattern(100, 1);
  write(kOne, 0, bytes);
  flush(kOne);
  EXPECT_EQ(shelf_.objects.at("one").bytes, bytes);
  EXPECT_TRUE(store_->stat(kOne)->flushed);
  reopen_cache();
  EXPECT_TRUE(store_->stat(kOne)->flushed);
  write(kOne, 50, bytes);
  EXPECT_FALSE(store_->stat(kOne)->flushed);
  reopen_cache();
  EXPECT_FALSE(store_->stat(kOne)->flushed);
}

TEST_F(StoreBehindTest, ClonesAndReplacementsAreOnlyHere) {
  ASSERT_TRUE(store_->create_object(kOne, "one"));
  const Bytes bytes = pattern(10 * kDataBytes, 1);
  write(kOne, 0, bytes);
  flush(kOne);
  ASSERT_TRUE(store_->clone({.from = kOne, .to = kTwo, .to_name = "two"}));
  EXPECT_EQ(store_->stat(kTwo)->only_here, 10u);
  reopen_cache();
  EXPECT_EQ(store_->stat(kTwo)->only_here, 10u);
  EXPECT_EQ(evict(kTwo), 0u);
  EXPECT_EQ(evict(kOne), 10u);
  EXPECT_EQ(read(kTwo, 0, bytes.size()), bytes) << "shared chunks stay for the other";
  // What is not here cannot be cloned.
  constexpr ObjectId kThree{1, 3};
  EXPECT_EQ(store_->clone({.from = kOne, .to = kThree}).error().code, Code::kBehind);
  // One that is only here takes the place of one that is behind.
  ASSERT_TRUE(store_->replace(kOne, kTwo));
  for (int opening = 0; opening < 2; ++opening) {
    EXPECT_EQ(store_->stat(kOne)->only_here, 10u);
    EXPECT_FALSE(store_->stat(kOne)->flushed);
    reopen_cache();
  }
  flush(kOne);
  EXPECT_TRUE(store_->stat(kOne)->flushed);
}

TEST_F(StoreBehindTest, AnotherNameIsBehindWhenItIsFlushed) {
  ASSERT_TRUE(store_->create_object(kOne, "one"));
  Bytes bytes = pattern(10 * kDataBytes, 1);
  write(kOne, 0, bytes);
  flush(kOne);
  evict(kOne);
  ASSERT_TRUE(store_->rename(kOne, "another"));
  const Bytes news = pattern(kDataBytes, 2);
  write(kOne, kDataBytes, news);
  std::ranges::copy(news, bytes.begin() + kDataBytes);
  for (int opening = 0; opening < 2; ++opening) {
    const auto place = store_->behind(kOne);
    ASSERT_TRUE(place->under);
    EXPECT_EQ(place->under->name, "one");
    EXPECT_EQ(store_->stat(kOne)->behind, 9u);
    EXPECT_FALSE(store_->stat(kOne)->flushed);
    reopen_cache();
  }
  fill(kOne, 3, 2);  // from where it is
  flush(kOne);
  EXPECT_EQ(shelf_.objects.at("another").bytes, bytes);
  shelf_.objects.erase("one");
  for (int opening = 0; opening < 2; ++opening) {
    EXPECT_FALSE(store_->behind(kOne)->under);
    EXPECT_TRUE(store_->stat(kOne)->flushed);
    reopen_cache();
  }
  EXPECT_EQ(read_all(kOne), bytes);
  // There and back again.
  ASSERT_TRUE(store_->rename(kOne, "one"));
  EXPECT_TRUE(store_->behind(kOne)->under);
  ASSERT_TRUE(store_->rename(kOne, "another"));
  EXPECT_FALSE(store_->behind(kOne)->under);
  EXPECT_TRUE(store_->stat(kOne)->flushed);
}

TEST_F(StoreBehindTest, ADraftThatDoesNotFit) {
  constexpr ObjectId kDraft{UINT64_MAX, 5};
  ASSERT_TRUE(store_->create_object(kOne, "one"));
  write(kOne, 0, pattern(5 * kDataBytes, 1));
  flush(kOne);
  ASSERT_TRUE(store_->create_object(kDraft));
  const Bytes bytes = pattern(10 * kDataBytes, 2);
  write(kDraft, 0, bytes);
  flush(kDraft);
  evict(kDraft);
  ASSERT_TRUE(store_->replace(kOne, kDraft));
  for (int opening = 0; opening < 2; ++opening) {
    const auto place = store_->behind(kOne);
    ASSERT_TRUE(place->under);
    EXPECT_EQ(place->under->id, kDraft);
    EXPECT_TRUE(place->under->own.may_be(shelf_.objects.at("one").version));
    EXPECT_EQ(store_->stat(kOne)->behind, 10u);
    EXPECT_EQ(store_->stat(kDraft).error().code, Code::kNotFound);
    reopen_cache();
  }
  // A flush whose end is not known, and another one.
  ASSERT_TRUE(store_->begin_flush(kOne, 9000));
  reopen_cache();
  flush(kOne);
  EXPECT_EQ(shelf_.objects.at("one").bytes, bytes);
  EXPECT_EQ(shelf_.objects.at("one").version, 9001u);
  shelf_.objects.erase(key_of("", kDraft));
  EXPECT_EQ(read_all(kOne), bytes);
  EXPECT_TRUE(store_->stat(kOne)->flushed);
}

TEST_F(StoreBehindTest, AFlushWhoseEndIsNotKnown) {
  ASSERT_TRUE(store_->create_object(kOne, "one"));
  Bytes bytes = pattern(10 * kDataBytes, 1);
  write(kOne, 0, bytes);
  flush(kOne);
  evict(kOne);
  const Bytes news = pattern(kDataBytes, 2);
  write(kOne, 0, news);
  std::ranges::copy(news, bytes.begin());
  const uint64_t before = store_->behind(kOne)->behind.version;
  const auto first = store_->begin_flush(kOne, 5000);
  const auto second = store_->begin_flush(kOne, 7000);
  EXPECT_EQ(*first, 5000u);
  EXPECT_EQ(*second, 5001u) << "the first one may still be there some day";
  reopen_cache();
  const Behind behind = store_->behind(kOne)->behind;
  EXPECT_TRUE(behind.may_be(before));
  EXPECT_TRUE(behind.may_be(5000));
  EXPECT_TRUE(behind.may_be(5001));
  EXPECT_FALSE(behind.may_be(5002));
  EXPECT_FALSE(behind.may_be(4999));
  // The second one is there: what was written is flushed again, and the rest is as it was.
  {
    const auto plan = store_->prepare_flush(kOne);
    write_behind(*plan, 5001);
  }
  EXPECT_EQ(store_->found_behind(kOne, 4000).error().code, Code::kConflict);
  ASSERT_TRUE(store_->found_behind(kOne, 5001));
  EXPECT_EQ(store_->stat(kOne)->only_here, 1u);
  EXPECT_EQ(read_all(kOne), bytes);
  flush(kOne);
  EXPECT_TRUE(store_->stat(kOne)->flushed);
}

TEST_F(StoreBehindTest, ObjectsThatAreOnlyThere) {
  shelf_.objects["found"] = {77, pattern(50'000, 3)};
  ASSERT_TRUE(
      store_->adopt(kOne, "found", {.version = 77, .size = 50'000, .modified_ns = 123'456}));
  const auto info = store_->stat(kOne);
  EXPECT_EQ(info->size, 50'000u);
  EXPECT_EQ(info->modified_ns, 123'456u);
  EXPECT_TRUE(info->flushed);
  reopen_cache();
  EXPECT_EQ(store_->find("found").value(), kOne);
  // Others change it there while a part of it is on its way.
  auto late = store_->prepare_fill(kOne, 0, 5);
  ASSERT_TRUE(late.has_value());
  load(*late, kOne);
  shelf_.objects["found"] = {78, pattern(60'000, 4)};
  ASSERT_TRUE(store_->adopt_again(kOne, {.version = 78, .size = 60'000, .modified_ns = 222'222}));
  ASSERT_TRUE(late->commit(late->base().behind.version));
  EXPECT_EQ(store_->stat(kOne)->behind, 15u) << "what was on its way is not what is there";
  EXPECT_EQ(read_all(kOne), shelf_.objects.at("found").bytes);
  write(kOne, 0, pattern(10, 5));
  EXPECT_EQ(store_->adopt_again(kOne, {.version = 79, .size = 1, .modified_ns = 1}).error().code,
            Code::kConflict);
  // A part that is written while it is on its way.
  ASSERT_TRUE(store_->adopt(kTwo, "other", {.version = 80, .size = 50'000, .modified_ns = 1}));
  shelf_.objects["other"] = {80, pattern(50'000, 6)};
  auto fill = store_->prepare_fill(kTwo, 0, 100);
  load(*fill, kTwo);
  Bytes expected = shelf_.objects.at("other").bytes;
  const Bytes news = pattern(3 * kDataBytes, 7);
  write(kTwo, 2 * kDataBytes, news);
  std::ranges::copy(news, expected.begin() + 2 * kDataBytes);
  ASSERT_TRUE(fill->commit(fill->base().behind.version));
  EXPECT_EQ(store_->stat(kTwo)->only_here, 3u);
  EXPECT_EQ(read(kTwo, 0, 50'000), expected);
}

TEST_F(StoreBehindTest, NothingBehindAnyMore) {
  ASSERT_TRUE(store_->create_object(kOne, "one"));
  write(kOne, 0, pattern(10 * kDataBytes, 1));
  flush(kOne);
  evict(kOne);
  EXPECT_EQ(store_->detach(kOne).error().code, Code::kBehind);
  static_cast<void>(read_all(kOne));
  ASSERT_TRUE(store_->detach(kOne));
  for (int opening = 0; opening < 2; ++opening) {
    EXPECT_EQ(store_->stat(kOne)->only_here, 10u);
    EXPECT_EQ(store_->behind(kOne)->behind.version, 0u);
    EXPECT_EQ(evict(kOne), 0u);
    reopen_cache();
  }
}

TEST_F(StoreBehindTest, ADamagedChunkIsNotFlushed) {
  ASSERT_TRUE(store_->create_object(kOne, "one"));
  write(kOne, 0, pattern(10 * kDataBytes, 1));
  auto plan = store_->prepare_flush(kOne);
  const auto part = plan->part(0, 3);
  ASSERT_TRUE(part.has_value());
  const_cast<uint8_t*>(part->bytes)[100] ^= 1;
  EXPECT_EQ(plan->part(0, 3).error().code, Code::kDamaged);
}

}  // namespace
}  // namespace verbena::store
