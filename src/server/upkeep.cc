// SPDX-License-Identifier: Apache-2.0
#include "server/upkeep.h"

#include <chrono>

namespace verbena::server {

std::function<void()> Upkeep::on_due() {
  return [this] {
    if (due_.exchange(true, std::memory_order_relaxed)) return;
    // Between its last look and its sleep it has the lock.
    { const std::scoped_lock lock(mutex_); }
    wake_.notify_one();
  };
}

void Upkeep::start(store::Store& store, std::function<void()> hourly, Failed failed) {
  thread_ = std::thread([this, &store, hourly = std::move(hourly), failed = std::move(failed)] {
    work(store, hourly, failed);
  });
}

void Upkeep::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Upkeep::work(store::Store& store, const std::function<void()>& hourly, const Failed& failed) {
  using Clock = std::chrono::steady_clock;
  auto next_hour = Clock::now() + std::chrono::hours(1);
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_until(lock, next_hour,
                       [&] { return stopping_ || due_.load(std::memory_order_relaxed); });
      if (stopping_) return;
    }
    if (due_.exchange(false, std::memory_order_relaxed)) {
      if (const auto done = store.tend(); !done) {
        failed(done.error());
        return;
      }
    }
    if (Clock::now() < next_hour) continue;
    next_hour += std::chrono::hours(1);
    if (hourly) hourly();
  }
}

}  // namespace verbena::server
