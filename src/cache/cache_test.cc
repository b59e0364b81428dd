// SPDX-License-Identifier: Apache-2.0
#include "cache/cache.h"

#include <map>

#include <gtest/gtest.h>

#include "cache/cache_testing.h"
#include "store/drafts.h"

namespace verbena::cache {
namespace {

TEST_F(CacheTest, MoreThanThereIsRoomFor) {
  std::map<std::string, Bytes> model;
  for (uint64_t i = 0; i < 20; ++i) {
    const std::string name = "object " + std::to_string(i);
    model[name] = pattern(300'000, i);
    put(name, model[name]);
  }
  EXPECT_GT(cache_->counter(Counter::kEvictedChunks), 0u);
  for (const auto& [name, bytes] : model) ASSERT_EQ(get(name), bytes) << name;
  EXPECT_GT(cache_->counter(Counter::kLoads), 0u);
  // And from there alone.
  ASSERT_TRUE(cache_->flush_all());
  begin();
  for (const auto& [name, bytes] : model) ASSERT_EQ(get(name), bytes) << name;
  EXPECT_EQ(cache_->counter(Counter::kAdopted), 20u);
}

TEST_F(CacheTest, RemovalsAndRenamesReachWhatIsBehind) {
  put("a", pattern(10'000, 1));
  put("b", pattern(200'000, 2));
  put("c", pattern(100, 3));
  ASSERT_TRUE(cache_->flush_all());
  EXPECT_EQ(cache_->evict_all(), 3u + 50u);
  ASSERT_TRUE(cache_->remove(id_of("a")));
  ASSERT_TRUE(cache_->rename(id_of("b"), "d"));
  EXPECT_TRUE(behind_.state({"a", {}})) << "later";
  crash();
  EXPECT_FALSE(store_->find("a")) << "not again from behind";
  EXPECT_FALSE(store_->find("b"));
  ASSERT_TRUE(cache_->flush_all());
  EXPECT_FALSE(behind_.state({"a", {}}));
  EXPECT_FALSE(behind_.state({"b", {}}));
  EXPECT_TRUE(behind_.state({"d", {}}));
  begin();
  EXPECT_EQ(get("d"), pattern(200'000, 2));
  EXPECT_EQ(get("c"), pattern(100, 3));
  EXPECT_FALSE(store_->find("a"));
  EXPECT_FALSE(store_->find("b"));
}

TEST_F(CacheTest, ANewObjectOfTheNameOfARemovedOne) {
  put("a", pattern(10'000, 1));
  ASSERT_TRUE(cache_->flush_all());
  ASSERT_TRUE(cache_->remove(id_of("a")));
  put("a", pattern(20'000, 2));
  crash();
  EXPECT_EQ(get("a"), pattern(20'000, 2));
  ASSERT_TRUE(cache_->flush_all());
  crash();
  begin();
  EXPECT_EQ(get("a"), pattern(20'000, 2));
}

TEST_F(CacheTest, AFlushThatFailsLeavesItUnflushed) {
  put("a", pattern(100'000, 1));
  tier_.set({.fail_ppm = 1'000'000});
  const auto failed = cache_->flush(id_of("a"));
  ASSERT_FALSE(failed.has_value());
  EXPECT_FALSE(store_->stat(id_of("a"))->flushed);
  EXPECT_FALSE(cache_->flush_all());
  EXPECT_EQ(cache_->evict_all(), 0u);
  EXPECT_EQ(get("a"), pattern(100'000, 1));
  tier_.set({});
  ASSERT_TRUE(cache_->flush_all()) << "it is tried again";
  EXPECT_TRUE(store_->stat(id_of("a"))->flushed);
  // What is only behind cannot be read while that is away; what is here can.
  put("b", pattern(50'000, 2));
  EXPECT_EQ(cache_->evict(id_of("a")).value(), 25u);
  tier_.set({.fail_ppm = 1'000'000});
  Bytes bytes(100);
  const auto read = cache_->run([&] { return store_->read(id_of("a"), 0, bytes); });
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, Code::kIo);
  EXPECT_EQ(get("b"), pattern(50'000, 2));
  tier_.set({});
  EXPECT_EQ(get("a"), pattern(100'000, 1));
}

TEST_F(CacheTest, FullAndNothingCanLeave) {
  tier_.set({.fail_ppm = 1'000'000});
  const ObjectId id{1, 1};
  ASSERT_TRUE(store_->create_object(id, "a"));
  Result<void> done;
  uint64_t at = 0;
  for (; done && at < 10'000'000; at += 40'000) {
    done = cache_->run([&] { return store_->write(id, at, pattern(40'000, at)); });
  }
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, Code::kFull);
  tier_.set({});
  done = cache_->run([&] { return store_->write(id, at, pattern(40'000, at)); });
  EXPECT_TRUE(done.has_value()) << done.error().what;
}

TEST_F(CacheTest, ChangedByOthers) {
  const auto change = [&](const std::string& name, uint64_t seed, size_t size) {
    const auto now = behind_.state({name, {}});
    backend::NewState wanted{.base = std::nullopt, .state = {seed + 12345, size, 777}};
    if (now) wanted.base = now->version;
    auto update = behind_.update({name, {}}, wanted);
    ASSERT_TRUE(update.has_value());
    const Bytes bytes = pattern(size, seed);
    Bytes padded = bytes;
    padded.resize((size + backend::kPartBytes - 1) / backend::kPartBytes * backend::kPartBytes);
    for (size_t i = 0; i * backend::kPartBytes < padded.size(); ++i) {
      const uint8_t* const part = padded.data() + i * backend::kPartBytes;
      const backend::PartToPut one{part, store::crc_of({part, backend::kPartBytes})};
      ASSERT_TRUE((*update)->put(i, {&one, 1}));
    }
    ASSERT_TRUE((*update)->commit());
  };
  put("a", pattern(100'000, 1));
  put("b", pattern(100'000, 2));
  put("c", pattern(100'000, 3));
  ASSERT_TRUE(cache_->flush_all());
  cache_->evict_all();
  // While it runs: whoever needs it from there gets what is there now.
  change("a", 50, 60'000);
  EXPECT_EQ(get("a"), pattern(60'000, 50));
  // Here and there: refused, and nothing is mixed.
  ASSERT_TRUE(cache_->run([&] { return store_->write(id_of("b"), 0, pattern(10, 9)); }));
  change("b", 51, 70'000);
  EXPECT_EQ(cache_->flush(id_of("b")).error().code, Code::kConflict);
  Bytes expected = pattern(100'000, 2);
  std::ranges::copy(pattern(10, 9), expected.begin());
  EXPECT_EQ(get("b"), expected);
  ASSERT_TRUE(cache_->remove(id_of("b")));
  // While it does not run.
  change("c", 52, 80'000);
  change("new", 53, 90'000);
  crash();
  EXPECT_EQ(get("c"), pattern(80'000, 52));
  EXPECT_EQ(get("new"), pattern(90'000, 53));
  // Removed there.
  ASSERT_TRUE(behind_.remove({"new", {}}, behind_.state({"new", {}})->version));
  crash();
  EXPECT_FALSE(store_->find("new"));
}

TEST_F(CacheTest, ObjectsWithoutAName) {
  const ObjectId id{5, 6};
  ASSERT_TRUE(store_->create_object(id));
  ASSERT_TRUE(store_->write(id, 0, pattern(5000, 1)));
  ASSERT_TRUE(cache_->flush_all());
  begin();
  Bytes bytes(5000);
  ASSERT_TRUE(cache_->run([&] { return store_->read(id, 0, bytes); }));
  EXPECT_EQ(bytes, pattern(5000, 1));
}

// Any order of operations, faults behind, crashes here, and a memory far below the data.
class CacheModelTest : public CacheTest, public ::testing::WithParamInterface<uint64_t> {
 protected:
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

TEST_P(CacheModelTest, AgreesWithTheModel) {
  const uint64_t seed = GetParam();
  SeededRandom random(seed);
  std::map<std::string, Bytes> model;
  for (int round = 0; round < 3 && !HasFailure(); ++round) {
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
    for (const auto& info : *store_->list({}, 1000)) count += store::is_hidden(info.id) ? 0 : 1;
    EXPECT_EQ(count, model.size());
    const auto scrubbed = store_->scrub();
    ASSERT_TRUE(scrubbed.has_value());
    EXPECT_EQ(scrubbed->damaged, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, CacheModelTest, ::testing::Range<uint64_t>(1, 41));

}  // namespace
}  // namespace verbena::cache
