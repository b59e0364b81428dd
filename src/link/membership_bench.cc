// SPDX-License-Identifier: Apache-2.0
// What credits cost a packet, alone on a core: one process that sends to itself.
#include <array>

#include <benchmark/benchmark.h>
#include <unistd.h>

#include "link/clock.h"
#include "link/membership.h"
#include "link/shared_table.h"
#include "link/steering.h"

namespace verbena::link {
namespace {

std::unique_ptr<Membership> join() {
  static SeededRandom random(static_cast<uint64_t>(monotonic_now()));
  MembershipOptions options;
  options.group = "bench" + std::to_string(::getpid());
  options.udp.port = static_cast<uint16_t>(20'000 + ::getpid() % 10'000);
  auto host = Membership::join(options, random);
  return host ? std::move(*host) : nullptr;
}

constexpr wire::Gid kHere = wire::Gid::from_ipv4(127, 0, 0, 1);
constexpr wire::Gid kElsewhere = wire::Gid::from_ipv4(192, 0, 2, 1);

// One GSO batch of 15 packets: asked for, spent, settled, read. Time is per packet.
// One to itself.
struct OwnDatagram {
  explicit OwnDatagram(const Membership& host)
      : datagram{.bytes = bytes,
                 .source = kHere,
                 .destination = kHere,
                 .source_port = host.ipv4()->source_port} {
    bytes[kSlotByte] = host.slot();
  }
  std::array<uint8_t, 64> bytes{};
  Datagram datagram;
};

void batch_of_15(benchmark::State& state) {
  const auto host = join();
  const OwnDatagram own(*host);
  const Qpn qpn(uint32_t{host->slot()} << 16 | 9);
  for (auto _ : state) {
    for (int i = 0; i < 15; ++i) {
      benchmark::DoNotOptimize(host->available(kHere, qpn));
      host->spend(
          kHere, qpn,
          datagram_cost(4140 * (i + 1), 4140) - (i == 0 ? 0 : datagram_cost(4140 * i, 4140)));
    }
    host->settle();
    host->consumed(own.datagram, datagram_cost(15 * 4140, 4140));
  }
  state.SetItemsProcessed(state.iterations() * 15);
}
BENCHMARK(batch_of_15);

void single(benchmark::State& state) {
  const auto host = join();
  const OwnDatagram own(*host);
  const Qpn qpn(uint32_t{host->slot()} << 16 | 9);
  for (auto _ : state) {
    benchmark::DoNotOptimize(host->available(kHere, qpn));
    host->spend(kHere, qpn, datagram_cost(64, 64));
    host->settle();
    host->consumed(own.datagram, datagram_cost(64, 64));
  }
}
BENCHMARK(single);

void available_granted(benchmark::State& state) {
  const auto host = join();
  const Qpn qpn(uint32_t{host->slot()} << 16 | 9);
  for (auto _ : state) benchmark::DoNotOptimize(host->available(kHere, qpn));
}
BENCHMARK(available_granted);

void available_remote(benchmark::State& state) {
  const auto host = join();
  for (auto _ : state) benchmark::DoNotOptimize(host->available(kElsewhere, Qpn(0x112233)));
}
BENCHMARK(available_remote);

void found_empty(benchmark::State& state) {
  const auto host = join();
  for (auto _ : state) host->found_empty(1);
}
BENCHMARK(found_empty);

void join(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(join());
}
BENCHMARK(join);

}  // namespace
}  // namespace verbena::link
