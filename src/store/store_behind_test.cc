// SPDX-License-Identifier: Apache-2.0
// A store as a cache: a simple one behind it, of which it knows only what it is told.
#include <map>
#include <set>

#include "store/store_testing.h"

namespace verbena::store {
namespace {

// What is behind: whole objects, by name or id.
struct Shelf {
  struct Entry {
    uint64_t version = 0;
    Bytes bytes;
  };
  std::map<std::string, Entry> objects;
  uint64_t next = 1000;
};

std::string key_of(const std::string& name, ObjectId id) {
  return name.empty() ? std::to_string(id.high) + ":" + std::to_string(id.low) : name;
}

class StoreBehindTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    Options options;
    options.cache = true;
    make(options);
  }

  // As a cache does it. `between`: what happens after it was written, before it is noted.
  void flush(ObjectId id, const std::function<void()>& between = {}) {
    set_aside(id);
    auto plan = store_->prepare_flush(id);
    ASSERT_TRUE(plan.has_value()) << plan.error().what;
    if (plan->nothing()) return;
    const auto version = store_->begin_flush(id, shelf_.next += 100);
    ASSERT_TRUE(version.has_value()) << version.error().what;
    write_behind(*plan, *version);
    if (between) between();
    const auto done = store_->end_flush(*plan, *version);
    ASSERT_TRUE(done.has_value()) << done.error().what;
  }
  // What others have under its name goes elsewhere first.
  void set_aside(ObjectId id) {
    const auto info = store_->stat(id);
    ASSERT_TRUE(info.has_value());
    const auto all = store_->list({}, 1000);
    for (const ObjectInfo& other : *all) {
      const auto place = store_->behind(other.id);
      if (!place->under || key_of(place->under->name, place->under->id) != key_of(info->name, id) ||
          other.id == id) {
        continue;
      }
      auto entry = shelf_.objects.at(key_of(info->name, id));
      entry.version = shelf_.next += 100;
      shelf_.objects["aside " + std::to_string(other.id.low)] = entry;
      ASSERT_TRUE(store_->move_behind(other.id, "aside " + std::to_string(other.id.low), {},
                                      entry.version));
    }
    // What is left there of one that is gone is removed.
    const auto place = store_->behind(id);
    const Behind own = place->under ? place->under->own : place->behind;
    if (own == Behind{}) shelf_.objects.erase(key_of(info->name, id));
  }
  void write_behind(const PreparedFlush& plan, uint64_t version) {
    const auto& [behind, under] = plan.base();
    auto& entry = shelf_.objects[key_of(plan.name(), plan.id())];
    ASSERT_TRUE(entry.version == 0 || (under ? under->own : behind).may_be(entry.version));
    if (under) {
      const auto& source = shelf_.objects.at(key_of(under->name, under->id));
      ASSERT_TRUE(behind.may_be(source.version));
      entry.bytes = source.bytes;
    }
    entry.version = version;
    Bytes& bytes = entry.bytes;
    // Parts past the end are zeros.
    bytes.resize(plan.size());
    bytes.resize((plan.size() + kDataBytes - 1) / kDataBytes * kDataBytes);
    for (size_t s = 0; s < plan.spans().size(); ++s) {
      const auto& span = plan.spans()[s];
      for (uint64_t i = 0; i < span.count; ++i) {
        uint8_t* const to = bytes.data() + (span.first + i) * kDataBytes;
        if (span.hole) {
          std::fill_n(to, kDataBytes, uint8_t{0});
          continue;
        }
        const auto part = plan.part(s, i);
        ASSERT_TRUE(part.has_value()) << part.error().what;
        std::copy_n(part->bytes, kDataBytes, to);
        ASSERT_EQ(part->crc, crc_of({part->bytes, kDataBytes}));
      }
    }
    bytes.resize(plan.size());
  }
  // Whether another object has what is under this name.
  bool is_used(const std::string& name) {
    const auto all = store_->list({}, 1000);
    return std::ranges::any_of(*all, [&](const ObjectInfo& info) {
      const auto place = store_->behind(info.id);
      return place->under && place->under->name == name;
    });
  }
  void fill(ObjectId id, uint64_t first, uint64_t count) {
    auto fill = store_->prepare_fill(id, first, count);
    ASSERT_TRUE(fill.has_value()) << fill.error().what;
    load(*fill, id);
    const auto done = fill->commit(fill->base().behind.version);
    ASSERT_TRUE(done.has_value()) << done.error().what;
  }
  void load(PreparedFill& fill, ObjectId id) const {
    if (fill.parts().empty()) return;
    const auto& [behind, under] = fill.base();
    const auto& entry =
        shelf_.objects.at(under ? key_of(under->name, under->id) : key_of(fill.name(), id));
    ASSERT_TRUE(behind.may_be(entry.version));
    uint64_t at = fill.first() * kDataBytes;
    for (auto& part : fill.parts()) {
      std::fill_n(part.bytes, kDataBytes, uint8_t{0});
      const uint64_t left = entry.bytes.size() > at ? entry.bytes.size() - at : 0;
      std::copy_n(entry.bytes.data() + std::min<uint64_t>(at, entry.bytes.size()),
                  std::min<uint64_t>(left, kDataBytes), part.bytes);
      part.crc = crc_of({part.bytes, kDataBytes});
      at += kDataBytes;
    }
  }
  // Brings what is behind until it works.
  template <typename Op>
  auto with_fills(ObjectId id, Op op) -> decltype(op()) {
    for (int round = 0;; ++round) {
      auto done = op();
      if (done || done.error().code != Code::kBehind || round == 1000) return done;
      EXPECT_GT(done.error().behind.count, 0u);
      fill(id, done.error().behind.first, done.error().behind.count);
      if (HasFatalFailure()) return done;
    }
  }
  Bytes read_all(ObjectId id) {
    Bytes bytes(store_->stat(id)->size);
    const auto done = with_fills(id, [&] { return store_->read(id, 0, bytes); });
    EXPECT_TRUE(done.has_value()) << done.error().what;
    return bytes;
  }
  uint64_t evict(ObjectId id) {
    const auto gone = store_->evict(id, 0, kMaxIndex);
    EXPECT_TRUE(gone.has_value());
    return gone.value_or(0);
  }
  void reopen_cache() {
    ASSERT_TRUE(store_->close().has_value());
    store_.reset();
    Options options;
    options.cache = true;
    auto made = Store::open(backend(), options);
    ASSERT_TRUE(made.has_value()) << made.error().what;
    store_ = std::move(*made);
  }

  Shelf shelf_;
};

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

// Any order of it all, against what it should be; closed and opened, and written anew in between.
TEST_F(StoreBehindTest, AnyOrder) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    shelf_.objects.clear();
    Options options;
    options.cache = true;
    make(options);
    SeededRandom random(seed);
    std::map<std::string, Bytes> model;
    uint64_t last_id = 0;
    const auto below = [&](uint64_t n) { return random.below(n); };
    const auto draw_name = [&] { return "o" + std::to_string(below(5)); };
    for (int step = 0; step < 200; ++step) {
      SCOPED_TRACE(step);
      const std::string name = draw_name();
      if (!model.contains(name)) {
        ASSERT_TRUE(store_->create_object({1, ++last_id}, name));
        if (!is_used(name)) shelf_.objects.erase(name);
        model[name] = {};
      }
      Bytes& bytes = model[name];
      const ObjectId id = *store_->find(name);
      const std::string other = draw_name();
      const auto fine = [&](const auto& done) {
        ASSERT_TRUE(done.has_value()) << done.error().what;
      };
      switch (below(14)) {
        case 0:
        case 1: {
          const uint64_t offset = below(100'000);
          const Bytes news = pattern(1 + below(30'000), random.next());
          fine(with_fills(id, [&] { return store_->write(id, offset, news); }));
          bytes.resize(std::max<size_t>(bytes.size(), offset + news.size()));
          std::ranges::copy(news, bytes.begin() + static_cast<ptrdiff_t>(offset));
          break;
        }
        case 2: {
          const uint64_t size = below(120'000);
          fine(with_fills(id, [&] { return store_->truncate(id, size); }));
          bytes.resize(size);
          break;
        }
        case 3:
        case 4: flush(id); break;
        case 5:
        case 6: fine(store_->evict(id, below(20), below(30))); break;
        case 7: {
          if (!model.contains(other) || other == name || bytes.empty()) break;
          const ObjectId to = *store_->find(other);
          const uint64_t from = below(bytes.size());
          const uint64_t length = 1 + below(bytes.size() - from);
          const uint64_t at = from % kDataBytes + kDataBytes * below(10);
          const CloneRequest request{.from = id,
                                     .to = to,
                                     .from_offset = from,
                                     .length = length,
                                     .to_offset = at,
                                     .allow_existing = true};
          // Either may lack parts.
          for (int round = 0; round < 100; ++round) {
            const auto done = store_->clone(request);
            if (done) break;
            ASSERT_EQ(done.error().code, Code::kBehind) << done.error().what;
            fill(done.error().behind.object, done.error().behind.first, done.error().behind.count);
            ASSERT_LT(round, 99);
          }
          const Bytes part(bytes.begin() + static_cast<ptrdiff_t>(from),
                           bytes.begin() + static_cast<ptrdiff_t>(from + length));
          Bytes& target = model[other];
          target.resize(std::max<size_t>(target.size(), at + length));
          std::ranges::copy(part, target.begin() + static_cast<ptrdiff_t>(at));
          break;
        }
        case 8: reopen_cache(); break;
        case 9:
          if (below(2) == 0) {
            fine(store_->checkpoint());
          } else {
            fine(store_->compact());
          }
          break;
        case 10:
          fine(store_->remove(id));
          model.erase(name);
          break;
        case 11: fill(id, below(20), 1 + below(20)); break;
        case 12: {
          if (model.contains(other)) break;
          fine(store_->rename(id, other));
          const auto place = store_->behind(id);
          const bool back = !place->under && place->behind.version != 0;
          if (!back && !is_used(other)) shelf_.objects.erase(other);
          Bytes moved = std::move(bytes);
          model.erase(name);
          model[other] = std::move(moved);
          break;
        }
        case 13: {
          if (!model.contains(other) || other == name) break;
          fine(store_->replace(id, *store_->find(other)));
          Bytes moved = std::move(model[other]);
          model[name] = std::move(moved);
          model.erase(other);
          break;
        }
        default: break;
      }
      if (HasFatalFailure()) return;
    }
    for (const auto& [name, bytes] : model) ASSERT_EQ(read_all(*store_->find(name)), bytes) << name;
    // And from what is behind alone.
    for (const auto& [name, bytes] : model) flush(*store_->find(name));
    for (const auto& [name, bytes] : model) ASSERT_EQ(shelf_.objects.at(name).bytes, bytes) << name;
    const auto scrubbed = store_->scrub();
    ASSERT_TRUE(scrubbed.has_value());
    EXPECT_EQ(scrubbed->damaged, 0u);
  }
}

}  // namespace
}  // namespace verbena::store
