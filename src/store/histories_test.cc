// SPDX-License-Identifier: Apache-2.0
// Two histories of one store: it is copied, and both copies are written to. Then chunks, blocks and
// every other block (the directories of a store in two) are exchanged between them. What is read is
// right, as one of the histories has it, or an error that names the damage; scrub is content only
// with a store that is one of them.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include <gtest/gtest.h>

#include "store/crc_parts.h"
#include "store/log_reader.h"
#include "store/memory_medium.h"
#include "store/roots.h"
#include "store/store.h"

namespace verbena::store {
namespace {

constexpr uint32_t kHistoryPerBlock = 16;
constexpr uint32_t kHistoryBlocks = 12;
constexpr uint64_t kAllChunks = kHistoryPerBlock * kHistoryBlocks;

using Image = std::vector<uint8_t>;
using Objects = std::map<ObjectId, std::vector<uint8_t>>;

std::vector<uint8_t> history_bytes(size_t length, uint64_t seed) {
  std::vector<uint8_t> bytes(length);
  SeededRandom random(seed);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next());
  return bytes;
}

Options history_options(SeededRandom& random, bool read_only) {
  Options options;
  options.read_only = read_only;
  options.now_ns = [] { return uint64_t{1'700'000'000'000'000'000}; };
  options.random = [&random] { return random.next(); };
  return options;
}

// What a store has, by itself.
struct History {
  Image image;
  Objects objects;
  std::set<uint64_t> needed;  // chunks
};

class HistoriesTest : public ::testing::Test {
 protected:
  using Change = std::function<void(Store&)>;

  void put(Store& store, ObjectId id, size_t length, uint64_t seed) {
    if (!store.stat(id)) {
      ASSERT_TRUE(store.create_object(id, "object " + text_of(id)));
    }
    ASSERT_TRUE(store.write(id, 0, history_bytes(length, seed)));
  }

  void load(const Image& image) {
    std::ranges::copy(image, medium_.bytes().begin());
    medium_.existing = kHistoryBlocks;
  }

  // The store that both come from.
  Image make_ancestor() {
    auto made = Store::create(medium_.open(), history_options(random_, false));
    EXPECT_TRUE(made);
    for (uint64_t i = 1; i <= 6; ++i) put(**made, {1, i}, 3 * kDataBytes - i, i);
    EXPECT_TRUE((*made)->close());
    return {medium_.bytes().begin(), medium_.bytes().end()};
  }

  // Each change in an opening of its own.
  History live(const Image& ancestor, const std::vector<Change>& changes) {
    load(ancestor);
    for (const Change& change : changes) {
      auto store = Store::open(medium_.open(), history_options(random_, false));
      EXPECT_TRUE(store) << store.error().what;
      change(**store);
      EXPECT_TRUE((*store)->close());
    }
    History history;
    history.image.assign(medium_.bytes().begin(), medium_.bytes().end());
    auto store = Store::open(medium_.open(), history_options(random_, true));
    EXPECT_TRUE(store) << store.error().what;
    const auto listed = (*store)->list(std::nullopt, 100);
    EXPECT_TRUE(listed);
    for (const ObjectInfo& object : *listed) {
      auto& bytes = history.objects[object.id];
      bytes.resize(object.size);
      EXPECT_TRUE((*store)->read(object.id, 0, bytes));
      const auto segments = (*store)->segments(object.id, 0, 1000);
      EXPECT_TRUE(segments);
      for (const SegmentInfo& segment : *segments) {
        for (uint32_t i = 0; i < segment.count; ++i) history.needed.insert(segment.chunk + i);
      }
    }
    const auto root = read_root(medium_.chunk(0), 0);
    EXPECT_TRUE(root && root->closed());
    history.needed.insert({0, kHistoryPerBlock});
    for (const auto* extents : {&root->checkpoint, &root->log}) {
      const ChunkMemory memory = [&](uint64_t chunk) { return medium_.chunk(chunk).data(); };
      const uint16_t flag = extents == &root->log ? kFlagLog : kFlagCheckpoint;
      for (const LogChunk& chunk : read_extents(*root, *extents, flag, memory)) {
        if (flag == kFlagLog && chunk.sequence >= root->end) continue;
        history.needed.insert({chunk.chunk_a, chunk.chunk_b});
      }
    }
    return history;
  }

  static std::span<const uint8_t> chunk_of(const Image& image, uint64_t chunk) {
    return std::span(image).subspan(chunk * kChunkBytes, kChunkBytes);
  }
  static bool differs(const Image& one, const Image& other, uint64_t chunk) {
    return !std::ranges::equal(chunk_of(one, chunk), chunk_of(other, chunk));
  }
  static void take_over(Image& to, const Image& from, uint64_t chunk) {
    std::ranges::copy(chunk_of(from, chunk),
                      to.begin() + static_cast<ptrdiff_t>(chunk * kChunkBytes));
  }

  // Whether what can be read is this history's, and all else an error that names it.
  static std::string read_as(Store& store, const History& history) {
    const auto listed = store.list(std::nullopt, 100);
    if (!listed) return "";  // damage, and said
    if (listed->size() != history.objects.size()) return "other objects";
    for (const auto& [id, expected] : history.objects) {
      std::vector<uint8_t> bytes(expected.size() + 1);
      const auto got = store.read(id, 0, bytes);
      if (!got) {
        if (got.error().code != Code::kDamaged || got.error().damage.field.empty() ||
            got.error().damage.object != id) {
          return "an error that does not name it: " + got.error().what;
        }
        continue;
      }
      bytes.resize(*got);
      if (bytes != expected) return "other bytes in " + text_of(id);
    }
    return {};
  }

  static bool is_whole(const Image& image, const History& history) {
    return std::ranges::none_of(
        history.needed, [&](uint64_t chunk) { return differs(image, history.image, chunk); });
  }

  // Whether the store in this image is `history`, less what was exchanged.
  std::string look_as(const Image& image, const History& history, bool read_only) {
    load(image);
    auto store = Store::open(medium_.open(), history_options(random_, read_only));
    if (!store) return store.error().code == Code::kDamaged ? "" : store.error().what;
    std::string what = read_as(**store, history);
    if (!what.empty() || !read_only) {
      if (!what.empty()) return what;
      return (*store)->close() ? "" : "cannot be closed";
    }
    const auto scrubbed = (*store)->scrub();
    const bool content = scrubbed && scrubbed->damaged == 0 && scrubbed->incomplete.empty();
    if (content != is_whole(image, history)) return content ? "scrub is content" : "scrub is not";
    return {};
  }

  void expect_one_of(const Image& image, const std::vector<const History*>& histories,
                     bool written_to = true) {
    for (const bool read_only : {true, false}) {
      if (!read_only && !written_to) continue;
      std::string all;
      bool fine = false;
      for (const History* history : histories) {
        const std::string what = look_as(image, *history, read_only);
        fine = fine || what.empty();
        all += what + "; ";
      }
      EXPECT_TRUE(fine) << (read_only ? "reading: " : "writing: ") << all;
    }
  }

  bool opens(const Image& image) {
    load(image);
    return Store::open(medium_.open(), history_options(random_, true)).has_value();
  }

  // Everything that can be exchanged.
  void exchange(const History& a, const History& b) {
    expect_one_of(a.image, {&a});
    expect_one_of(b.image, {&b});
    for (uint64_t chunk = 0; chunk < kAllChunks; ++chunk) {
      if (!differs(a.image, b.image, chunk)) continue;
      SCOPED_TRACE("chunk " + std::to_string(chunk));
      Image image = a.image;
      take_over(image, b.image, chunk);
      expect_one_of(image, {&a}, chunk % 3 == 0);
      ++exchanged_;
      if (opens(image)) ++opened_;
    }
    // Both copies of log, checkpoint and superblocks: they are at the same places of two blocks.
    for (uint64_t chunk = 0; chunk < kHistoryPerBlock; ++chunk) {
      SCOPED_TRACE("both copies of " + std::to_string(chunk));
      Image image = a.image;
      take_over(image, b.image, chunk);
      take_over(image, b.image, chunk + kHistoryPerBlock);
      expect_one_of(image, {&a, &b});
    }
    const auto exchange_blocks = [&](const std::function<bool(uint64_t)>& which) {
      Image image = a.image;
      for (uint64_t chunk = 0; chunk < kAllChunks; ++chunk) {
        if (which(chunk / kHistoryPerBlock)) take_over(image, b.image, chunk);
      }
      expect_one_of(image, {&a, &b});
    };
    for (uint64_t block = 0; block < kHistoryBlocks; ++block) {
      SCOPED_TRACE("block " + std::to_string(block));
      exchange_blocks([&](uint64_t one) { return one == block; });
    }
    for (const uint64_t part : {0, 1}) {
      SCOPED_TRACE(part == 0 ? "a first file, a first directory" : "a second one");
      exchange_blocks([&](uint64_t one) { return one / 8 == part; });
      exchange_blocks([&](uint64_t one) { return one % 2 == part; });
    }
  }

  SeededRandom random_{11};
  MemoryMedium medium_{kHistoryPerBlock, kHistoryBlocks};
  uint64_t exchanged_ = 0;
  uint64_t opened_ = 0;
};

// Long, and of one thread: named so that they are left out under ThreadSanitizer.
using HistoriesProperty = HistoriesTest;

TEST_F(HistoriesProperty, OnePutEach) {
  const Image ancestor = make_ancestor();
  const auto change = [&](uint64_t seed) {
    return [this, seed](Store& store) {
      put(store, {2, 1}, 5000, seed);
      put(store, {1, 2}, 3 * kDataBytes - 2, seed + 1);
    };
  };
  const History a = live(ancestor, {change(100)});
  const History b = live(ancestor, {change(200)});
  ASSERT_EQ(a.needed, b.needed) << "everything is at the same place";
  exchange(a, b);
  exchange(b, a);
  EXPECT_EQ(opened_, exchanged_) << "one chunk is no reason not to open it";
}

TEST_F(HistoriesProperty, DifferentChanges) {
  const Image ancestor = make_ancestor();
  const Change put_two = [&](Store& store) { put(store, {2, 1}, 9000, 5); };
  const Change overwrite = [&](Store& store) { put(store, {1, 1}, 3 * kDataBytes - 1, 6); };
  const Change remove = [&](Store& store) { ASSERT_TRUE(store.remove({1, 3})); };
  const Change compact = [&](Store& store) { ASSERT_TRUE(store.checkpoint()); };
  const Change nothing = [](Store&) {};
  const std::vector<std::vector<Change>> lives{
      {},        {put_two},         {overwrite, put_two, remove}, {overwrite, compact, nothing},
      {nothing}, {compact, put_two}};
  std::vector<History> histories;
  for (const auto& each : lives) histories.push_back(live(ancestor, each));
  // Each with the next two; all pairs with VERBENA_ALL_HISTORIES (./dev soak).
  const bool all = std::getenv("VERBENA_ALL_HISTORIES") != nullptr;
  for (size_t a = 0; a < histories.size(); ++a) {
    for (size_t b = 0; b < histories.size(); ++b) {
      const size_t apart = (b + histories.size() - a) % histories.size();
      if (a == b || (!all && apart > 2)) continue;
      SCOPED_TRACE("life " + std::to_string(a) + " with what " + std::to_string(b) + " has");
      exchange(histories[a], histories[b]);
      if (HasFailure()) return;
    }
  }
}

TEST_F(HistoriesTest, MarksOfOpeningsDiffer) {
  const Image ancestor = make_ancestor();
  std::set<uint64_t> marks;
  for (int i = 0; i < 20; ++i) {
    const History history = live(ancestor, {[](Store&) {}});
    const auto root = decode_superblock(medium_.chunk(0));
    ASSERT_TRUE(root);
    EXPECT_EQ(root->epoch(), 2u);
    marks.insert(root->mark);
  }
  EXPECT_EQ(marks.size(), 20u);
}

TEST_F(HistoriesTest, WithoutRandomNumbersNothingIsWritten) {
  load(make_ancestor());
  Options options = history_options(random_, false);
  options.random = [] { return std::nullopt; };
  const auto refused = Store::open(medium_.open(), options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kIo);
  EXPECT_TRUE(refused.error().what.contains("random"));
  EXPECT_FALSE(Store::create(medium_.open(), options));
  options.read_only = true;
  EXPECT_TRUE(Store::open(medium_.open(), options));
}

// Closed in order: whatever is missing at its end was there.
TEST_F(HistoriesTest, ALostEndOfTheLogIsDamage) {
  const History history =
      live(make_ancestor(), {[&](Store& store) { put(store, {2, 1}, 5000, 1); },
                             [&](Store& store) { put(store, {2, 2}, 5000, 2); }});
  load(history.image);
  const auto root = decode_superblock(medium_.chunk(0));
  ASSERT_TRUE(root);
  const ChunkMemory memory = [&](uint64_t chunk) { return medium_.chunk(chunk).data(); };
  const auto log = read_extents(*root, root->log, kFlagLog, memory);
  std::vector<LogChunk> valid;
  std::ranges::copy_if(log, std::back_inserter(valid), [](const LogChunk& c) { return c.a; });
  ASSERT_GT(valid.size(), 2u);
  for (size_t lost = 1; lost <= valid.size(); ++lost) {
    load(history.image);
    for (size_t i = valid.size() - lost; i < valid.size(); ++i) {
      std::ranges::fill(medium_.chunk(valid[i].chunk_a), uint8_t{0});
      std::ranges::fill(medium_.chunk(valid[i].chunk_b), uint8_t{0});
    }
    for (const bool read_only : {true, false}) {
      const auto refused = Store::open(medium_.open(), history_options(random_, read_only));
      ASSERT_FALSE(refused) << lost;
      EXPECT_EQ(refused.error().code, Code::kDamaged);
      EXPECT_EQ(refused.error().damage.field, "log");
    }
  }
}

// Valid copies of a log chunk that do not say the same.
TEST_F(HistoriesTest, CopiesOfTheLogAreCompared) {
  load(make_ancestor());
  const auto root = decode_superblock(medium_.chunk(0));
  ASSERT_TRUE(root && !root->log.empty());
  const uint64_t b = uint64_t{root->log[0].block_b} * kHistoryPerBlock + root->log[0].first;
  const auto reseal = [&] {
    const auto chunk = medium_.chunk(b);
    chunk[20] ^= 1;  // the id of an object
    seal(chunk.data(), head_of(chunk.data()), crc_of(chunk.first<kDataBytes>()));
  };
  {
    auto store = Store::open(medium_.open(), history_options(random_, true));
    ASSERT_TRUE(store);
    reseal();
    const auto report = (*store)->scrub();
    ASSERT_TRUE(report);
    ASSERT_EQ(report->damaged, 1u);
    EXPECT_EQ(report->damage[0].chunk, b);
    EXPECT_EQ(report->damage[0].field, "log");
  }
  const auto refused = Store::open(medium_.open(), history_options(random_, true));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().damage.chunk, b);
  reseal();
  EXPECT_TRUE(Store::open(medium_.open(), history_options(random_, true)));
}

// The end of a log that was not closed is not known; but what another history has written there is
// not a crash.
TEST_F(HistoriesTest, ALogOfAnotherHistoryIsNotTheEnd) {
  const Image ancestor = make_ancestor();
  const auto crash_after_put = [&](uint64_t seed) {
    load(ancestor);
    auto store = Store::open(medium_.open(), history_options(random_, false));
    EXPECT_TRUE(store);
    put(**store, {2, 1}, 5000, seed);
    EXPECT_TRUE((*store)->flush());
    return Image(medium_.bytes().begin(), medium_.bytes().end());
  };
  const Image a = crash_after_put(1);
  const Image b = crash_after_put(2);
  EXPECT_TRUE(opens(a));
  const auto exchanged = [&](std::initializer_list<uint64_t> chunks) {
    Image image = a;
    for (const uint64_t chunk : chunks) take_over(image, b, chunk);
    return image;
  };
  const auto root = decode_superblock(std::span(a).first<kChunkBytes>());
  ASSERT_TRUE(root && !root->log.empty());
  const Extent& last = root->log.back();
  const uint64_t tail_a = uint64_t{last.block_a} * kHistoryPerBlock + last.first;
  const uint64_t tail_b = uint64_t{last.block_b} * kHistoryPerBlock + last.first;
  ASSERT_TRUE(differs(a, b, tail_a));
  EXPECT_TRUE(opens(exchanged({tail_a})) && opens(exchanged({tail_b}))) << "the other copy serves";
  EXPECT_FALSE(opens(exchanged({tail_a, tail_b})));
  EXPECT_FALSE(opens(exchanged({0, kHistoryPerBlock}))) << "both superblocks";
  EXPECT_TRUE(opens(exchanged({0})) && opens(exchanged({kHistoryPerBlock})));
}

// More objects than are listed at once, each damaged in turn.
TEST_F(HistoriesTest, ScrubForgetsNoObject) {
  constexpr uint64_t kObjects = 135;  // two pages of 64, and some
  MemoryMedium medium(kHistoryPerBlock, 20);
  std::map<ObjectId, uint64_t> chunks;
  {
    auto made = Store::create(medium.open(), history_options(random_, false));
    ASSERT_TRUE(made);
    for (uint64_t i = 1; i <= kObjects; ++i) {
      ASSERT_TRUE((*made)->create_object({3, i}));
      ASSERT_TRUE((*made)->write({3, i}, 0, history_bytes(kMaxContentBytes + 1, i)));
      chunks[{3, i}] = (*made)->segments({3, i}, 0, 1)->front().chunk;
    }
    ASSERT_TRUE((*made)->close());
  }
  for (const auto& [id, chunk] : chunks) {
    medium.chunk(chunk)[5] ^= 1;
    auto store = Store::open(medium.open(), history_options(random_, true));
    ASSERT_TRUE(store);
    const auto report = (*store)->scrub();
    ASSERT_TRUE(report);
    ASSERT_EQ(report->damaged, 1u) << text_of(id);
    EXPECT_EQ(report->damage[0].object, id);
    EXPECT_EQ(report->chunks, kObjects);
    medium.chunk(chunk)[5] ^= 1;
  }
}

}  // namespace
}  // namespace verbena::store
