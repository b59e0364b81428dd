// SPDX-License-Identifier: Apache-2.0
// What a store needs from time to time, on a thread of its own: flushes, checkpoints and growth
// that are due, so that requests wait for none of them; files that are given back to the system;
// and what is done once an hour.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/time.h"
#include "store/store.h"

namespace verbena::server {

// When files are worth giving back.
struct CompactionPolicy {
  uint32_t percent = 25;                         // of their size at least; 0: never
  uint64_t least_bytes = uint64_t{64} << 20;     // and so much
  Duration every = 60 * kSecond;                 // how often it is looked at
  static constexpr uint32_t kSlackPercent = 25;  // of the data, for which space stays
  static constexpr uint32_t kAfterFailure = 10;  // so many times `every`, where it was no use

  [[nodiscard]] bool worthwhile(const store::SpareSpace& space, uint64_t block_bytes) const {
    return percent > 0 && space.spare > 0 && space.spare * block_bytes >= least_bytes &&
           space.spare * 100 >= space.blocks * percent;
  }
};

class Upkeep {
 public:
  ~Upkeep() { stop(); }
  // Options::on_due of the store, which is made before the thread is.
  [[nodiscard]] std::function<void()> on_due();
  // All are called by that thread. `hourly`: once an hour. `failed`: with an error, after which the
  // store is read-only. `told`: with what it did, for people.
  struct Callbacks {
    std::function<void()> hourly{};
    std::function<void(const store::Error&)> failed{};
    std::function<void(const std::string&)> told{};
  };
  void start(store::Store& store, const CompactionPolicy& policy, Callbacks callbacks);
  void stop();

  struct Numbers {
    uint64_t compactions = 0;  // that gave something back
    uint64_t moved_chunks = 0;
    uint64_t returned_bytes = 0;
  };
  // By any thread.
  [[nodiscard]] Numbers numbers() const;

 private:
  using Clock = std::chrono::steady_clock;

  void work();
  // Whether it goes on: waits a while so that others have the machine, and does what is due.
  [[nodiscard]] bool give_way();
  // Until then, or until there is something to do before. False: it is to stop.
  [[nodiscard]] bool sleep_until(Clock::time_point until);
  // False: an error was told.
  [[nodiscard]] bool tend();
  [[nodiscard]] bool look_at_space();
  [[nodiscard]] bool compact(uint64_t block_bytes);

  store::Store* store_ = nullptr;
  CompactionPolicy policy_;
  Callbacks callbacks_;
  Clock::time_point step_began_;
  Clock::time_point next_look_;
  bool broken_ = false;

  Mutex mutex_;
  Condition wake_;
  // Of who set it nothing is read: pairs with nothing. Looked at under the mutex before a sleep.
  std::atomic<bool> due_{false};
  bool stopping_ VERBENA_GUARDED_BY(mutex_) = false;
  // Written by the thread alone; pair with nothing.
  std::atomic<uint64_t> compactions_{0};
  std::atomic<uint64_t> moved_chunks_{0};
  std::atomic<uint64_t> returned_bytes_{0};
  std::thread thread_;
};

}  // namespace verbena::server
