// SPDX-License-Identifier: Apache-2.0
// Time, sleep and waking, as far as they decide who makes progress (progress.h). The real ones are
// the kernel's (kernel_world.h); the simulator has its own.
#pragma once

#include "base/time.h"
#include "device/completion_channel.h"
#include "link/link.h"

namespace verbena::device {

class ProgressWorld {
 public:
  virtual ~ProgressWorld() = default;
  // Any thread.
  [[nodiscard]] virtual Time clock() const = 0;

  // The helper sleeps until then, or until wake_helper() (one before the sleep counts), or until
  // another member of the host wants something; with kPackets, until packets arrive as well.
  enum class Wakes : uint8_t { kControl, kPackets };
  // Gives what there is: as made, nobody knows. With kControl nothing is known of packets.
  struct Ready {
    bool control = true;
    link::ReadyFds packets = link::kAllReady;
  };
  virtual Ready sleep_helper(Time until, Wakes wakes) = 0;
  // Any thread.
  virtual void wake_helper() = 0;

  // A thread that receives sleeps until the channel has an event or packets arrive; unless
  // `may_sleep`, it only looks. errno: EINTR.
  struct Woken {
    int error = 0;
    bool by_channel = false;
    link::ReadyFds packets{};  // may have arrived there
  };
  [[nodiscard]] virtual Woken sleep_receiving(CompletionChannel& channel, bool may_sleep) = 0;
  // A thread that does not receive: CompletionChannel::wait().
  [[nodiscard]] virtual int sleep_on(CompletionChannel& channel, CompletionQueue*& cq) = 0;
};

}  // namespace verbena::device
