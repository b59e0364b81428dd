// SPDX-License-Identifier: Apache-2.0
// What it costs to put CRCs together, one waiting for the other.
#include <benchmark/benchmark.h>

#include "store/crc_parts.h"

namespace verbena::store {
namespace {

void join(benchmark::State& state) {
  const auto length = static_cast<uint64_t>(state.range(0));
  uint32_t crc = 1;
  for (auto _ : state) benchmark::DoNotOptimize(crc = crc_join(crc, 0x12345678, length));
}
BENCHMARK(join)->Arg(44)->Arg(4048)->Arg(1 << 20);

void without_tail(benchmark::State& state) {
  const auto length = static_cast<uint64_t>(state.range(0));
  uint32_t crc = 1;
  for (auto _ : state) benchmark::DoNotOptimize(crc = crc_without_tail(crc, 0x12345678, length));
}
BENCHMARK(without_tail)->Arg(44)->Arg(4048)->Arg(1 << 20);

void patch(benchmark::State& state) {
  uint32_t crc = 1;
  for (auto _ : state) benchmark::DoNotOptimize(crc = crc_patch(crc, 0x12345678, 0x9abc, 1000));
}
BENCHMARK(patch);

}  // namespace
}  // namespace verbena::store
