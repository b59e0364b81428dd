// SPDX-License-Identifier: Apache-2.0
// What choosing the hook of a request costs beside executing it.
#include <array>

#include <benchmark/benchmark.h>

#include "base/check.h"
#include "medium/malloc_backend.h"
#include "server/hook.h"
#include "store/crc_parts.h"

namespace verbena::server {
namespace {

std::unique_ptr<store::Store> make_store() {
  auto medium = medium::make_malloc_backend({.block_bytes = size_t{1} << 20, .capacity = 64});
  auto store = store::Store::create(std::move(*medium), {});
  VERBENA_CHECK(store.has_value());
  return std::move(*store);
}

// PING: nothing but the choice, and an empty response.
void hook_of_a_ping(benchmark::State& state) {
  const auto store = make_store();
  const Hooks hooks = all_hooks();
  Call call;
  call.request = protocol::Ping{.id = 1};
  for (auto _ : state) {
    benchmark::DoNotOptimize(call.request);
    benchmark::DoNotOptimize(hooks[call.request.index()]->run(call, *store));
  }
}
BENCHMARK(hook_of_a_ping);

// A read of 4048 bytes, by the hook, and by the store alone.
class Read : public benchmark::Fixture {
 public:
  Read() {
    const std::vector<uint8_t> bytes(store::kDataBytes, 7);
    VERBENA_CHECK(store->create_object(kObject).has_value());
    VERBENA_CHECK(store->write(kObject, 0, bytes).has_value());
  }
  static constexpr ObjectId kObject{1, 1};
  std::unique_ptr<store::Store> store = make_store();
  std::array<uint8_t, 8192> room{};
};
BENCHMARK_F(Read, by_the_hook)(benchmark::State& state) {
  const Hooks hooks = all_hooks();
  Call call;
  call.request = protocol::IoRequest{
      .id = 1, .object = protocol::ObjectRef::by(kObject), .length = store::kDataBytes};
  call.room = room;
  for (auto _ : state) {
    benchmark::DoNotOptimize(hooks[call.request.index()]->run(call, *store));
  }
}
BENCHMARK_F(Read, by_the_store)(benchmark::State& state) {
  uint32_t crc = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        store->read(kObject, 0, std::span(room).first(store::kDataBytes), &crc));
  }
}

}  // namespace
}  // namespace verbena::server
