// SPDX-License-Identifier: Apache-2.0
// What the ICRC costs per packet, and what solving for a hidden IPv4 identification adds to it.
#include <vector>

#include <benchmark/benchmark.h>

#include "wire/icrc.h"
#include "wire/packet.h"

namespace verbena::wire {
namespace {

const IcrcFlow kFlow{.source = Gid::from_ipv4(10, 0, 0, 1),
                     .destination = Gid::from_ipv4(10, 0, 0, 2),
                     .source_port = 0xc123,
                     .destination_port = kRoceUdpPort,
                     .ipv4_id = 0xbeef};

std::vector<uint8_t> packet_of(benchmark::State& state, uint16_t id) {
  std::vector<uint8_t> packet(static_cast<size_t>(state.range(0)) + Bth::kBytes + kIcrcBytes, 0x5a);
  IcrcFlow flow = kFlow;
  flow.ipv4_id = id;
  const size_t covered = packet.size() - kIcrcBytes;
  store_icrc(packet.data() + covered, icrc(flow, std::span(packet).first(covered)));
  return packet;
}

void compute(benchmark::State& state) {
  const std::vector<uint8_t> packet = packet_of(state, 0);
  const auto covered = std::span(packet).first(packet.size() - kIcrcBytes);
  for (auto _ : state) benchmark::DoNotOptimize(icrc(kFlow, covered));
}
BENCHMARK(compute)->Arg(0)->Arg(1024)->Arg(4096);

void solve_id_zero(benchmark::State& state) {
  const std::vector<uint8_t> packet = packet_of(state, 0);
  for (auto _ : state) benchmark::DoNotOptimize(icrc_solve(kFlow, packet));
}
BENCHMARK(solve_id_zero)->Arg(0)->Arg(1024)->Arg(4096);

void solve_hidden_id(benchmark::State& state) {
  const std::vector<uint8_t> packet = packet_of(state, 0xbeef);
  for (auto _ : state) benchmark::DoNotOptimize(icrc_solve(kFlow, packet));
}
BENCHMARK(solve_hidden_id)->Arg(0)->Arg(1024)->Arg(4096);

}  // namespace
}  // namespace verbena::wire
