// SPDX-License-Identifier: Apache-2.0
#include "traces.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace verbena::bench {

std::vector<uint32_t> zipf(uint32_t segments, double skew, size_t count, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<double> sums(segments);
  double sum = 0;
  for (uint32_t i = 0; i < segments; ++i) sums[i] = sum += 1 / std::pow(i + 1, skew);
  std::vector<uint32_t> order(segments);
  std::iota(order.begin(), order.end(), 0);
  for (uint32_t i = segments - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  std::vector<uint32_t> uses(count);
  for (uint32_t& use : uses) {
    const double at = static_cast<double>(random.next() >> 11) * 0x1p-53 * sum;
    const auto found = std::ranges::lower_bound(sums, at);
    use = order[std::min<size_t>(static_cast<size_t>(found - sums.begin()), segments - 1)];
  }
  return uses;
}

std::vector<Trace> all_traces(uint32_t segments, size_t count) {
  std::vector<Trace> all;
  all.push_back({"Zipf 0.99", zipf(segments, 0.99, count, 1)});
  all.push_back({"Zipf 0.7", zipf(segments, 0.7, count, 2)});
  // A backup passes over everything now and then.
  Trace scans{"Zipf 0.99, a fifth of it scans", zipf(segments, 0.99, count, 3)};
  for (size_t i = 0, next = 0; i < count; ++i) {
    if (i % (5 * segments) < segments) scans.uses[i] = static_cast<uint32_t>(next++ % segments);
  }
  all.push_back(std::move(scans));
  // What is hot changes.
  Trace moving{"Zipf 0.99 that moves", {}};
  for (uint64_t phase = 0; phase < 10; ++phase) {
    const auto part = zipf(segments, 0.99, count / 10, 10 + phase);
    moving.uses.insert(moving.uses.end(), part.begin(), part.end());
  }
  all.push_back(std::move(moving));
  Trace loop{"in order, again and again", {}};
  for (size_t i = 0; i < count; ++i) loop.uses.push_back(static_cast<uint32_t>(i % segments));
  all.push_back(std::move(loop));
  return all;
}

}  // namespace verbena::bench
