// SPDX-License-Identifier: Apache-2.0
#include "copies.h"

#include <cstdio>
#include <cstring>
#include <vector>

#include <isa-l/crc.h>

#include "base/block_sums.h"
#include "common/ends.h"

namespace verbena::bench {
namespace {

template <typename Move>
[[nodiscard]] double rate(uint32_t bytes, uint64_t total, Move&& move) {
  const std::vector<uint8_t> from(bytes, 0x5a);
  std::vector<uint8_t> to(bytes);
  const uint64_t times = total / bytes + 1;
  uint32_t sum = move(to, from);
  const double begin = now_s();
  for (uint64_t i = 0; i < times; ++i) sum ^= move(to, from);
  const double took = now_s() - begin;
  // So that nothing is left out as unused.
  if (sum == 0x12345678) std::fputc(' ', stderr);
  return static_cast<double>(times) * bytes / took;
}

}  // namespace

double copy_with_crc(uint32_t bytes, uint64_t total) {
  return rate(bytes, total, [](std::vector<uint8_t>& to, const std::vector<uint8_t>& from) {
    return ~crc32_msb_copy(0xffffffff, to.data(), from);
  });
}

double copy_then_isal(uint32_t bytes, uint64_t total) {
  return rate(bytes, total, [](std::vector<uint8_t>& to, const std::vector<uint8_t>& from) {
    std::memcpy(to.data(), from.data(), from.size());
    return crc32_ieee(0, from.data(), from.size());
  });
}

}  // namespace verbena::bench
