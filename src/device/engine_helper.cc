// SPDX-License-Identifier: Apache-2.0
// The engine's helper thread: it makes progress when no program's thread does, keeps the timers,
// and answers other members of the host. Idle, it sleeps in the kernel without a timeout.
#include <algorithm>
#include <array>
#include <csignal>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/relax.h"
#include "device/engine.h"

namespace verbena::device {
namespace {

// A pass that brought as many packets is part of something large.
constexpr uint64_t kBulkPackets = 8;
constexpr Duration kSpin = 20 * kMicrosecond;
constexpr Duration kFirstStall = 10 * kMicrosecond;
constexpr Duration kActiveFor = 20 * kMillisecond;

// As the kernel's uapi/linux/sched/types.h has it; glibc has no wrapper.
struct SchedAttr {
  uint32_t size;
  uint32_t sched_policy;
  uint64_t sched_flags;
  int32_t sched_nice;
  uint32_t sched_priority;
  uint64_t sched_runtime;  // for SCHED_OTHER: the slice asked for
  uint64_t sched_deadline;
  uint64_t sched_period;
};

// A short slice means to be scheduled sooner after waking, beside programs that spin. Refusal is
// fine.
void ask_for_short_slice() {
  SchedAttr attr{};
  attr.size = sizeof attr;
  attr.sched_policy = SCHED_OTHER;
  attr.sched_runtime = 100'000;
  (void)::syscall(SYS_sched_setattr, 0, &attr, 0);
}

}  // namespace

// One look at everything; gives the moment by which another is needed.
Time Engine::helper_pass(Time now) {
  lock_first();
  const std::lock_guard lock(mutex_, std::adopt_lock);
  ++counters_.helper_wakeups;
  const bool by_poller = leased(now);
  const bool by_waiter = alarm_.waited(now);
  const bool served = by_poller || by_waiter;
  if (polling_ && !by_poller) {
    polling_ = false;
    link_->set_polling(false);
  }
  link_->on_ready(now);
  if (const uint32_t changes = link_->address_changes(); changes != seen_address_changes_) {
    seen_address_changes_ = changes;
    router_.on_addresses_changed();
  }
  size_t got = 0;
  if (!served) {
    // Only who receives afterwards: a thread that sleeps on the same bell would sleep on.
    link_->woke();
    const uint64_t packets_before = link_->receive_counters().packets;
    size_t batch = 0;
    // Bounded: others want the lock too.
    for (int i = 0; i < 16 && (batch = link_->receive(link::Look::kAll, now)) > 0; ++i) {
      got += batch;
      settle(clock(), acks_of_batch());
    }
    if (got != 0) {
      ++counters_.helper_batches;
      last_activity_ = now;
      bulk_ = link_->receive_counters().packets - packets_before >= kBulkPackets;
      lease_.on_late(now);
    }
  }
  settle(now);
  helper_watching_.store(!served, std::memory_order_relaxed);
  note_troubles(now);
  Time until = next_deadline();
  // A poller sees to its own timers.
  if (by_poller) until = lease_.end();
  if (until != kNever) until = std::max(until, now);
  // Something wants to be sent and cannot (a receiver has no room): look again, but not without
  // pause. What was merely more than one turn goes on at once.
  const bool stuck = until <= now && got == 0 && stalled_;
  stall_wait_ = stuck ? std::min(2 * stall_wait_, tick()) : kFirstStall;
  if (stuck) until = now + stall_wait_;
  until = std::min(until, silent_error_.look_at);
  if (now - last_activity_ < kActiveFor) until = std::min(until, now + tick());
  // What came since the last look is not slept over.
  if (!served && !link_->prepare_sleep()) until = now;
  // A waiter that left and does not come back is noticed.
  return alarm_.set(until, by_waiter, now + tick());
}

// Bulk is coming in: goes on looking for a moment, so that whoever sends it need not wake us for
// each batch.
void Engine::helper_spin() {
  bulk_ = false;
  const Time begin = clock();
  for (Time now = begin, last = begin; now - last < kSpin && now - begin < tick(); now = clock()) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      cpu_relax();
      continue;
    }
    if (leased(now) || alarm_.waited(now) || stopping_.load(std::memory_order_relaxed)) return;
    if (link_->receive(link::Look::kLikely, now) > 0) {
      settle(now, acks_of_batch());
      last = now;
    } else if (endpoint_->owes_acks() || has_work(now)) {
      settle(now);
    }
  }
}

void Engine::helper_sleep(Time until, bool watch_sockets) {
  const Duration timeout = until == kNever ? kNever : std::max<Duration>(until - clock(), 0);
  std::array<epoll_event, 4> room;
  const int epoll = watch_sockets ? epoll_all_.get() : epoll_control_.get();
  for (const epoll_event& event : helper_epoll_.wait(epoll, room, timeout)) {
    if (event.data.fd != wake_.get()) continue;
    uint64_t count = 0;
    (void)!::read(wake_.get(), &count, sizeof count);
  }
}

void Engine::helper_main() {
  // A guest in somebody else's process: its signals are not ours.
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  ::pthread_setname_np(::pthread_self(), "verbena");
  ask_for_short_slice();
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Time until = helper_pass(clock());
    if (notices_.pending()) write_notices();
    if (bulk_) {
      helper_spin();
      continue;
    }
    helper_sleep(until, helper_watching_.load(std::memory_order_relaxed));
  }
}

}  // namespace verbena::device
