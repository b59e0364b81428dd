// SPDX-License-Identifier: Apache-2.0
// Threads that sleep on a completion channel and receive meanwhile.
#include "device/progress.h"

namespace verbena::device {

int Progress::wait(CompletionChannel& channel, CompletionQueue*& cq) {
  if (channel.take(cq)) return 0;
  {
    const EngineHeld held(lock_);
    if (work_.owes_acks()) settle(world_.clock());
  }
  if (!channel.blocking()) return channel.wait(cq);
  if (!alarm_.enter()) {
    ++bystanders_;
    const int error = world_.sleep_on(channel, cq);
    --bystanders_;
    return error;
  }
  const int error = receive_for(channel, cq);
  // Nobody receives until this thread comes back or the helper looks. It looks often enough while
  // there is traffic; others that wait here cannot be left to that.
  bool wake = alarm_.leave(world_.clock());
  if (bystanders_.load() != 0) {
    alarm_.leave_for_good();
    wake = true;
  }
  if (wake) world_.wake_helper();
  return error;
}

int Progress::receive_for(CompletionChannel& channel, CompletionQueue*& cq) {
  bool may_sleep = false;
  {
    const EngineHeld held(lock_);
    may_sleep = work_.prepare_sleep();
  }
  for (;;) {
    const ProgressWorld::Woken woken = world_.sleep_receiving(channel, may_sleep);
    if (woken.error != 0) return woken.error;
    if (woken.by_channel && channel.take(cq)) return 0;
    const EngineHeld held(lock_);
    channel.begin_direct();
    const Time now = world_.clock();
    work_.woke(woken.packets);
    waiter_received_.store(now, std::memory_order_relaxed);
    if (work_.receive_ready(woken.packets, now) > 0) {
      last_activity_ = now;
      // The ACK is not held for the answer: a peer that sleeps expects its send's event before the
      // answer's, as a NIC has it (perftest's -e hangs otherwise).
      settle(now, acks_of_batch());
    }
    if (channel.end_direct(cq)) return 0;
    // What completed was another thread's: its answer may take long, and this thread sleeps again.
    if (work_.owes_acks()) settle(now);
    have_helper_by(work_.next_deadline());
    may_sleep = work_.prepare_sleep();
  }
}

}  // namespace verbena::device
