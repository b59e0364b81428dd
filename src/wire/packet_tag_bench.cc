// SPDX-License-Identifier: Apache-2.0
// What it costs to make a packet's tag, beside its ICRC.
#include <vector>

#include <benchmark/benchmark.h>

#include "base/checksum.h"
#include "wire/packet_tag.h"

namespace verbena::wire {
namespace {

void tags(benchmark::State& state, const PacketTag::Way& way) {
  const std::vector<uint8_t> packet(static_cast<size_t>(state.range(0)), 0x5a);
  const PacketTag tag(tag_key_of(packet), way);
  for (auto _ : state) benchmark::DoNotOptimize(tag.of(Gid(), Gid(), packet));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * packet.size()));
}

void tag(benchmark::State& state) { tags(state, PacketTag::best_way()); }
void tag_portable(benchmark::State& state) { tags(state, PacketTag::portable_way()); }

void crc(benchmark::State& state) {
  const std::vector<uint8_t> packet(static_cast<size_t>(state.range(0)), 0x5a);
  for (auto _ : state) benchmark::DoNotOptimize(crc32_update(0, packet));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * packet.size()));
}

BENCHMARK(tag)->Arg(64)->Arg(1024)->Arg(4096);
BENCHMARK(tag_portable)->Arg(64)->Arg(1024)->Arg(4096);
BENCHMARK(crc)->Arg(64)->Arg(1024)->Arg(4096);

}  // namespace
}  // namespace verbena::wire
