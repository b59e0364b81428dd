// SPDX-License-Identifier: Apache-2.0
// What copying a block and computing its checksum costs in one pass, beside the copy alone and the
// copy followed by ISA-L's CRC of the source.
#include <cstring>
#include <vector>

#include <benchmark/benchmark.h>
#include <isa-l/crc.h>

#include "base/block_sums.h"

namespace verbena {
namespace {

template <typename Work>
void run(benchmark::State& state, Work work) {
  const auto length = static_cast<size_t>(state.range(0));
  const std::vector<uint8_t> from(length, 0x5a);
  std::vector<uint8_t> to(length);
  for (auto _ : state) {
    benchmark::DoNotOptimize(work(to.data(), from));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * length));
}

void copy_alone(benchmark::State& state) {
  run(state,
      [](uint8_t* to, const auto& from) { return std::memcpy(to, from.data(), from.size()); });
}

void copy_then_isal_crc32(benchmark::State& state) {
  run(state, [](uint8_t* to, const auto& from) {
    std::memcpy(to, from.data(), from.size());
    return crc32_ieee(0, from.data(), from.size());
  });
}

template <auto kCopy>
void copy_with(benchmark::State& state) {
  run(state, [](uint8_t* to, const auto& from) { return kCopy({}, to, from); });
}

template <auto kUpdate>
void sum_alone(benchmark::State& state) {
  run(state, [](uint8_t*, const auto& from) { return kUpdate({}, from); });
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(512)->Arg(4096)->Arg(1 << 20);
}
BENCHMARK(copy_alone)->Apply(sizes);
BENCHMARK(copy_then_isal_crc32)->Apply(sizes);
BENCHMARK(copy_with<crc32_msb_copy>)->Apply(sizes);
BENCHMARK(copy_with<crc32c_copy>)->Apply(sizes);
BENCHMARK(copy_with<crc64_copy>)->Apply(sizes);
BENCHMARK(copy_with<crc16_t10_copy>)->Apply(sizes);
BENCHMARK(copy_with<internet_sum_copy>)->Apply(sizes);
BENCHMARK(sum_alone<crc32_msb_update>)->Apply(sizes);
BENCHMARK(sum_alone<crc32c_update>)->Apply(sizes);

}  // namespace
}  // namespace verbena
