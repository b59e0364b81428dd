// SPDX-License-Identifier: Apache-2.0
#include "server/upkeep.h"

namespace verbena::server {

std::function<void()> Upkeep::on_due() {
  return [this] {
    if (due_.exchange(true, std::memory_order_relaxed)) return;
    // Between its last look and its sleep it has the lock.
    { const std::scoped_lock lock(mutex_); }
    wake_.notify_one();
  };
}

void Upkeep::start(store::Store& store, std::function<void(const store::Error&)> failed) {
  thread_ = std::thread([this, &store, failed = std::move(failed)] { work(store, failed); });
}

void Upkeep::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Upkeep::work(store::Store& store, const std::function<void(const store::Error&)>& failed) {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || due_.load(std::memory_order_relaxed); });
      if (stopping_) return;
    }
    due_.store(false, std::memory_order_relaxed);
    if (const auto done = store.tend(); !done) {
      failed(done.error());
      return;
    }
  }
}

}  // namespace verbena::server
