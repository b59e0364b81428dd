// SPDX-License-Identifier: Apache-2.0
// For tests: a cache against a model. Any order of operations, faults between it and what is
// behind, crashes here, and a memory far below the data. One seed is one history.
#pragma once

#include <algorithm>
#include <map>
#include <string>

#include "cache/cache_testing.h"
#include "store/drafts.h"

namespace verbena::cache {

class CacheModelTest : public CacheTest, public ::testing::WithParamInterface<uint64_t> {
 protected:
  using CacheTest::CacheTest;

  // Rounds of operations and faults; after each, all of it from here, and then from behind alone or
  // after a crash.
  void run(uint64_t seed, int rounds);

 private:
  backend::TierFaults faults_;

  void step(SeededRandom& random, std::map<std::string, Bytes>& model) {
    const auto below = [&](uint64_t n) { return random.below(n); };
    const std::string name = "o" + std::to_string(below(8));
    const auto found = model.find(name);
    const auto fine = [&](const auto& done) {
      // What needs something from behind may fail with it, and then changes nothing.
      if (done) return true;
      EXPECT_TRUE(done.error().code == Code::kIo || done.error().code == Code::kFull)
          << done.error().what;
      return false;
    };
    if (found == model.end()) {
      const ObjectId id{1, ++last_id_};
      const auto made = cache_->run([&] { return store_->create_object(id, name); });
      if (fine(made)) model[name] = {};
      return;
    }
    Bytes& bytes = found->second;
    const ObjectId id = id_of(name);
    switch (below(14)) {
      case 0:
      case 1:
      case 2: {
        const uint64_t offset = below(400'000);
        const Bytes news = pattern(1 + below(100'000), random.next());
        if (!fine(cache_->run([&] { return store_->write(id, offset, news); }))) break;
        bytes.resize(std::max<size_t>(bytes.size(), offset + news.size()));
        std::ranges::copy(news, bytes.begin() + static_cast<ptrdiff_t>(offset));
        break;
      }
      case 3: {
        const uint64_t size = below(500'000);
        if (fine(cache_->run([&] { return store_->truncate(id, size); }))) bytes.resize(size);
        break;
      }
      case 4: {
        if (fine(cache_->remove(id))) model.erase(name);
        break;
      }
      case 5: {
        const std::string other = "o" + std::to_string(below(8));
        if (model.contains(other) || !fine(cache_->rename(id, other))) break;
        Bytes moved = std::move(bytes);
        model.erase(name);
        model[other] = std::move(moved);
        break;
      }
      case 6: {
        const std::string other = "o" + std::to_string(below(8));
        if (model.contains(other)) break;
        const ObjectId to{1, ++last_id_};
        const auto done =
            cache_->run([&] { return store_->clone({.from = id, .to = to, .to_name = other}); });
        if (fine(done)) model[other] = bytes;
        break;
      }
      case 7: {
        const ObjectId draft{store::kDraftHigh, random.next()};
        const Bytes news = pattern(below(100'000), random.next());
        if (!fine(cache_->run([&] { return store_->create_object(draft); }))) break;
        if (!fine(cache_->run([&] { return store_->write(draft, 0, news); })) ||
            !fine(cache_->replace(id, draft, store::kNoClient))) {
          static_cast<void>(store_->remove(draft));
          break;
        }
        bytes = news;
        break;
      }
      case 8:  static_cast<void>(fine(cache_->flush(id))); break;
      case 9:  static_cast<void>(fine(cache_->flush_all())); break;
      case 10: static_cast<void>(fine(cache_->evict(id))); break;
      case 11:
        if (below(4) > 0) break;
        tier_.set({});  // opening needs what is behind
        crash();
        tier_.set(faults_);
        break;
      case 12: cache_->evict_all(); break;
      case 13: {
        Bytes got(bytes.size());
        if (fine(cache_->run([&] { return store_->read(id, 0, got); }))) {
          EXPECT_EQ(got, bytes);
        }
        break;
      }
      default: break;
    }
  }
};

inline void CacheModelTest::run(uint64_t seed, int rounds) {
  SeededRandom random(seed);
  std::map<std::string, Bytes> model;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const auto some = [&] { return static_cast<uint32_t>(random.below(3) * 60'000); };
    faults_ = {.fail_ppm = some(), .full_ppm = some(), .lost_answer_ppm = 2 * some()};
    tier_.set(faults_);
    for (int i = 0; i < 60 && !HasFailure(); ++i) {
      SCOPED_TRACE("round " + std::to_string(round) + ", step " + std::to_string(i));
      step(random, model);
    }
    tier_.set({});
    for (const auto& [name, bytes] : model) ASSERT_EQ(get(name), bytes) << name;
    const auto flushed = cache_->flush_all();
    ASSERT_TRUE(flushed.has_value()) << flushed.error().what;
    if (random.below(2) == 0) {
      begin();
    } else {
      crash();
    }
    for (const auto& [name, bytes] : model) ASSERT_EQ(get(name), bytes) << name;
    size_t count = 0;
    const auto listed = store_->list({}, 1000);
    for (const auto& info : *listed) count += store::is_hidden(info.id) ? 0 : 1;
    EXPECT_EQ(count, model.size());
    const auto scrubbed = store_->scrub();
    ASSERT_TRUE(scrubbed.has_value());
    EXPECT_EQ(scrubbed->damaged, 0u);
  }
}

}  // namespace verbena::cache
