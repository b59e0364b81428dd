// SPDX-License-Identifier: Apache-2.0
// What the check of a key costs, and what it adds to a copy: compare Write/n and Scatter/n with
// Memcpy/n. Keys:n goes round n regions: the table and the entries then miss the cache as a
// server's would.
#include <cstring>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/random.h"
#include "memory/domain.h"

namespace verbena::memory {
namespace {

constexpr uint32_t kAll = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;
constexpr size_t kBytes = 1 << 16;

struct Bench {
  explicit Bench(size_t regions = 1) {
    for (size_t i = 0; i < regions; ++i) {
      keys.push_back(
          domain
              .register_region(
                  pd, {.base = memory.data(), .length = kBytes, .iova = 4096, .access = kAll})
              .value());
    }
  }
  Sge sge(uint64_t at, uint32_t length) const {
    return {.addr = 4096 + at, .length = length, .lkey = keys[0].lkey};
  }
  SeededRandom random{1};
  Domain domain{random, {}};
  PdId pd = domain.allocate_pd().value();
  RemoteUser user{.pd = pd, .qpn = Qpn{5}};
  std::vector<uint8_t> memory = std::vector<uint8_t>(kBytes);
  std::vector<uint8_t> packet = std::vector<uint8_t>(4096, 7);
  std::vector<uint8_t> staging = std::vector<uint8_t>(4096);
  std::vector<RegionKeys> keys;
};

void check_remote(benchmark::State& state) {
  Bench bench(static_cast<size_t>(state.range(0)));
  size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(bench.domain.check_remote(bench.user, bench.keys[next].rkey,
                                                       RemoteAddr{4096}, 64, kRemoteWrite));
    if (++next == bench.keys.size()) next = 0;
  }
}
BENCHMARK(check_remote)->Name("CheckRemote/Keys")->Arg(1)->Arg(1000)->Arg(100'000);

void check_window(benchmark::State& state) {
  Bench bench;
  const auto lkey = bench.domain
                        .register_region(bench.pd, {.base = bench.memory.data(),
                                                    .length = kBytes,
                                                    .iova = 4096,
                                                    .access = kLocalWrite | kMwBind})
                        .value()
                        .lkey;
  const RKey window =
      bench.domain
          .bind_window(bench.domain.allocate_window(bench.pd, WindowType::kType2).value(),
                       bench.user,
                       {.region = lkey, .addr = 4096, .length = 4096, .access = kRemoteWrite})
          .value();
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        bench.domain.check_remote(bench.user, window, RemoteAddr{4096}, 64, kRemoteWrite));
  }
}
BENCHMARK(check_window)->Name("CheckRemote/Window");

void gather(benchmark::State& state) {
  Bench bench;
  const auto entries = static_cast<uint32_t>(state.range(0));
  std::vector<Sge> list(entries);
  for (uint32_t i = 0; i < entries; ++i) list[i] = bench.sge(i * 1000, 4096 / entries);
  for (auto _ : state) {
    Pieces pieces(bench.staging);
    benchmark::DoNotOptimize(bench.domain.gather(bench.pd, list, 0, 4096, pieces));
    benchmark::DoNotOptimize(pieces);
  }
}
BENCHMARK(gather)->Name("Gather4096/Entries")->Arg(1)->Arg(4)->Arg(8)->Arg(32);

void scatter(benchmark::State& state) {
  Bench bench;
  const auto n = static_cast<uint32_t>(state.range(0));
  const Sge list[] = {bench.sge(64, n)};
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        bench.domain.scatter(bench.pd, list, 0, std::span(bench.packet).first(n), true));
  }
  state.SetBytesProcessed(state.iterations() * n);
}
BENCHMARK(scatter)->Name("Scatter")->Arg(8)->Arg(64)->Arg(1024)->Arg(4096);

void write(benchmark::State& state) {
  Bench bench;
  const auto n = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(bench.domain.remote_write(bench.user, bench.keys[0].rkey,
                                                       RemoteAddr{4096 + 64},
                                                       std::span(bench.packet).first(n), true));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(write)->Name("Write")->Arg(8)->Arg(64)->Arg(1024)->Arg(4096);

void plain_memcpy(benchmark::State& state) {
  Bench bench;
  auto n = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(n);
    std::memcpy(bench.memory.data() + 64, bench.packet.data(), n);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(plain_memcpy)->Name("Memcpy")->Arg(8)->Arg(64)->Arg(1024)->Arg(4096);

// A stream of packets into, or out of, chunks of 4048 + 48 bytes, with the CRC-32 of each or
// without.
struct ChunkBench : Bench {
  static constexpr uint32_t kChunks = 15;
  explicit ChunkBench(bool with_crc) {
    key = domain.create_key(pd, {.max_entries = 4, .signature = true}).value();
    KeyConfig config;
    config.access = kAll;
    config.has_layout = true;
    config.interleaved = true;
    config.repeat = kChunks;
    config.blocks = {{4096, 4048, 48, keys[0].lkey}};
    if (with_crc) {
      config.blocks.push_back({4096 + 4084, 4, 4092, keys[0].lkey});
      config.signature =
          Signature{.memory = {.kind = SignatureKind::kCrc32, .block = 4048, .seed = 0xffffffff}};
    }
    benchmark::DoNotOptimize(domain.configure_key(key.lkey, pd, config));
  }
  RegionKeys key;
};

void write_chunks(benchmark::State& state) {
  ChunkBench bench(state.range(0) != 0);
  const auto n = static_cast<uint32_t>(state.range(1));
  uint64_t at = 0;
  for (auto _ : state) {
    if (at + n > uint64_t{ChunkBench::kChunks} * 4048) at = 0;
    benchmark::DoNotOptimize(bench.domain.remote_write(bench.user, bench.key.rkey, RemoteAddr{at},
                                                       std::span(bench.packet).first(n), false));
    at += n;
  }
  state.SetBytesProcessed(state.iterations() * n);
}
BENCHMARK(write_chunks)->Name("WriteChunks/Crc/Packet")->ArgsProduct({{0, 1}, {1024, 4096}});

void read_chunks(benchmark::State& state) {
  ChunkBench bench(state.range(0) != 0);
  const auto n = static_cast<uint32_t>(state.range(1));
  uint64_t at = 0;
  for (auto _ : state) {
    if (at + n > uint64_t{ChunkBench::kChunks} * 4048) at = 0;
    Pieces pieces(bench.staging);
    benchmark::DoNotOptimize(
        bench.domain.remote_read(bench.user, bench.key.rkey, RemoteAddr{at}, n, pieces));
    benchmark::DoNotOptimize(pieces.bytes());
    at += n;
  }
  state.SetBytesProcessed(state.iterations() * n);
}
BENCHMARK(read_chunks)->Name("ReadChunks/Crc/Packet")->ArgsProduct({{0, 1}, {1024, 4096}});

void fetch_add(benchmark::State& state) {
  Bench bench;
  for (auto _ : state) {
    benchmark::DoNotOptimize(bench.domain.remote_atomic(
        bench.user, bench.keys[0].rkey, RemoteAddr{4096}, AtomicOp::kFetchAdd, 1, 0));
  }
}
BENCHMARK(fetch_add)->Name("FetchAdd");

void register_and_deregister(benchmark::State& state) {
  Bench bench;
  const RegionSpec spec{.base = bench.memory.data(), .length = kBytes, .access = kAll};
  for (auto _ : state) {
    const RegionKeys keys = bench.domain.register_region(bench.pd, spec).value();
    benchmark::DoNotOptimize(bench.domain.deregister_region(keys.lkey));
  }
}
BENCHMARK(register_and_deregister)->Name("RegisterAndDeregister");

}  // namespace
}  // namespace verbena::memory
