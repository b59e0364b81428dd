// SPDX-License-Identifier: Apache-2.0
// The thread of the helper: a guest in somebody else's process.
#pragma once

#include <functional>
#include <thread>

namespace verbena::device {

class HelperThread {
 public:
  // Once. 0 or errno.
  [[nodiscard]] int start(std::function<void()> body);
  [[nodiscard]] bool started() const { return thread_.joinable(); }
  // After its body was told to return.
  void join() { thread_.join(); }
  // In a forked child: the thread does not exist there; its handle must not be joined, nor
  // destroyed while joinable.
  void abandon() {
    if (thread_.joinable()) thread_.detach();
  }

 private:
  std::thread thread_;
};

}  // namespace verbena::device
