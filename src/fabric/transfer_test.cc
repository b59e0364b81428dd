// SPDX-License-Identifier: Apache-2.0
#include "fabric/transfer.h"

#include <array>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace verbena::fabric {
namespace {

TEST(Transfer, KnowsWhatDoesNotFit) {
  std::array<uint8_t, 64> memory{};
  const std::array<Local, 1> ours{{{memory.data(), 16, 32, 2}}};
  const auto valid = [](const std::vector<Local>& mine, const std::vector<Remote>& theirs) {
    return Transfer(true, 1, mine, theirs).is_valid();
  };
  EXPECT_TRUE(valid({ours[0]}, {{0, 1, 32}}));
  EXPECT_TRUE(valid({ours[0]}, {{0, 1, 31}, {100, 1, 1}}));
  EXPECT_FALSE(valid({ours[0]}, {{0, 1, 31}}));
  EXPECT_FALSE(valid({ours[0]}, {{0, 1, 32}, {0, 1, 0}}));
  EXPECT_FALSE(valid({}, {}));
  EXPECT_FALSE(valid({{memory.data(), 0, 0, 1}}, {}));
  EXPECT_FALSE(valid({ours[0], {memory.data(), 16, 16, 0}}, {{0, 1, 32}}));
}

// Every byte goes once, from and to its place, however it is cut.
TEST(Transfer, CutsInOrder) {
  SeededRandom random(3);
  for (int round = 0; round < 500; ++round) {
    std::vector<uint8_t> memory(100'000);
    std::vector<Local> ours;
    std::vector<const uint8_t*> expected;
    for (uint64_t i = 0, at = 0; i <= random.below(4); ++i) {
      const auto bytes = static_cast<uint32_t>(1 + random.below(50));
      const auto stride = bytes + static_cast<uint32_t>(random.below(10));
      const auto count = static_cast<uint32_t>(1 + random.below(20));
      ours.push_back({memory.data() + at, bytes, stride, count});
      for (uint32_t part = 0; part < count; ++part) {
        for (uint32_t byte = 0; byte < bytes; ++byte) {
          expected.push_back(memory.data() + at + size_t{part} * stride + byte);
        }
      }
      at += size_t{stride} * count + random.below(100);
    }
    std::vector<Remote> theirs;
    std::vector<uint64_t> places;
    for (uint64_t left = expected.size(); left > 0;) {
      const uint64_t length = 1 + random.below(left);
      const uint64_t address = random.next() / 2;
      theirs.push_back({address, 9, static_cast<uint32_t>(length)});
      for (uint64_t i = 0; i < length; ++i) places.push_back(address + i);
      left -= length;
    }
    Transfer transfer(random.below(2) == 0, 5, ours, theirs);
    ASSERT_TRUE(transfer.is_valid());
    transfer.set_keys(1, [](const Local&) { return 7u; });
    std::vector<ibv_sge> parts(1 + random.below(8));
    size_t at = 0;
    while (!transfer.done()) {
      const auto step = transfer.next(parts);
      ASSERT_GT(step.parts, 0u);
      uint64_t address = step.address;
      for (uint32_t i = 0; i < step.parts; ++i) {
        for (uint32_t byte = 0; byte < parts[i].length; ++byte, ++at, ++address) {
          ASSERT_EQ(parts[i].addr + byte, reinterpret_cast<uint64_t>(expected[at]));
          ASSERT_EQ(address, places[at]);
        }
        EXPECT_EQ(parts[i].lkey, 7u);
      }
    }
    ASSERT_EQ(at, expected.size());
  }
}

}  // namespace
}  // namespace verbena::fabric
