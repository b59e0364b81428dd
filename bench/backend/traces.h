// SPDX-License-Identifier: Apache-2.0
// Which segments a program uses, one after the other: kinds of traces, from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace verbena::bench {

struct Trace {
  std::string name;
  std::vector<uint32_t> uses;
};

// Numbers below `segments`, of which number k is drawn with a frequency of 1 / (k + 1)^skew; which
// segment has which number is drawn, too.
[[nodiscard]] std::vector<uint32_t> zipf(uint32_t segments, double skew, size_t count,
                                         uint64_t seed);
// Those that the policy is chosen by.
[[nodiscard]] std::vector<Trace> all_traces(uint32_t segments, size_t count);

}  // namespace verbena::bench
