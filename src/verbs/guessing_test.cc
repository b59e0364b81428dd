// SPDX-License-Identifier: Apache-2.0
// Who has been given two queue pair numbers or keys of a process, for its own connections, must not
// know those of others by them.
#include <cstdint>
#include <set>
#include <vector>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "verbs/pair_fixture.h"

namespace verbena::verbs {
namespace {

// How many of them an attacker finds who has seen two that follow each other and goes on by the
// step between them, up or down, or by ones.
[[nodiscard]] size_t found_by_steps(const std::vector<uint32_t>& numbers, uint32_t mask) {
  std::set<uint32_t> hidden(numbers.begin() + 2, numbers.end());
  const uint32_t first = numbers[0];
  const uint32_t second = numbers[1];
  size_t found = 0;
  const auto tries = [&](uint32_t guess) {
    const uint32_t number = (second & ~mask) | (guess & mask);
    found += hidden.erase(number);
  };
  for (uint32_t i = 1; i <= numbers.size(); ++i) {
    tries(second + i * (second - first));
    tries(first - i * (second - first));
    tries(second + i);
    tries(second + (i << 8));  // a key's index is above its lowest byte
  }
  return found;
}

class Guessing : public VerbsPair {
 protected:
  static constexpr size_t kNumbers = 60;
};

TEST_F(Guessing, QueuePairNumbers) {
  std::vector<uint32_t> numbers;
  for (size_t i = 0; i < kNumbers; ++i) numbers.push_back(make_qp()->qp_num);
  // By chance 240 guesses find 58 of 65536 numbers 0.2 times.
  EXPECT_LE(found_by_steps(numbers, 0xffff), 5U);
}

TEST_F(Guessing, Keys) {
  std::vector<uint8_t> memory(4096);
  std::vector<uint32_t> keys;
  for (size_t i = 0; i < kNumbers; ++i) keys.push_back(reg(memory.data(), memory.size())->rkey);
  EXPECT_LE(found_by_steps(keys, 0xffffffff), 2U);
}

}  // namespace
}  // namespace verbena::verbs
