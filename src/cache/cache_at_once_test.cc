// SPDX-License-Identifier: Apache-2.0
// Threads at work on one cache, in front of a tier that fails, does half of what it is asked for,
// and answers in another order than it was asked.
#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "cache/cache_testing.h"

namespace verbena::cache {
namespace {

class CacheAtOnceTest : public CacheTest, public ::testing::WithParamInterface<uint64_t> {};

// Threads that each have objects of their own, and one that flushes and evicts those of all.
TEST_P(CacheAtOnceTest, EachThreadFindsWhatItWrote) {
  SeededRandom faults(GetParam());
  const auto some = [&] { return static_cast<uint32_t>(faults.below(3) * 20'000); };
  tier_.set({.fail_ppm = some(),
             .full_ppm = some() / 4,
             .lost_answer_ppm = 2 * some(),
             .short_ppm = some(),
             .delay_ppm = 2 * some(),
             .late_ppm = 5 * some(),
             .delay_us = 300});
  flushers_ = 4;
  begin();
  std::atomic<bool> stop = false;
  std::thread other([&] {
    SeededRandom random(100 * GetParam() + 99);
    while (!stop) {
      if (random.below(2) == 0) static_cast<void>(cache_->flush_all());
      if (random.below(3) == 0) static_cast<void>(cache_->evict_all());
    }
  });
  constexpr uint64_t kThreads = 4;
  std::vector<std::map<std::string, Bytes>> models(kThreads);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      SeededRandom random(100 * GetParam() + t);
      auto& model = models[t];
      const auto draw = [&] {
        return "o" + std::to_string(t) + "." + std::to_string(random.below(3));
      };
      for (uint64_t i = 0; i < 250; ++i) {
        const std::string name = draw();
        const auto found = model.find(name);
        if (found == model.end()) {
          const ObjectId id{10 + t, i + 1};
          if (cache_->run([&] { return store_->create_object(id, name); })) model[name] = {};
          continue;
        }
        Bytes& bytes = found->second;
        const ObjectId id = id_of(name);
        switch (random.below(8)) {
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
          case 4:
          case 5: {
            Bytes got(bytes.size());
            if (!cache_->run([&] { return store_->read(id, 0, got); })) break;
            EXPECT_TRUE(got == bytes) << name;
            break;
          }
          default: {
            const uint64_t offset = random.below(150'000);
            const Bytes news = pattern(1 + random.below(60'000), random.next());
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
  tier_.set({});
  const auto flushed = cache_->flush_all();
  ASSERT_TRUE(flushed.has_value()) << flushed.error().what;
  size_t count = 0;
  for (const auto& model : models) {
    count += model.size();
    for (const auto& [name, bytes] : model) EXPECT_EQ(get(name), bytes) << name;
  }
  begin();
  for (const auto& model : models) {
    for (const auto& [name, bytes] : model) EXPECT_EQ(get(name), bytes) << name;
  }
  EXPECT_EQ(store_->list({}, 1000)->size(), count);
}
INSTANTIATE_TEST_SUITE_P(Seeds, CacheAtOnceTest, ::testing::Range<uint64_t>(1, 1 + seeds(4)));

}  // namespace
}  // namespace verbena::cache
