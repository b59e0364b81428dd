// SPDX-License-Identifier: Apache-2.0
// What the protocol costs per request: decoding through the table of types, against decoding a type
// that is known; under a key and under a secret.
#include <benchmark/benchmark.h>

#include "protocol/testing.h"

namespace verbena::protocol {
namespace {

[[nodiscard]] Seal seal_for(const benchmark::State& state) {
  return state.range(0) == 0 ? Seal::with_key(testing::kKey) : Seal::with_secret(testing::kSecret);
}

void decode_read_by_type(benchmark::State& state) {
  const Seal seal = seal_for(state);
  const auto message = testing::encoded(testing::rdma_read_request(), seal);
  for (auto _ : state) benchmark::DoNotOptimize(decode_request(message, seal));
}
BENCHMARK(decode_read_by_type)->ArgName("secret")->Arg(0)->Arg(1);

void decode_read_directly(benchmark::State& state) {
  const Seal seal = seal_for(state);
  const auto message = testing::encoded(testing::rdma_read_request(), seal);
  for (auto _ : state) benchmark::DoNotOptimize(decode_io_request(message, seal));
}
BENCHMARK(decode_read_directly)->ArgName("secret")->Arg(0)->Arg(1);

void encode_read_response(benchmark::State& state) {
  const Seal seal = seal_for(state);
  std::vector<uint8_t> room(4096);
  const IoResponse response = testing::write_response();
  for (auto _ : state) {
    benchmark::DoNotOptimize(encode(response, testing::kAddress, seal, room));
  }
}
BENCHMARK(encode_read_response)->ArgName("secret")->Arg(0)->Arg(1);

void decode_ping(benchmark::State& state) {
  const Seal seal = seal_for(state);
  const auto message = testing::encoded(Ping{.id = 1, .oldest = 1, .data = {}}, seal);
  for (auto _ : state) benchmark::DoNotOptimize(decode_request(message, seal));
}
BENCHMARK(decode_ping)->ArgName("secret")->Arg(0)->Arg(1);

// A message with a wrong key, which costs as much as a good one until it is refused.
void refuse_wrong_key(benchmark::State& state) {
  const Seal seal = seal_for(state);
  auto message = testing::encoded(testing::rdma_read_request(), seal);
  message[kWordOffset] ^= 1;
  for (auto _ : state) benchmark::DoNotOptimize(decode_request(message, seal));
}
BENCHMARK(refuse_wrong_key)->ArgName("secret")->Arg(0)->Arg(1);

}  // namespace
}  // namespace verbena::protocol
