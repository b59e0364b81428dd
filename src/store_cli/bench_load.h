// SPDX-License-Identifier: Apache-2.0
// Reads and writes of one size on a store, by several clients with several requests under way each,
// and how long each took.
//
// Each client has an object of its own, which is a draft: it is removed at the end, and if the
// process is killed, by whoever removes drafts. A thread is one request under way. It owns a part
// of its client's object, and so knows what it must read there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/time.h"
#include "store/objects.h"
#include "store_cli/latency_histogram.h"

namespace verbena::store_cli {

struct BenchLoad {
  uint64_t size_bytes = 4096;  // of each request
  uint64_t span_bytes = 0;     // of each client's object, about
  uint32_t depth = 1;          // requests of a client under way at once
  uint32_t read_percent = 50;  // the others are writes
  bool verify = false;         // compare what is read with what was written
  bool flush = false;          // each write is followed by a flush, which counts as part of it
  uint64_t count = 0;          // requests of all together; 0: until the time is over
  Duration time = 0;           // 0: until the count is reached
  uint64_t seed = 1;
};

struct BenchResult {
  LatencyHistogram reads{};
  LatencyHistogram writes{};
  Duration time = 0;  // from the first request to the last answer
};

// An entry for each client; several may be the same store. Ends early when interrupted() is.
[[nodiscard]] store::Result<BenchResult> run_load(std::span<store::Objects* const> clients,
                                                  const BenchLoad& load);

}  // namespace verbena::store_cli
