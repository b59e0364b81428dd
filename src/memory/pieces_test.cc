// SPDX-License-Identifier: Apache-2.0
#include "memory/pieces.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace verbena::memory {
namespace {

std::vector<uint8_t> flat(const Pieces& pieces) {
  std::vector<uint8_t> all;
  for (const auto& piece : pieces.list()) all.insert(all.end(), piece.begin(), piece.end());
  return all;
}

TEST(PiecesTest, JoinsNeighboursAndSkipsNothing) {
  uint8_t staging[16];
  const uint8_t memory[] = {1, 2, 3, 4, 5, 6};
  Pieces pieces(staging);
  pieces.add({});
  EXPECT_TRUE(pieces.list().empty());
  pieces.add({memory, 2});
  pieces.add({memory + 2, 2});
  pieces.add({memory + 5, 1});
  EXPECT_EQ(pieces.list().size(), 2u);
  EXPECT_EQ(flat(pieces), (std::vector<uint8_t>{1, 2, 3, 4, 6}));
  pieces.clear();
  EXPECT_EQ(pieces.bytes(), 0u);
  EXPECT_TRUE(pieces.list().empty());
}

TEST(PiecesTest, TheNinthPieceAndTheRestAreStaged) {
  uint8_t staging[64];
  uint8_t memory[64];
  for (size_t i = 0; i < sizeof memory; ++i) memory[i] = static_cast<uint8_t>(i);
  Pieces pieces(staging);
  std::vector<uint8_t> want;
  for (size_t i = 0; i < 20; ++i) {
    pieces.add({memory + 3 * i, 2});
    want.insert(want.end(), {memory[3 * i], memory[3 * i + 1]});
    EXPECT_EQ(flat(pieces), want);
    EXPECT_EQ(pieces.bytes(), want.size());
    EXPECT_EQ(pieces.list().size(), std::min(i + 1, Pieces::kMax));
  }
  for (size_t i = 0; i + 1 < Pieces::kMax; ++i) {
    EXPECT_EQ(pieces.list()[i].data(), memory + 3 * i);  // the first seven stayed where they were
  }
}

TEST(PiecesTest, AnyMixOfMemoryAndStagedBytesKeepsItsOrder) {
  SeededRandom random(7);
  std::vector<uint8_t> memory(1024);
  std::vector<uint8_t> staging(4096);
  for (uint8_t& byte : memory) byte = static_cast<uint8_t>(random.next());
  for (int round = 0; round < 2000; ++round) {
    Pieces pieces(staging);
    std::vector<uint8_t> want;
    const uint64_t parts = random.below(30);
    for (uint64_t part = 0; part < parts; ++part) {
      const size_t n = random.below(100);
      const size_t at = random.below(memory.size() - n);
      const std::span<const uint8_t> bytes(memory.data() + at, n);
      if (random.below(2) == 0) {
        pieces.add(bytes);
      } else {
        std::ranges::copy(bytes, pieces.stage(n).begin());
      }
      want.insert(want.end(), bytes.begin(), bytes.end());
    }
    ASSERT_EQ(flat(pieces), want);
    ASSERT_EQ(pieces.bytes(), want.size());
  }
}

TEST(PiecesDeathTest, StagingThatIsTooSmallIsABrokenInvariant) {
  uint8_t staging[4];
  Pieces pieces(staging);
  EXPECT_EQ(pieces.stage(3).size(), 3u);
  EXPECT_DEATH((void)pieces.stage(2), "invariant broken");
}

}  // namespace
}  // namespace verbena::memory
