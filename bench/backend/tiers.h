// SPDX-License-Identifier: Apache-2.0
// How fast a cache flushes to each tier, and loads from it, beside a program that does little else.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "common/report.h"
#include "store/store.h"

namespace verbena::bench {

struct Settings {
  std::string folder = "/var/tmp";
  uint64_t mib = 256;
  uint32_t rounds = 3;
  std::set<std::string> only;
  [[nodiscard]] bool wanted(const char* part) const { return only.empty() || only.contains(part); }
};

using Clock = std::chrono::steady_clock;
[[nodiscard]] double seconds_since(Clock::time_point begin);

// Says why, and ends the program.
[[noreturn]] void give_up(const std::string& what);
template <typename T>
T must(store::Result<T> result) {
  if (!result) give_up(result.error().what);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// For so many bytes, in memory.
[[nodiscard]] std::unique_ptr<store::Store> make_store(uint64_t bytes);

void measure_directory(const Settings& settings, const std::filesystem::path& folder, Report& report);
// Of the cluster in VERBENA_TEST_CEPH (tests/backend/with-ceph).
void measure_pool(const Settings& settings, Report& report);

}  // namespace verbena::bench
