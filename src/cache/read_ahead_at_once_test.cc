// SPDX-License-Identifier: Apache-2.0
// Readers in order, windows of several segments ahead of them, and everything else at the same
// time: what they read is cut, written, renamed, replaced, removed, flushed and evicted.
#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "cache/cache_testing.h"

namespace verbena::cache {
namespace {

class ReadAheadAtOnceTest : public CacheTest, public ::testing::WithParamInterface<uint64_t> {
 protected:
  // Windows of four segments.
  ReadAheadAtOnceTest() { blocks_ = 136; }
};

// An object, and what is in it.
using Model = std::map<std::string, Bytes>;

TEST_P(ReadAheadAtOnceTest, EachThreadFindsWhatItWrote) {
  SeededRandom faults(GetParam());
  const auto some = [&] { return static_cast<uint32_t>(faults.below(3) * 10'000); };
  tier_.set({.fail_ppm = some(),
             .full_ppm = some() / 4,
             .lost_answer_ppm = 2 * some(),
             .short_ppm = some(),
             .delay_ppm = 2 * some(),
             .late_ppm = 10 * some(),
             .delay_us = 500});
  flushers_ = 4;
  begin();
  cache_->start();
  std::atomic<bool> stop = false;
  std::thread other([&] {
    SeededRandom random(100 * GetParam() + 99);
    while (!stop) {
      if (random.below(3) == 0) static_cast<void>(cache_->flush_all());
      if (random.below(3) == 0) static_cast<void>(cache_->evict_all());
      std::this_thread::sleep_for(std::chrono::milliseconds(random.below(10)));
    }
  });
  constexpr uint64_t kThreads = 3;
  std::vector<Model> models(kThreads);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      SeededRandom random(100 * GetParam() + t);
      Model& model = models[t];
      const auto draw = [&] {
        return "o" + std::to_string(t) + "." + std::to_string(random.below(3));
      };
      const auto read_in_order = [&](ObjectId id, const Bytes& bytes) {
        Bytes piece(20'000 + random.below(400'000));
        const size_t until = random.below(3) == 0 ? random.below(bytes.size() + 1) : bytes.size();
        size_t at = random.below(3) == 0 ? random.below(bytes.size() + 1) : 0;
        while (at < until) {
          const auto done = cache_->run([&] { return store_->read(id, at, piece); });
          if (!done) return;
          cache_->used(id, at, piece.size());
          const size_t expected = std::min(piece.size(), bytes.size() - at);
          EXPECT_EQ(*done, expected);
          EXPECT_TRUE(std::equal(piece.begin(), piece.begin() + static_cast<ptrdiff_t>(expected),
                                 bytes.begin() + static_cast<ptrdiff_t>(at)))
              << at;
          at += piece.size();
        }
      };
      for (uint64_t i = 0; i < 150; ++i) {
        const std::string name = draw();
        const auto found = model.find(name);
        if (found == model.end()) {
          const ObjectId id{10 + t, i + 1};
          if (cache_->run([&] { return store_->create_object(id, name); })) model[name] = {};
          continue;
        }
        Bytes& bytes = found->second;
        const ObjectId id = id_of(name);
        switch (random.below(16)) {
          case 0: {
            const std::string to = draw();
            if (model.contains(to) || !cache_->rename(id, to)) break;
            Bytes moved = std::move(bytes);
            model.erase(name);
            model[to] = std::move(moved);
            break;
          }
          case 1:
            if (cache_->remove(id)) model.erase(name);
            break;
          case 2: static_cast<void>(cache_->flush(id)); break;
          case 3: static_cast<void>(cache_->evict(id)); break;
          case 4: {
            const std::string by = draw();
            if (by == name || !model.contains(by)) break;
            if (!cache_->replace(id, id_of(by), store::kNoClient)) break;
            bytes = std::move(model[by]);
            model.erase(by);
            break;
          }
          case 5:
          case 6: {
            const uint64_t most = bytes.size() + 300'000;
            const uint64_t size = random.below(4) == 0
                                      ? random.below(most) / store::kDataBytes * store::kDataBytes
                                      : random.below(most);
            if (!cache_->run([&] { return store_->truncate(id, size); })) break;
            bytes.resize(size);
            break;
          }
          case 7:
          case 8:
          case 9:
          case 10:
          case 11: read_in_order(id, bytes); break;
          default: {
            const uint64_t offset = random.below(2'000'000);
            const Bytes news = pattern(1 + random.below(300'000), random.next());
            if (!cache_->run([&] { return store_->write(id, offset, news); })) break;
            bytes.resize(std::max<size_t>(bytes.size(), offset + news.size()));
            std::ranges::copy(news, bytes.begin() + static_cast<ptrdiff_t>(offset));
          }
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  stop = true;
  other.join();
  EXPECT_GT(cache_->counter(Counter::kAheadLoads), 0u);
  tier_.set({});
  const auto flushed = cache_->flush_all();
  ASSERT_TRUE(flushed.has_value()) << flushed.error().what;
  for (const Model& model : models) {
    for (const auto& [name, bytes] : model) EXPECT_TRUE(get(name) == bytes) << name;
  }
  begin();
  for (const Model& model : models) {
    for (const auto& [name, bytes] : model) EXPECT_TRUE(get(name) == bytes) << name;
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, ReadAheadAtOnceTest, ::testing::Range<uint64_t>(1, 1 + seeds(3)));

}  // namespace
}  // namespace verbena::cache
