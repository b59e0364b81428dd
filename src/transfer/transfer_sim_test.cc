// SPDX-License-Identifier: Apache-2.0
// Both machines in one simulated world, by seeds.
#include <gtest/gtest.h>

#include "simulated_transfer.h"

namespace verbena::transfer {
namespace {

constexpr uint32_t kChunk = 4096;

Bytes random_bytes(SeededRandom& random, size_t size) {
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<uint8_t>(random.below(256));
  return bytes;
}

// Sizes around all edges, with holes.
std::map<std::string, Bytes> some_files(SeededRandom& random) {
  std::map<std::string, Bytes> files;
  const uint64_t count = 1 + random.below(20);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t edges[] = {0, 1, 999, 1000, 1001, kChunk - 1, kChunk, kChunk + 1, 5 * kChunk};
    const size_t size =
        random.below(3) == 0 ? random.below(40 * kChunk) : edges[random.below(std::size(edges))];
    Bytes content = random_bytes(random, size);
    if (random.below(3) == 0 && size > 3 * kChunk) {
      std::fill(content.begin() + kChunk, content.begin() + 3 * kChunk, 0);
    }
    files["folder/file " + std::to_string(i)] = std::move(content);
  }
  return files;
}

SendOptions some_options(SeededRandom& random) {
  return {.window = static_cast<uint16_t>(1 + random.below(8)),
          .small_bytes = 1000,
          .batch_files = static_cast<uint32_t>(1 + random.below(5)),
          .max_open = static_cast<uint32_t>(1 + random.below(3)),
          .resume = random.below(4) != 0};
}
constexpr ReceiveLimits kLimits{.chunk_bytes = kChunk, .slots = 4};

TEST(TransferSim, EverythingArrives) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    SimulatedFolder folder;
    const auto files = some_files(random);
    SimulatedTransfer world(seed, folder, some_options(random), kLimits);
    for (const auto& [path, content] : files) world.add(path, content);
    world.no_more();
    world.run();
    EXPECT_EQ(world.failed, "");
    EXPECT_EQ(world.cut_off, "");
    EXPECT_TRUE(world.all_sent);
    EXPECT_EQ(folder.files, files);
    EXPECT_TRUE(folder.incomplete.empty());
    EXPECT_EQ(world.receiving().stored(), files.size());
    for (const auto& [path, verdict] : world.verdicts) {
      EXPECT_EQ(verdict.first, Verdict::kStored) << path << verdict.second;
    }
  }
}

// Broken at any step: nothing wrong under a final name, and the next attempts complete it.
TEST(TransferSim, ABrokenTransferIsResumed) {
  uint64_t skipped = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    SimulatedFolder folder;
    const auto files = some_files(random);
    SendOptions options = some_options(random);
    options.resume = true;
    for (int attempt = 0; attempt < 40; ++attempt) {
      SimulatedTransfer world(seed * 100 + static_cast<uint64_t>(attempt), folder, options,
                              kLimits);
      for (const auto& [path, content] : files) {
        if (!folder.files.contains(path)) world.add(path, content);
      }
      world.no_more();
      const uint64_t steps = attempt < 30 ? random.below(100) : 1'000'000;
      for (uint64_t i = 0; i < steps && world.step(); ++i) {}
      world.lose();
      EXPECT_EQ(world.failed, "");
      skipped += world.sending().skipped_bytes();
      for (const auto& [path, content] : folder.files) EXPECT_EQ(content, files.at(path)) << path;
      if (folder.files.size() == files.size()) break;
    }
    EXPECT_EQ(folder.files, files);
  }
  EXPECT_GT(skipped, 0u);
}

// A flipped bit is noticed wherever it is; files it did not hit arrive, or the connection ends.
TEST(TransferSim, SpoiltFramesStoreNothingWrong) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    SimulatedFolder folder;
    const auto files = some_files(random);
    SimulatedTransfer world(seed, folder, some_options(random), kLimits);
    world.spoil = [&](Bytes& frame) {
      if (random.below(10) == 0)
        frame[random.below(200)] ^= static_cast<uint8_t>(1u << random.below(8));
    };
    for (const auto& [path, content] : files) world.add(path, content);
    world.no_more();
    world.run();
    for (const auto& [path, content] : folder.files) {
      ASSERT_TRUE(files.contains(path)) << path;
      EXPECT_EQ(content, files.at(path)) << path;
    }
    EXPECT_TRUE(world.all_sent || !world.failed.empty());
  }
}

}  // namespace
}  // namespace verbena::transfer
