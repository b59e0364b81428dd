// SPDX-License-Identifier: Apache-2.0
// A store as a cache, against what it should be.
#include <algorithm>
#include <map>

#include "store/store_behind_testing.h"

namespace verbena::store {
namespace {

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
