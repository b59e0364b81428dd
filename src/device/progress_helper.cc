// SPDX-License-Identifier: Apache-2.0
// The helper: it makes progress when no program's thread does, keeps the timers, and answers other
// members of the host. Idle, it sleeps in the kernel without a timeout.
#include <algorithm>
#include <utility>

#include "base/relax.h"
#include "device/progress.h"

namespace verbena::device {
namespace {

// A pass that brought as many packets is part of something large.
constexpr uint64_t kBulkPackets = 8;
constexpr Duration kSpin = 20 * kMicrosecond;
constexpr Duration kFirstStall = 10 * kMicrosecond;
constexpr Duration kActiveFor = 20 * kMillisecond;

}  // namespace

// Takes what is there; whether something was. Only who receives may silence the bell: it may have
// been rung for a thread in wait(), which sleeps on it as well.
bool Progress::helper_receive(Time now, link::ReadyFds ready) {
  work_.woke(ready);
  const uint64_t packets_before = work_.packets_received();
  size_t got = 0;
  size_t batch = 0;
  // Bounded: others want the lock too. What a batch brings is not older than what was sent before
  // it, or round trips would seem shorter than they are.
  Time at = now;
  for (int i = 0; i < 16; ++i) {
    batch = i == 0 ? work_.receive_ready(ready, at) : work_.receive(link::Look::kAll, at);
    if (batch == 0) break;
    got += batch;
    at = world_.clock();
    settle(at, acks_of_batch());
    if (!work_.may_have_left()) break;
  }
  if (got == 0) return false;
  ++counters_.helper_batches;
  last_activity_ = now;
  bulk_ = work_.packets_received() - packets_before >= kBulkPackets;
  lease_.on_late(now);
  return true;
}

// One look at everything; gives the moment by which another is needed.
Time Progress::helper_pass(Time now, ProgressWorld::Ready ready) {
  const EngineHeldFirst held(lock_);
  ++counters_.helper_wakeups;
  const bool by_poller = leased(now);
  const bool by_waiter = alarm_.waited(now);
  const bool served = by_poller || by_waiter;
  if (polling_ && !by_poller) {
    polling_ = false;
    work_.set_polling(false);
  }
  work_.on_ready(now, ready.control);
  const bool received = !served && helper_receive(now, ready.packets);
  settle(now);
  helper_watching_.store(!served, std::memory_order_seq_cst);
  const Time next_trouble = work_.note_troubles(now);
  Time until = work_.next_deadline();
  // A poller sees to its own timers.
  if (by_poller) until = lease_.end();
  if (until != kNever) until = std::max(until, now);
  // Something wants to be sent and cannot (a receiver has no room): look again, but not without
  // pause. What was merely more than one turn goes on at once.
  const bool stuck = until <= now && !received && work_.is_stalled();
  stall_wait_ = stuck ? std::min(2 * stall_wait_, tick()) : kFirstStall;
  if (stuck) until = now + stall_wait_;
  until = std::min(until, next_trouble);
  if (now - last_activity_ < kActiveFor) until = std::min(until, now + tick());
  // What came since the last look is not slept over.
  if (!served && !work_.prepare_sleep()) until = now;
  // Pairs with armed(): either it sees that we do not watch, or we see that its program is about to
  // sleep and does not poll.
  if (by_poller && sleeper_.load(std::memory_order_seq_cst)) until = now;
  // A waiter that left and does not come back is noticed.
  return alarm_.set(until, by_waiter, now + tick());
}

// Bulk is coming in: goes on looking for a moment, so that whoever sends it need not wake us for
// each batch.
void Progress::helper_spin() {
  bulk_ = false;
  const Time begin = world_.clock();
  for (Time now = begin, last = begin; now - last < kSpin && now - begin < tick();
       now = world_.clock()) {
    if (!lock_.try_now()) {
      cpu_relax();
      continue;
    }
    const EngineHeld held(lock_, std::adopt_lock);
    if (leased(now) || alarm_.waited(now) || stopping_.load(std::memory_order_relaxed)) return;
    if (work_.receive(link::Look::kLikely, now) > 0) {
      settle(now, acks_of_batch());
      last = now;
    } else if (work_.owes_acks() || work_.has_work(now)) {
      settle(now);
    }
  }
}

void Progress::run_helper() {
  ProgressWorld::Ready ready;
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Time until = helper_pass(world_.clock(), std::exchange(ready, {}));
    tell_troubles();
    if (bulk_) {
      helper_spin();
      continue;
    }
    const bool watches = helper_watching_.load(std::memory_order_relaxed);
    ready = world_.sleep_helper(
        until, watches ? ProgressWorld::Wakes::kPackets : ProgressWorld::Wakes::kControl);
  }
}

}  // namespace verbena::device
