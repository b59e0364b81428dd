// SPDX-License-Identifier: Apache-2.0
// Threads for what may wait or take long, so that the loop does not. What is done comes back to
// the loop, which is woken by fd().
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/unique_fd.h"

namespace verbena {

class Workers {
 public:
  using Job = std::function<void()>;

  // How many threads; an errno if there can be none.
  [[nodiscard]] int start(size_t threads);
  ~Workers() { stop(); }
  // Those that wait are done first.
  void stop();

  // `work` on a thread, then `done` on the loop, by collect(). Called by any thread.
  void run(Job work, Job done);

  // On the loop: what is done; how much.
  size_t collect();
  [[nodiscard]] int fd() const { return wake_.get(); }

 private:
  struct Task {
    Job work;
    Job done;
  };
  void work();

  Mutex mutex_;
  Condition more_;
  std::deque<Task> waiting_ VERBENA_GUARDED_BY(mutex_);
  std::vector<Job> done_ VERBENA_GUARDED_BY(mutex_);
  bool stopping_ VERBENA_GUARDED_BY(mutex_) = false;
  std::atomic<bool> any_done_{false};  // stored after done_ has it; pairs with collect()
  std::vector<Job> collected_;         // the loop's
  UniqueFd wake_;
  std::vector<std::thread> threads_;
};

}  // namespace verbena
