// SPDX-License-Identifier: Apache-2.0
// In place of src/device/helper_thread.h: a thread of the simulated process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "progress_sim/scheduler.h"

namespace verbena::device {

class HelperThread {
 public:
  [[nodiscard]] int start(std::function<void()> body) {
    using progress_sim::Scheduler;
    ended_ = std::make_shared<bool>(false);
    Scheduler& scheduler = *Scheduler::current();
    scheduler.spawn(scheduler.process(), "helper " + std::to_string(scheduler.process()),
                    [ended = ended_, body = std::move(body)] {
                      body();
                      *ended = true;
                    });
    return 0;
  }
  [[nodiscard]] bool started() const { return ended_ != nullptr; }
  void join() {
    auto* const scheduler = progress_sim::Scheduler::current();
    while (!*ended_) scheduler->sleep_until(scheduler->now() + 10 * kMicrosecond);
    ended_.reset();
  }
  void abandon() { ended_.reset(); }

 private:
  std::shared_ptr<bool> ended_;
};

}  // namespace verbena::device
