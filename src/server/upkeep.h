// SPDX-License-Identifier: Apache-2.0
// What a store needs from time to time, on a thread of its own: flushes, checkpoints and growth
// that are due, so that requests wait for none of them; and what is done once an hour.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "store/store.h"

namespace verbena::server {

class Upkeep {
 public:
  ~Upkeep() { stop(); }
  // Options::on_due of the store, which is made before the thread is.
  [[nodiscard]] std::function<void()> on_due();
  // `failed`: told, by that thread, of an error; the store is read-only then. `hourly`: called by
  // it.
  using Failed = std::function<void(const store::Error&)>;
  void start(store::Store& store, std::function<void()> hourly, Failed failed);
  void stop();

 private:
  void work(store::Store& store, const std::function<void()>& hourly, const Failed& failed);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> due_{false};
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace verbena::server
