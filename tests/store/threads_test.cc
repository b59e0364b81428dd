// SPDX-License-Identifier: Apache-2.0
// Many threads on one store: each request is atomic to all others on its object, and none is lost.
#include <atomic>
#include <barrier>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "medium/faulty_backend.h"
#include "operation.h"
#include "places.h"
#include "store/memory_medium.h"
#include "store/store.h"

namespace verbena::store::trial {
namespace {

constexpr ObjectId kObject{.high = 1, .low = 1};
constexpr size_t kBlock = 4096;
constexpr int kWriters = 8;
#if defined(__SANITIZE_THREAD__)
constexpr int kRounds = 60;
constexpr int kSteps = 150;
#elif defined(__SANITIZE_ADDRESS__)
constexpr int kRounds = 150;
constexpr int kSteps = 300;
#else
constexpr int kRounds = 1500;
constexpr int kSteps = 3000;
#endif

class StoreThreadsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string kind = GetParam();
    const bool tended = kind.ends_with("_tended");
    if (tended) kind.resize(kind.size() - std::strlen("_tended"));
    place_ = make_place(kind, {.chunks_per_block = 64, .blocks = 64});
    ASSERT_NE(place_, nullptr);
    auto backend = place_->backend();
    ASSERT_TRUE(backend.has_value()) << backend.error().what;
    Options options;
    options.flush_bytes = 1 << 20;
    if (tended) {
      options.on_due = [this] {
        due_ = true;
        due_.notify_one();
      };
    }
    SeededRandom random(1);
    auto created = Store::create(std::move(*backend), options, random);
    ASSERT_TRUE(created.has_value()) << created.error().what;
    store_ = std::move(*created);
    if (tended) tending_ = std::thread([this] { tend(); });
  }
  void tend() {
    while (!stop_) {
      due_.wait(false);
      due_ = false;
      if (stop_) break;
      EXPECT_TRUE(store_->tend().has_value());
    }
  }
  void TearDown() override {
    if (tending_.joinable()) {
      stop_ = true;
      due_ = true;
      due_.notify_one();
      tending_.join();
    }
    if (store_ == nullptr) return;
    EXPECT_TRUE(store_->close().has_value());
  }

  std::unique_ptr<Place> place_;
  std::unique_ptr<Store> store_;
  // As a server does: flushes, checkpoints and growth are a thread's.
  std::thread tending_;
  std::atomic<bool> due_ = false;
  std::atomic<bool> stop_ = false;
};

// A block says who wrote it and in which round, in each of its words.
void fill(std::span<uint8_t> block, uint32_t writer, uint32_t round) {
  const uint64_t word = uint64_t{writer} << 32 | round;
  for (size_t at = 0; at < block.size(); at += 8) std::memcpy(block.data() + at, &word, 8);
}
// The round; nothing if the words differ.
std::optional<uint32_t> round_of(std::span<const uint8_t> block, uint32_t writer) {
  uint64_t first = 0;
  std::memcpy(&first, block.data(), 8);
  for (size_t at = 0; at < block.size(); at += 8) {
    if (std::memcmp(block.data() + at, &first, 8) != 0) return {};
  }
  if (first != 0 && first >> 32 != writer) return {};
  return static_cast<uint32_t>(first);
}

// The grids of 4096 and 4048 do not meet: each write changes a part of a chunk that its neighbour
// changes, too.
TEST_P(StoreThreadsTest, AdjacentBlocksLoseNoUpdate) {
  ASSERT_TRUE(store_->create_object(kObject).has_value());
  std::vector<uint8_t> zeros(kBlock * kWriters);
  ASSERT_TRUE(store_->write(kObject, 0, zeros).has_value());
  std::atomic<bool> stop = false;  // for the readers; no data hangs on it
  std::atomic<uint64_t> reads = 0;
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&, r] {
      std::vector<uint32_t> last(kWriters);
      std::vector<uint8_t> bytes(kBlock * kWriters);
      while (!stop.load(std::memory_order_relaxed)) {
        if (r == 0) {
          const auto got = store_->read(kObject, 0, bytes);
          ASSERT_TRUE(got.has_value() && *got == bytes.size());
        } else {
          const auto read = store_->prepare_read(kObject, 0, bytes.size());
          ASSERT_TRUE(read.has_value());
          bytes = gather(read->pieces());
          ASSERT_EQ(crc(bytes), read->crc());
        }
        for (uint32_t w = 0; w < kWriters; ++w) {
          const auto round = round_of(std::span(bytes).subspan(w * kBlock, kBlock), w);
          ASSERT_TRUE(round.has_value()) << "block " << w << " is of two writes";
          ASSERT_GE(*round, last[w]) << "block " << w << " went back";
          last[w] = *round;
        }
        ++reads;
      }
    });
  }
  std::vector<std::thread> writers;
  for (uint32_t w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      std::vector<uint8_t> block(kBlock);
      for (uint32_t round = 1; round <= kRounds; ++round) {
        fill(block, w, round);
        if (round % 3 != 0) {
          ASSERT_TRUE(store_->write(kObject, w * kBlock, block).has_value());
        } else {
          auto prepared = store_->prepare_write(kObject, w * kBlock, kBlock);
          ASSERT_TRUE(prepared.has_value());
          scatter(prepared->pieces(), block);
          ASSERT_TRUE(prepared->commit({}).has_value());
        }
        if (round % 16 == 0) {
          std::vector<uint8_t> back(kBlock);
          ASSERT_TRUE(store_->read(kObject, w * kBlock, back).has_value());
          ASSERT_EQ(back, block) << "lost update of writer " << w << " in round " << round;
        }
        if (round % 64 != w) continue;
        ASSERT_TRUE(store_->flush().has_value());
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  stop = true;
  for (std::thread& reader : readers) reader.join();
  std::vector<uint8_t> bytes(kBlock * kWriters);
  ASSERT_TRUE(store_->read(kObject, 0, bytes).has_value());
  for (uint32_t w = 0; w < kWriters; ++w) {
    EXPECT_EQ(round_of(std::span(bytes).subspan(w * kBlock, kBlock), w), kRounds);
  }
  EXPECT_GT(reads, 0u);
}

// Clones, truncates, removes, renames, checkpoints and prepared reads, all at once on few objects:
// whatever is read is of one piece, and in the end no chunk is lost or freed twice.
// Onto what may exist or not, a clone is made whatever others do to it meanwhile.
TEST_P(StoreThreadsTest, ClonesOntoWhatComesAndGoes) {
  constexpr ObjectId kFrom{7, 1};
  constexpr ObjectId kTo{7, 2};
  ASSERT_TRUE(store_->create_object(kFrom) &&
              store_->write(kFrom, 0, std::vector<uint8_t>(20'000, 1)));
  CloneRequest request;
  request.from = kFrom;
  request.to = kTo;
  request.allow_existing = true;
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 1000; ++round) {
        if (i == 0) {
          static_cast<void>(store_->remove(kTo));
        } else if (!store_->clone(request)) {
          ++failed;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
}

// Room in the next table is counted by the name, by who writes and by who renames an object that
// has not changed since the last one.
TEST_P(StoreThreadsTest, NamesChangeBesideWrites) {
  ASSERT_TRUE(store_->create_object(kObject, "name").has_value());
  const std::vector<uint8_t> block(kBlock, 1);
  for (int round = 0; round < 100; ++round) {
    ASSERT_TRUE(store_->checkpoint().has_value());
    std::barrier start(2);
    std::thread writer([&] {
      start.arrive_and_wait();
      EXPECT_TRUE(store_->write(kObject, 0, block).has_value());
    });
    start.arrive_and_wait();
    EXPECT_TRUE(store_->rename(kObject, "name " + std::to_string(round)).has_value());
    writer.join();
  }
}

TEST_P(StoreThreadsTest, EverythingAtOnce) {
  constexpr uint64_t kObjects = 4;
  constexpr uint64_t kBlocks = 6;
  std::vector<std::thread> threads;
  std::atomic<uint64_t> full = 0;
  for (uint32_t t = 0; t < kWriters; ++t) {
    threads.emplace_back([&, t] {
      SeededRandom random(1000 + t);
      const auto some = [&] { return ObjectId{.high = 7, .low = 1 + random.below(kObjects)}; };
      // Others are at it, too: any of these may be refused, but only so.
      const auto fine = [&](const auto& result) {
        if (result.has_value()) return;
        const Code code = result.error().code;
        if (code == Code::kFull) ++full;
        EXPECT_TRUE(code == Code::kNotFound || code == Code::kExists || code == Code::kFull ||
                    code == Code::kInvalid)
            << result.error().what;
      };
      std::vector<uint8_t> block(kBlock);
      std::vector<uint8_t> bytes(kBlock * kBlocks);
      for (int step = 1; step <= kSteps; ++step) {
        const ObjectId id = some();
        switch (random.below(12)) {
          case 0: fine(store_->create_object(id)); break;
          case 1: fine(store_->remove(id)); break;
          case 2: fine(store_->truncate(id, random.below(kBlocks + 1) * kBlock)); break;
          case 3: {
            CloneRequest request;
            request.from = id;
            request.to = some();
            request.allow_existing = true;
            fine(store_->clone(request));
            break;
          }
          case 4: fine(store_->rename(id, "t" + std::to_string(random.below(3)))); break;
          case 5: {
            const auto read = store_->prepare_read(id, 0, bytes.size());
            fine(read);
            if (!read.has_value()) break;
            const std::vector<uint8_t> was = gather(read->pieces());
            ASSERT_EQ(crc(was), read->crc());
            std::this_thread::yield();
            ASSERT_EQ(gather(read->pieces()), was) << "pinned bytes have changed";
            break;
          }
          case 6: {
            auto prepared = store_->prepare_write(id, random.below(kBlocks) * kBlock, kBlock);
            fine(prepared);
            if (!prepared.has_value() || random.below(3) == 0) break;
            fill(block, t, static_cast<uint32_t>(step));
            scatter(prepared->pieces(), block);
            fine(prepared->commit({}));
            break;
          }
          case 7:
            if (random.below(8) == 0) fine(store_->flush());
            if (random.below(64) == 0) fine(store_->checkpoint());
            if (random.below(64) == 0) fine(store_->compact());
            static_cast<void>(store_->list({}, 10));
            static_cast<void>(store_->space());
            break;
          case 8: {
            const auto got = store_->read(id, 0, bytes);
            fine(got);
            if (!got.has_value()) break;
            for (size_t at = 0; at + kBlock <= *got; at += kBlock) {
              const auto part = std::span(bytes).subspan(at, kBlock);
              uint64_t first = 0;
              std::memcpy(&first, part.data(), 8);
              ASSERT_TRUE(round_of(part, static_cast<uint32_t>(first >> 32)).has_value());
            }
            break;
          }
          default:
            fill(block, t, static_cast<uint32_t>(step));
            fine(store_->write(id, random.below(kBlocks) * kBlock, block));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(full, 0u) << "there is room enough: chunks were lost";
  for (uint64_t low = 1; low <= kObjects; ++low) {
    static_cast<void>(store_->remove({.high = 7, .low = low}));
  }
  ASSERT_TRUE(store_->flush().has_value());
  ASSERT_TRUE(store_->flush().has_value());
  EXPECT_TRUE(store_->list({}, 10)->empty());
  const SpaceInfo space = store_->space();
  EXPECT_EQ(space.used, 0u);
  EXPECT_EQ(space.pending, 0u);
  EXPECT_EQ(space.mappings, 0u);
}

// Chunks move while they are read and replaced: nobody loses an update, or sees half of one.
TEST_P(StoreThreadsTest, ChunksMoveBesideReadersAndWriters) {
  constexpr uint64_t kBallast = 30;
  const auto ballast = [](uint64_t i) { return ObjectId{.high = 9, .low = i}; };
  const std::vector<uint8_t> bytes(60 * kDataBytes, 9);
  const auto put_ballast = [&] {
    for (uint64_t i = 0; i < kBallast; ++i) {
      ASSERT_TRUE(store_->create_object(ballast(i)) && store_->write(ballast(i), 0, bytes));
    }
  };
  ASSERT_NO_FATAL_FAILURE(put_ballast());
  ASSERT_TRUE(store_->create_object(kObject) &&
              store_->write(kObject, 0, std::vector<uint8_t>(kBlock * kWriters)));
  std::atomic<bool> stop = false;
  std::vector<std::thread> writers;
  for (uint32_t w = 0; w < kWriters / 2; ++w) {
    writers.emplace_back([&, w] {
      std::vector<uint8_t> block(kBlock);
      for (uint32_t round = 1; !stop.load(std::memory_order_relaxed); ++round) {
        fill(block, w, round);
        ASSERT_TRUE(store_->write(kObject, w * kBlock, block).has_value());
        const auto read = store_->prepare_read(kObject, 0, kBlock * kWriters);
        ASSERT_TRUE(read.has_value());
        const std::vector<uint8_t> all = gather(read->pieces());
        ASSERT_EQ(crc(all), read->crc());
        for (uint32_t other = 0; other < kWriters / 2; ++other) {
          const auto seen = round_of(std::span(all).subspan(other * kBlock, kBlock), other);
          ASSERT_TRUE(seen.has_value());
          ASSERT_TRUE(other != w || *seen == round);
        }
        ASSERT_TRUE(round % 16 != w || store_->flush().has_value());
      }
    });
  }
  for (int round = 0; round < 3 + kSteps / 600; ++round) {
    for (uint64_t i = 0; i < kBallast; ++i) EXPECT_TRUE(store_->remove(ballast(i)));
    const auto report = store_->compact();
    EXPECT_TRUE(report) << report.error().what;
    put_ballast();
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(store_->scrub()->damaged, 0u);
  for (uint64_t i = 0; i < kBallast; ++i) EXPECT_TRUE(store_->remove(ballast(i)));
  EXPECT_TRUE(store_->remove(kObject));
  ASSERT_TRUE(store_->flush() && store_->flush());
  EXPECT_EQ(store_->space().used, 0u);
  EXPECT_EQ(store_->space().pending, 0u);
}

// Whose write a fence has lost is not known, and the next one may succeed: from the first failure
// on nobody's is acknowledged. What was before is there.
TEST(StoreFenceTest, FailsOnceUnderLoad) {
  for (const uint64_t nth : {1, 2, 5, 20, 80}) {
    MemoryMedium medium(64, 64);
    medium::Faults faults;
    SeededRandom random(nth);
    const Options options{.durability = Durability::kEach};
    auto store = Store::create(std::make_unique<medium::FaultyBackend>(medium.open(), faults),
                               options, random);
    ASSERT_TRUE(store.has_value()) << store.error().what;
    const auto object = [](uint32_t writer) { return ObjectId{.high = 2, .low = writer}; };
    for (uint32_t w = 0; w < kWriters; ++w) ASSERT_TRUE((*store)->create_object(object(w)));
    faults.fence.arm(nth);
    std::vector<uint32_t> acknowledged(kWriters);
    std::vector<std::thread> writers;
    for (uint32_t w = 0; w < kWriters; ++w) {
      writers.emplace_back([&, w] {
        std::vector<uint8_t> block(kBlock);
        for (uint32_t round = 1; round <= 1000; ++round) {
          fill(block, w, round);
          if (!(*store)->write(object(w), 0, block)) break;
          acknowledged[w] = round;
        }
      });
    }
    for (std::thread& writer : writers) writer.join();
    EXPECT_FALSE((*store)->flush());
    EXPECT_FALSE((*store)->checkpoint());
    EXPECT_FALSE((*store)->close());
    *store = nullptr;
    store = Store::open(medium.open(), options);
    ASSERT_TRUE(store.has_value()) << store.error().what;
    for (uint32_t w = 0; w < kWriters; ++w) {
      EXPECT_LT(acknowledged[w], 1000u) << "nobody told writer " << w;
      std::vector<uint8_t> block(kBlock);
      const auto got = (*store)->read(object(w), 0, block);
      ASSERT_TRUE(got.has_value()) << got.error().what;
      block.resize(*got);
      const uint32_t round = block.empty() ? 0 : round_of(block, w).value_or(0);
      EXPECT_GE(round, acknowledged[w]);
      EXPECT_LE(round, acknowledged[w] + 1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Places, StoreThreadsTest,
                         ::testing::Values("malloc", "nvdimm", "nvdimm_tended"));

}  // namespace
}  // namespace verbena::store::trial
