// SPDX-License-Identifier: Apache-2.0
// What a chunk costs beside its data: sealing it, and examining all of it, beside the CRC alone.
#include <algorithm>
#include <array>

#include <benchmark/benchmark.h>

#include "store/chunk.h"
#include "store/crc_parts.h"

namespace verbena::store {
namespace {

using Chunk = std::array<uint8_t, kChunkBytes>;

[[nodiscard]] Chunk sealed(uint16_t length) {
  Chunk chunk{};
  std::fill_n(chunk.begin(), length, uint8_t{0x5a});
  const ChunkHead head{.id = 7, .birth = {3, 1, 9}, .store = 5, .length = length, .flags = 0};
  seal(chunk.data(), head, crc_of(std::span(chunk).first<kDataBytes>()));
  return chunk;
}

void seal_alone(benchmark::State& state) {
  Chunk chunk = sealed(kDataBytes);
  ChunkHead head = head_of(chunk.data());
  uint32_t data_crc = 0;
  for (auto _ : state) {
    ++head.id;
    seal(chunk.data(), head, ++data_crc);
    benchmark::DoNotOptimize(chunk);
  }
}
BENCHMARK(seal_alone);

void crc_alone(benchmark::State& state) {
  const Chunk chunk = sealed(kDataBytes);
  for (auto _ : state) benchmark::DoNotOptimize(crc_of(std::span(chunk).first<kDataBytes>()));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kDataBytes));
}
BENCHMARK(crc_alone);

void examine_all(benchmark::State& state) {
  const Chunk chunk = sealed(static_cast<uint16_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(examine(chunk));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kChunkBytes));
}
BENCHMARK(examine_all)->Arg(kDataBytes)->Arg(100);

}  // namespace
}  // namespace verbena::store
