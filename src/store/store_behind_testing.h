// SPDX-License-Identifier: Apache-2.0
// A store as a cache: a simple one behind it, of which it knows only what it is told.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "store/store_testing.h"

namespace verbena::store {

// What is behind: whole objects, by name or id.
struct Shelf {
  struct Entry {
    uint64_t version = 0;
    Bytes bytes;
  };
  std::map<std::string, Entry> objects;
  uint64_t next = 1000;
};

inline std::string key_of(const std::string& name, ObjectId id) {
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

}  // namespace verbena::store
