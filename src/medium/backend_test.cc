// SPDX-License-Identifier: Apache-2.0
// What holds for every backend.
#include "medium/backend.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "medium/balance_backend.h"
#include "medium/block_files.h"
#include "medium/cache_backend.h"
#include "medium/discard_backend.h"
#include "medium/malloc_backend.h"
#include "medium/nvdimm_backend.h"
#include "medium/staged_backend.h"
#include "medium/testing.h"

namespace verbena::medium {
namespace {

constexpr size_t kBlock = size_t{128} << 10;
constexpr uint32_t kCapacity = 20;

struct Kind {
  std::string name;
  std::function<Result<std::unique_ptr<Backend>>(const std::string& folder)> open;
  bool persistent = true;
  bool keeps = true;  // what is written stays while the block is held
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

FileOptions files_in(const std::string& folder) {
  return {.folder = folder, .block_bytes = kBlock, .capacity = kCapacity};
}

using Opened = Result<std::unique_ptr<Backend>>;

Opened open_malloc(uint32_t capacity) {
  return make_malloc_backend(
      {.block_bytes = kBlock, .capacity = capacity, .memory = {.group_bytes = 3 * kBlock}});
}
Opened open_nvdimm(const std::string& folder) {
  return open_nvdimm_backend({.files = files_in(folder)});
}
Opened open_staged(const std::string& folder, bool io_uring) {
  return open_staged_backend(
      {.files = files_in(folder), .memory = {.group_bytes = 3 * kBlock}, .io_uring = io_uring});
}
Opened cache_over(Opened below) {
  if (!below) return below;
  return make_cache_backend(*std::move(below), 3);
}
// Three files' worth of media in one folder, of different sizes: 20 blocks in all.
template <typename Open>
Opened balance_of(const Open& open) {
  return make_balance_over_nodes({-1, -1, -1}, [&](const NodeMedium& which) {
    constexpr std::array<uint32_t, 3> kSizes = {9, 4, 7};
    return open(which, kSizes.at(which.medium));
  });
}

std::vector<Kind> kinds() {
  return {
      {"malloc", [](const std::string& /*folder*/) { return open_malloc(kCapacity); }, false},
      {"discard",
       [](const std::string& /*folder*/) -> Opened {
         return std::make_unique<DiscardBackend>(kBlock, kCapacity);
       },
       false, false},
      {"nvdimm", open_nvdimm},
      // As on persistent memory: libpmem2 looks at the environment when a file is mapped.
      {"nvdimm_cache_lines", open_nvdimm},
      {"staged", [](const std::string& folder) { return open_staged(folder, true); }},
      {"staged_plain", [](const std::string& folder) { return open_staged(folder, false); }},
      {"cache_malloc",
       [](const std::string& /*folder*/) { return cache_over(open_malloc(kCapacity)); }, false},
      {"cache_nvdimm", [](const std::string& folder) { return cache_over(open_nvdimm(folder)); }},
      {"cache_staged",
       [](const std::string& folder) { return cache_over(open_staged(folder, true)); }},
      {"balance_malloc",
       [](const std::string& /*folder*/) {
         return balance_of(
             [](const NodeMedium& /*which*/, uint32_t size) { return open_malloc(size); });
       },
       false},
      {"balance_nvdimm",
       [](const std::string& folder) {
         return balance_of([&](const NodeMedium& which, uint32_t size) {
           return open_nvdimm_backend({.files = {.folder = folder,
                                                 .block_bytes = kBlock,
                                                 .capacity = size,
                                                 .medium = which.medium,
                                                 .media = which.media}});
         });
       }},
      {"balance_cache_staged",
       [](const std::string& folder) {
         return balance_of([&](const NodeMedium& which, uint32_t size) {
           return cache_over(open_staged_backend({.files = {.folder = folder,
                                                            .block_bytes = kBlock,
                                                            .capacity = size,
                                                            .medium = which.medium,
                                                            .media = which.media}}));
         });
       }},
  };
}

class EveryBackend : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam().name.ends_with("cache_lines")) {
      ::setenv("PMEM2_FORCE_GRANULARITY", "CACHE_LINE", 1);
    }
    open();
  }
  void TearDown() override { ::unsetenv("PMEM2_FORCE_GRANULARITY"); }
  void open() {
    backend_.reset();
    auto backend = GetParam().open(folder_.path());
    ASSERT_TRUE(backend) << backend.error().what;
    backend_ = *std::move(backend);
  }
  Block allocate() {
    auto block = backend_->allocate();
    EXPECT_TRUE(block) << block.error().what;
    return block ? *block : Block{};
  }
  void persist(const Block& block) {
    backend_->flush(block.memory, kBlock);
    const auto done = backend_->fence();
    EXPECT_TRUE(done) << done.error().what;
  }
  Block claim(uint32_t position) {
    auto block = backend_->claim(position);
    EXPECT_TRUE(block) << block.error().what;
    if (!block) return {};
    EXPECT_EQ(block->position, position);
    const auto loaded = backend_->load(block->memory, kBlock);
    EXPECT_TRUE(loaded) << loaded.error().what;
    return *block;
  }

  TemporaryFolder folder_;
  std::unique_ptr<Backend> backend_;
};

class KeepingBackend : public EveryBackend {};
class PersistentBackend : public EveryBackend {};

TEST_P(EveryBackend, BlocksAreApartAndKeepTheirContent) {
  EXPECT_EQ(backend_->block_bytes(), kBlock);
  EXPECT_EQ(backend_->capacity(), kCapacity);
  EXPECT_EQ(backend_->properties().persistent, GetParam().persistent);
  std::vector<Block> blocks;
  std::set<uint32_t> positions;
  for (uint32_t i = 0; i < kCapacity; ++i) {
    blocks.push_back(allocate());
    ASSERT_NE(blocks.back().memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back().memory) % 4096, 0U);
    EXPECT_TRUE(positions.insert(blocks.back().position).second);
    EXPECT_LT(blocks.back().position, backend_->positions());
    fill_pattern(blocks.back().memory, kBlock, blocks.back().position);
  }
  if (!GetParam().keeps) return;
  for (const Block& block : blocks) {
    EXPECT_TRUE(has_pattern(block.memory, kBlock, block.position));
  }
}

TEST_P(EveryBackend, AFullOneGoesOnAfterARelease) {
  std::vector<Block> blocks;
  for (uint32_t i = 0; i < kCapacity; ++i) blocks.push_back(allocate());
  for (int round = 0; round < 3; ++round) {
    const auto refused = backend_->allocate();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kFull);
    EXPECT_FALSE(refused.error().what.empty());
    const Block gone = blocks[7];
    backend_->release(gone);
    blocks[7] = allocate();
    EXPECT_EQ(blocks[7].position, gone.position);
    fill_pattern(blocks[7].memory, kBlock, 5);
  }
}

TEST_P(EveryBackend, ClaimedAreTheOnesAskedFor) {
  const Block first = claim(1);
  const Block second = claim(0);
  EXPECT_EQ(backend_->claim(1).error().code, Code::kBad);  // held
  EXPECT_EQ(backend_->claim(backend_->positions()).error().code, Code::kBad);
  const Block other = allocate();
  EXPECT_NE(other.position, 0U);
  EXPECT_NE(other.position, 1U);
  backend_->release(first);
  const Block again = claim(1);
  fill_pattern(again.memory, kBlock, 9);
  fill_pattern(second.memory, kBlock, 10);
  persist(again);
  persist(second);
  if (!GetParam().keeps) return;
  EXPECT_TRUE(has_pattern(again.memory, kBlock, 9));
}

TEST_P(PersistentBackend, FencedContentIsThereWhenOpenedAgain) {
  std::vector<Block> blocks;
  for (uint32_t i = 0; i < kCapacity; ++i) {
    blocks.push_back(allocate());
    fill_pattern(blocks.back().memory, kBlock, blocks.back().position + 1);
    backend_->flush(blocks.back().memory, kBlock);
  }
  ASSERT_TRUE(backend_->fence());
  open();
  EXPECT_GE(backend_->existing(), kCapacity);
  for (const Block& old : blocks) {
    const Block block = claim(old.position);
    EXPECT_TRUE(has_pattern(block.memory, kBlock, block.position + 1)) << block.position;
  }
  EXPECT_EQ(backend_->allocate().error().code, Code::kFull);
}

TEST_P(PersistentBackend, PartsOfAClaimedBlockCanBeOverwritten) {
  const Block block = allocate();
  fill_pattern(block.memory, kBlock, 1);
  persist(block);
  open();
  const Block again = *backend_->claim(block.position);
  const size_t at = kBlock / 2 + 4096;
  ASSERT_TRUE(backend_->load(again.memory + at, 4096));
  fill_pattern(again.memory + at, 4096, 2);
  ASSERT_TRUE(backend_->load(again.memory, kBlock));
  EXPECT_TRUE(has_pattern(again.memory, at, 1));
  EXPECT_TRUE(has_pattern(again.memory + at, 4096, 2));
  backend_->flush(again.memory + at, 4096);
  ASSERT_TRUE(backend_->fence());
  open();
  const Block last = claim(block.position);
  EXPECT_TRUE(has_pattern(last.memory, at, 1));
  EXPECT_TRUE(has_pattern(last.memory + at, 4096, 2));
  EXPECT_EQ(last.memory[kBlock - 1], pattern_at(1, kBlock - 1));
}

TEST_P(KeepingBackend, TheMediumShowsWhatWasFenced) {
  const Block block = allocate();
  fill_pattern(block.memory, kBlock, 4);
  persist(block);
  std::vector<uint8_t> out(kBlock + 1);
  ASSERT_TRUE(backend_->read_medium(block.position, 0, std::span(out).first(kBlock)));
  EXPECT_TRUE(has_pattern(out.data(), kBlock, 4));
  // Into memory that is not aligned, from the middle.
  ASSERT_TRUE(backend_->read_medium(block.position, 8192, std::span(out).subspan(1, 4096)));
  for (size_t i = 0; i < 4096; ++i) ASSERT_EQ(out[1 + i], pattern_at(4, 8192 + i));
}

TEST_P(KeepingBackend, ThreadsAllocateFlushAndRelease) {
  constexpr uint32_t kThreads = 4;
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([this, thread] {
      for (uint32_t round = 0; round < 12; ++round) {
        const uint32_t seed = thread * 100 + round;
        std::vector<Block> mine;
        for (uint32_t i = 0; i < kCapacity / kThreads; ++i) {
          auto block = backend_->allocate();
          ASSERT_TRUE(block) << block.error().what;
          fill_pattern(block->memory, kBlock, seed + i);
          for (size_t at = 0; at < kBlock; at += kBlock / 4) {
            backend_->flush(block->memory + at, kBlock / 4);
          }
          mine.push_back(*block);
        }
        const auto fenced = backend_->fence();
        ASSERT_TRUE(fenced) << fenced.error().what;
        std::vector<uint8_t> out(kBlock);
        for (uint32_t i = 0; i < mine.size(); ++i) {
          ASSERT_TRUE(has_pattern(mine[i].memory, kBlock, seed + i));
          ASSERT_TRUE(backend_->read_medium(mine[i].position, 0, out));
          ASSERT_TRUE(has_pattern(out.data(), kBlock, seed + i));
          backend_->release(mine[i]);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Files go, and come again, beside all of that.
TEST_P(KeepingBackend, FilesAreRemovedMeanwhile) {
  std::atomic<bool> stop = false;
  std::thread trimming([&] {
    while (!stop) EXPECT_TRUE(backend_->trim());
  });
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < 2; ++thread) {
    threads.emplace_back([this, thread] {
      for (uint32_t round = 0; round < 5; ++round) {
        std::vector<Block> mine;
        for (uint32_t i = 0; i < kCapacity / 2; ++i) {
          auto block = backend_->allocate();
          ASSERT_TRUE(block) << block.error().what;
          fill_pattern(block->memory, 4096, thread + round + i);
          backend_->flush(block->memory, 4096);
          mine.push_back(*block);
        }
        ASSERT_TRUE(backend_->fence());
        for (uint32_t i = 0; i < mine.size(); ++i) {
          ASSERT_TRUE(has_pattern(mine[i].memory, 4096, thread + round + i));
          backend_->release(mine[i]);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  trimming.join();
}

std::vector<Kind> kinds_that(bool (*fits)(const Kind&)) {
  std::vector<Kind> fitting = kinds();
  std::erase_if(fitting, [&](const Kind& kind) { return !fits(kind); });
  return fitting;
}
std::string name_of(const testing::TestParamInfo<Kind>& kind) { return kind.param.name; }

INSTANTIATE_TEST_SUITE_P(All, EveryBackend, testing::ValuesIn(kinds()), name_of);
INSTANTIATE_TEST_SUITE_P(All, KeepingBackend,
                         testing::ValuesIn(kinds_that([](const Kind& kind) { return kind.keeps; })),
                         name_of);
INSTANTIATE_TEST_SUITE_P(All, PersistentBackend, testing::ValuesIn(kinds_that([](const Kind& kind) {
                           return kind.persistent;
                         })),
                         name_of);

}  // namespace
}  // namespace verbena::medium
