// SPDX-License-Identifier: Apache-2.0
// How long messages and RDMA take there and back.
#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "base/c_interface.h"
#include "c_client/arguments.h"
#include "store/drafts.h"

namespace verbena::c_client {
namespace {

struct Times {
  uint64_t min_ns = UINT64_MAX;
  uint64_t sum_ns = 0;
  uint64_t max_ns = 0;
};

// `count` times.
template <typename Step>
int measure(uint32_t count, Times& times, Step step) {
  for (uint32_t i = 0; i < count; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    if (const int status = step(); status != VERBENA_OK) return status;
    const auto time = static_cast<uint64_t>((std::chrono::steady_clock::now() - begin).count());
    times.min_ns = std::min(times.min_ns, time);
    times.max_ns = std::max(times.max_ns, time);
    times.sum_ns += time;
  }
  return VERBENA_OK;
}

std::vector<uint8_t> pattern(size_t bytes) {
  std::vector<uint8_t> made(bytes);
  for (size_t i = 0; i < bytes; ++i) made[i] = static_cast<uint8_t>(i * 7 + i / 256);
  return made;
}

int measure_rdma(Client& client, uint32_t count, size_t bytes, Times& times) {
  std::random_device random;
  const ObjectId id{store::kDraftHigh, uint64_t{random()} << 32 | random()};
  if (const auto made = client.create({}, id); !made) return failed(made.error());
  const auto object = ObjectRef::by(id);
  const std::vector<uint8_t> data = pattern(bytes);
  std::vector<uint8_t> back(bytes);
  const int status = measure(count, times, [&] {
    const auto written = client.write(object, 0, data, {.repeatable = true});
    if (!written) return failed(written.error());
    const auto read = client.read(object, 0, back);
    if (!read) return failed(read.error());
    if (read->bytes == bytes && read->crc == written->crc) return int{VERBENA_OK};
    return failed(VERBENA_CORRUPTED, "what was read is not what was written");
  });
  // If it cannot be removed, the server does so.
  static_cast<void>(client.remove(object));
  return status;
}

int ping_pong(Client& client, uint32_t count, size_t eager_bytes, size_t rdma_bytes,
              verbena_ping& ping) {
  const protocol::Limits limits = client.limits();
  if (count == 0) return failed(VERBENA_INVALID, "the count is 0");
  if (eager_bytes > limits.inline_bytes || rdma_bytes > limits.io_bytes) {
    return failed(VERBENA_TOO_LARGE, fmt::format("a message has at most {} bytes, RDMA {}",
                                                 limits.inline_bytes, limits.io_bytes));
  }
  const std::vector<uint8_t> data = pattern(eager_bytes);
  Times eager;
  int status = measure(count, eager, [&] { return ended(client.ping(data)); });
  if (status != VERBENA_OK) return status;
  ping.eager_min_ns = eager.min_ns;
  ping.eager_mean_ns = eager.sum_ns / count;
  ping.eager_max_ns = eager.max_ns;
  if (rdma_bytes == 0) return VERBENA_OK;
  Times rdma;
  status = measure_rdma(client, count, rdma_bytes, rdma);
  if (status != VERBENA_OK) return status;
  ping.rdma_min_ns = rdma.min_ns;
  ping.rdma_mean_ns = rdma.sum_ns / count;
  ping.rdma_max_ns = rdma.max_ns;
  return VERBENA_OK;
}

}  // namespace
}  // namespace verbena::c_client

using namespace verbena;
using namespace verbena::c_client;

VERBENA_EXPORT int verbena_ping_pong(verbena_client* client, uint32_t count, size_t eager_bytes,
                                     size_t rdma_bytes, verbena_ping* ping) {
  return blocking(client, [&](Client& to) {
    if (const int status = check_room(ping); status != VERBENA_OK) return status;
    verbena_ping made{};
    const int status = ping_pong(to, count, eager_bytes, rdma_bytes, made);
    if (status == VERBENA_OK) give(ping, made);
    return status;
  });
}
