// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <benchmark/benchmark.h>

#include "protocol/siphash.h"

namespace verbena::protocol {
namespace {

void siphash(benchmark::State& state) {
  const std::vector<uint8_t> packet(static_cast<size_t>(state.range(0)), 0x5a);
  for (auto _ : state) {
    SipHash hash({});
    hash.update(packet);
    benchmark::DoNotOptimize(hash.finish());
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * packet.size()));
}

BENCHMARK(siphash)->Arg(64)->Arg(1024)->Arg(4096);

}  // namespace
}  // namespace verbena::protocol
