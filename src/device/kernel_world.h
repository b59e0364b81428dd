// SPDX-License-Identifier: Apache-2.0
// The kernel's clock, and sleep in epoll and poll on the link's descriptors.
#pragma once

#include <span>

#include "base/unique_fd.h"
#include "device/epoll_sleep.h"
#include "device/progress_world.h"
#include "link/clock.h"
#include "link/link.h"

namespace verbena::device {

class KernelWorld final : public ProgressWorld {
 public:
  // Once, before anything else; the link outlives it. 0 or errno.
  [[nodiscard]] int open(const link::Link& link);
  // In a forked child.
  void close();

  [[nodiscard]] Time clock() const override { return link::monotonic_now(); }
  Ready sleep_helper(Time until, Wakes wakes) override;
  void wake_helper() override;
  [[nodiscard]] Woken sleep_receiving(CompletionChannel& channel, bool may_sleep) override;
  [[nodiscard]] int sleep_on(CompletionChannel& channel, CompletionQueue*& cq) override {
    return channel.wait(cq);
  }

 private:
  UniqueFd wake_;           // eventfd
  UniqueFd epoll_packets_;  // wake, the link's: control and what it receives from
  UniqueFd epoll_control_;  // wake, the link's control
  int control_fd_ = -1;
  std::span<const int> receive_fds_;
  EpollSleep helper_epoll_;
};

}  // namespace verbena::device
