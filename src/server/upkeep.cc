// SPDX-License-Identifier: Apache-2.0
#include "server/upkeep.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "medium/words.h"

namespace verbena::server {
namespace {

// A step of compaction takes a fourth of the time at most.
constexpr int kRest = 3;
constexpr auto kShortestRest = std::chrono::milliseconds(1);
constexpr auto kLongestRest = std::chrono::milliseconds(200);

}  // namespace

std::function<void()> Upkeep::on_due() {
  return [this] {
    if (due_.exchange(true, std::memory_order_relaxed)) return;
    // Between its last look and its sleep it has the lock.
    { const MutexLock lock(mutex_); }
    wake_.notify_one();
  };
}

void Upkeep::start(store::Store& store, const CompactionPolicy& policy, Callbacks callbacks) {
  store_ = &store;
  policy_ = policy;
  callbacks_ = std::move(callbacks);
  thread_ = std::thread([this] { work(); });
}

void Upkeep::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Upkeep::Numbers Upkeep::numbers() const {
  return {compactions_.load(std::memory_order_relaxed),
          moved_chunks_.load(std::memory_order_relaxed),
          returned_bytes_.load(std::memory_order_relaxed)};
}

void Upkeep::work() {
  auto next_hour = Clock::now() + std::chrono::hours(1);
  const bool compacts = policy_.percent > 0;
  next_look_ = Clock::now() + std::chrono::nanoseconds(policy_.every);
  for (;;) {
    if (!sleep_until(compacts ? std::min(next_hour, next_look_) : next_hour)) return;
    if (!tend()) return;
    if (compacts && Clock::now() >= next_look_ && !look_at_space()) return;
    if (Clock::now() < next_hour) continue;
    next_hour += std::chrono::hours(1);
    if (callbacks_.hourly) callbacks_.hourly();
  }
}

bool Upkeep::sleep_until(Clock::time_point until) {
  const MutexLock lock(mutex_);
  while (!stopping_ && !due_.load(std::memory_order_relaxed)) {
    if (!wake_.wait_until(mutex_, until)) break;
  }
  return !stopping_;
}

bool Upkeep::tend() {
  if (!due_.exchange(false, std::memory_order_relaxed)) return true;
  const auto done = store_->tend();
  if (done) return true;
  broken_ = true;
  callbacks_.failed(done.error());
  return false;
}

bool Upkeep::give_way() {
  const auto now = Clock::now();
  const auto rest =
      std::clamp<Clock::duration>(kRest * (now - step_began_), kShortestRest, kLongestRest);
  for (const auto until = now + rest; Clock::now() < until;) {
    if (!sleep_until(until) || !tend()) return false;
  }
  step_began_ = Clock::now();
  return true;
}

bool Upkeep::look_at_space() {
  const uint64_t block_bytes = uint64_t{store_->info().chunks_per_block} * store::kChunkBytes;
  const auto every = std::chrono::nanoseconds(policy_.every);
  bool of_use = true;
  if (policy_.worthwhile(store_->spare_space(CompactionPolicy::kSlackPercent), block_bytes)) {
    of_use = compact(block_bytes);
  }
  next_look_ = Clock::now() + (of_use ? every : every * CompactionPolicy::kAfterFailure);
  return !broken_;
}

// Whether it was of use.
bool Upkeep::compact(uint64_t block_bytes) {
  const auto began = step_began_ = Clock::now();
  const auto report = store_->compact([this](uint64_t, uint64_t) { return give_way(); },
                                      CompactionPolicy::kSlackPercent);
  if (!report) {
    // Whether the store takes changes still, the next flush tells.
    if (!broken_ && callbacks_.told) callbacks_.told("compaction: " + report.error().what);
    return false;
  }
  moved_chunks_.fetch_add(report->moved, std::memory_order_relaxed);
  if (report->blocks >= report->blocks_before) return false;
  const uint64_t bytes = (report->blocks_before - report->blocks) * block_bytes;
  compactions_.fetch_add(1, std::memory_order_relaxed);
  returned_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (callbacks_.told) {
    callbacks_.told(fmt::format("compacted: {} moved, {} given back to the file system in {:.1f} s",
                                medium::size_text(report->moved * store::kChunkBytes),
                                medium::size_text(bytes),
                                std::chrono::duration<double>(Clock::now() - began).count()));
  }
  return true;
}

}  // namespace verbena::server
