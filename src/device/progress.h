// SPDX-License-Identifier: Apache-2.0
// Who makes progress, and when: a thread that polls a completion queue receives and answers packets
// itself; when none does, a helper thread sleeps in the kernel until there is something to do. What
// is done is the engine's (ProgressWork), time and sleep are the kernel's (ProgressWorld).
//
// Who receives: a poller, while it has the lease (poll_lease.h). From the moment a completion queue
// is armed until its event nobody takes it: its program is about to sleep.
//
// A thread that sleeps on a completion channel through wait() receives as well: it sleeps on the
// sockets and on its channel together, so that a packet wakes the thread that wants it and not the
// helper first. The helper looks after the timers and after a waiter that does not come back.
//
// ACKs: of bulk, a few batches that are there already share them. When a batch brought completions,
// its ACKs wait for the program's answer and leave behind it in one system call. They go alone when
// the program polls and there is nothing more, after a few messages, when the program calls in for
// something else, or at the helper's next look, at most a tick later.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/time.h"
#include "device/completion_channel.h"
#include "device/engine_lock.h"
#include "device/helper_alarm.h"
#include "device/poll_lease.h"
#include "device/progress_work.h"
#include "device/progress_world.h"

namespace verbena::device {

struct ProgressCounters {
  uint64_t helper_wakeups = 0;
  uint64_t poller_batches = 0;
  uint64_t helper_batches = 0;
  uint64_t doorbells = 0;  // answered for threads that did not wait for the lock
};

class Progress {
 public:
  Progress(EngineLock& lock, ProgressWorld& world, ProgressWork& work)
      : lock_(lock), world_(world), work_(work) {}

  // --- threads of the program, without the lock
  // Receives once on behalf of a poller whose queue is empty; never waits for the lock.
  void poll();
  // A poller found completions without it: it will be back. One that always finds some receives
  // now and then all the same, or the helper would, and both would want the lock.
  void still_polling() {
    constexpr Duration kReceivesEvery = 10 * kMicrosecond;
    if (sleeper_.load(std::memory_order_relaxed)) return;
    const Time now = world_.clock();
    const Time waiter = waiter_received_.load(std::memory_order_relaxed);
    if (now - std::max(lease_.received(), waiter) < kReceivesEvery) {
      lease_.extend(now);
    } else {
      poll();
    }
  }
  // Waits for an event of the channel, receiving meanwhile. 0, or an errno: EAGAIN, EINTR.
  [[nodiscard]] int wait(CompletionChannel& channel, CompletionQueue*& cq);
  // A completion queue was armed: its program is about to sleep and needs the helper.
  void armed();

  // --- with the lock held: the caller's, which is ours by another name
  // After a caller posted or changed something; `now`: when it did.
  void finish(Time now);
  // After a doorbell was rung.
  void answer(Time now) {
    lock_.assert_held();
    ++counters_.doorbells;
    finish(now);
  }
  // ProgressWork::settle().
  void settle(Time now, Acks acks = Acks::kSend);
  // The helper looks by then, or somebody else does first.
  void have_helper_by(Time deadline) {
    lock_.assert_held();
    if (alarm_.move_up(deadline)) world_.wake_helper();
  }
  // A completion was shown to a queue that was armed.
  void event_raised() {
    lock_.assert_held();
    sleeper_.store(false, std::memory_order_relaxed);
  }
  [[nodiscard]] ProgressCounters counters() const {
    lock_.assert_held();
    return counters_;
  }

  // --- the helper's thread
  // Returns after stop().
  void run_helper();
  // Any thread.
  void stop() {
    stopping_.store(true);
    world_.wake_helper();
  }

 private:
  // settle() after packets were received for a thread of the program's; `held`: while ACKs for
  // what it had before were held.
  void settle_received(Time now, bool held) VERBENA_REQUIRES(lock_);
  // After a batch that completed nothing.
  [[nodiscard]] Acks acks_of_batch() VERBENA_REQUIRES(lock_);
  // A poller receives.
  [[nodiscard]] bool leased(Time now) const {
    return !sleeper_.load(std::memory_order_relaxed) && lease_.held(now);
  }
  [[nodiscard]] int receive_for(CompletionChannel& channel, CompletionQueue*& cq);

  // While there is traffic the helper looks up this often, so that posting need not wake it for
  // every timer.
  [[nodiscard]] Duration tick() const { return 2 * lease_.full(); }
  [[nodiscard]] Time helper_pass(Time now, ProgressWorld::Ready ready);
  [[nodiscard]] bool helper_receive(Time now, link::ReadyFds ready) VERBENA_REQUIRES(lock_);
  void helper_spin();
  // Takes the lock itself.
  void tell_troubles() VERBENA_NO_THREAD_SAFETY { work_.tell_troubles(); }

  EngineLock& lock_;
  ProgressWorld& world_;
  ProgressWork& work_ VERBENA_GUARDED_BY(lock_);
  ProgressCounters counters_ VERBENA_GUARDED_BY(lock_);
  uint32_t poll_round_ VERBENA_GUARDED_BY(lock_) = 0;
  // Looks that need neither the clock nor the system, before one that looks at everything.
  uint32_t cheap_looks_ VERBENA_GUARDED_BY(lock_) = 0;
  // Batches that put their ACKs off for the next; of a program that polls, since then.
  uint32_t batches_unacked_ VERBENA_GUARDED_BY(lock_) = 0;
  Time acks_held_since_ VERBENA_GUARDED_BY(lock_) = 0;

  // Between pollers and the helper; relaxed: hints that the next pass corrects.
  PollLease lease_;
  std::atomic<bool> sleeper_{false};  // a queue was armed since the last completion was published
  HelperAlarm alarm_;                 // and the thread in wait() that receives
  std::atomic<uint32_t> bystanders_{0};   // other threads in wait()
  std::atomic<Time> waiter_received_{0};  // when a thread in wait() last did
  std::atomic<bool> helper_watching_{false};
  std::atomic<bool> stopping_{false};
  Time last_activity_ VERBENA_GUARDED_BY(lock_) = 0;
  Duration stall_wait_ = 0;  // the helper's pause while a receiver has no room
  bool polling_ VERBENA_GUARDED_BY(lock_) = false;  // as the host was told
  // Bulk comes in so quickly that sleeping between two batches costs more than it saves. The
  // helper's.
  bool bulk_ = false;
};

}  // namespace verbena::device
