// SPDX-License-Identifier: Apache-2.0
// Updates and loads of whole objects in a pool. The cluster's directory is in VERBENA_TEST_CEPH:
// tests/backend/with-ceph starts one. To be compared with `rados bench -b 4145152 -t 8` on it.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "backend/rados_format.h"
#include "backend/rados_tier.h"
#include "base/check.h"
#include "store/crc_parts.h"

namespace verbena::backend {
namespace {

// Parts in memory, and the pool that they are written to.
class PoolBench {
 public:
  explicit PoolBench(size_t stripes) : memory_(stripes * kStripeBytes) {
    const char* const directory = std::getenv("VERBENA_TEST_CEPH");
    if (directory == nullptr) return;
    auto tier = RadosTier::open(
        {.pool = "test", .name_space = "bench", .conf = std::string(directory) + "/ceph.conf"});
    VERBENA_CHECK(tier.has_value());
    tier_ = std::move(*tier);
    for (size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<uint8_t>(i * 7 >> 3);
    for (size_t at = 0; at < memory_.size(); at += kPartBytes) {
      uint8_t* const part = memory_.data() + at;
      to_put.push_back({part, store::crc_of({part, kPartBytes})});
      to_load.push_back({part, 0});
    }
  }
  ~PoolBench() {
    if (tier_) VERBENA_CHECK(tier_->remove({"object", {}}, version));
  }
  PoolBench(const PoolBench&) = delete;
  PoolBench& operator=(const PoolBench&) = delete;

  [[nodiscard]] bool skip(benchmark::State& state) const {
    if (!tier_) state.SkipWithError("VERBENA_TEST_CEPH names no cluster");
    return !tier_;
  }
  void write() {
    NewState wanted{std::nullopt, {version + 1, memory_.size(), 1}};
    if (version != 0) wanted.base = version;
    auto update = tier_->update({"object", {}}, wanted);
    VERBENA_CHECK(update && (*update)->put(0, to_put) && (*update)->commit());
    ++version;
  }
  void read() { VERBENA_CHECK(tier_->load({"object", {}}, version, 0, to_load)); }

  std::vector<PartToPut> to_put;
  std::vector<PartToLoad> to_load;
  uint64_t version = 0;

 private:
  std::vector<uint8_t> memory_;
  std::unique_ptr<RadosTier> tier_;
};

void update_pool(benchmark::State& state) {
  PoolBench bench(static_cast<size_t>(state.range(0)));
  if (bench.skip(state)) return;
  for (auto _ : state) bench.write();
  state.SetBytesProcessed(state.iterations() * state.range(0) * static_cast<int64_t>(kStripeBytes));
}
BENCHMARK(update_pool)->Arg(1)->Arg(32)->UseRealTime();

void load_pool(benchmark::State& state) {
  PoolBench bench(static_cast<size_t>(state.range(0)));
  if (bench.skip(state)) return;
  bench.write();
  for (auto _ : state) bench.read();
  state.SetBytesProcessed(state.iterations() * state.range(0) * static_cast<int64_t>(kStripeBytes));
}
BENCHMARK(load_pool)->Arg(1)->Arg(32)->UseRealTime();

}  // namespace
}  // namespace verbena::backend
