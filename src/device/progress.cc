// SPDX-License-Identifier: Apache-2.0
// Threads of the program that poll, post and arm.
#include "device/progress.h"

#include <algorithm>

namespace verbena::device {
namespace {

// How often the poller's look is timed; odd, so that it is mostly one of the own family.
constexpr uint32_t kTimedLookEvery = 63;
// A program that polls without pause looks at timers and sockets every so often: so many looks come
// within kSoon.
constexpr uint32_t kCheapLooks = 15;
constexpr Duration kSoon = 5 * kMicrosecond;

}  // namespace

void Progress::poll() {
  if (!lock_.try_in_passing()) return lock_.pass_by();
  const EngineHeld held(lock_, std::adopt_lock);
  if (cheap_looks_ != 0 && work_.is_quiet() && !sleeper_.load(std::memory_order_relaxed)) {
    --cheap_looks_;
    return;
  }
  const Time now = world_.clock();
  if (sleeper_.load(std::memory_order_relaxed) && lease_.on_look_while_armed(now)) {
    sleeper_.store(false, std::memory_order_relaxed);
  }
  cheap_looks_ = 0;
  if (!sleeper_.load(std::memory_order_relaxed)) {
    if (now - lease_.received() < kSoon) cheap_looks_ = kCheapLooks;
    lease_.on_poll(now);
    if (!polling_) {
      polling_ = true;
      work_.set_polling(true);
    }
  }
  const ProgressWork::Looked looked = work_.look(now);
  if (looked.pieces == 0) {
    if (++poll_round_ % kTimedLookEvery == 0) lease_.on_empty_look(world_.clock() - now);
    if (looked.owed_acks || looked.has_work) settle(now);
    return;
  }
  ++counters_.poller_batches;
  last_activity_ = now;
  settle_received(now, looked.owed_acks);
  if (!sleeper_.load(std::memory_order_relaxed)) {
    // A few take no time that matters, but to read the clock does.
    constexpr size_t kFew = 2;
    lease_.on_batch(looked.pieces <= kFew ? now : world_.clock());
  }
  // Should this program not come back: timers, and ACKs that are held.
  const Time lease_end = std::max(lease_.end(), now);
  have_helper_by(work_.owes_acks() ? lease_end : std::max(work_.next_deadline(), lease_end));
}

void Progress::armed() {
  lease_.on_armed();
  sleeper_.store(true, std::memory_order_seq_cst);
  // The helper must watch the sockets from now on, unless a thread in wait() does.
  if (!helper_watching_.load(std::memory_order_seq_cst) && !alarm_.waited(world_.clock())) {
    lease_.give_up();
    world_.wake_helper();
  }
}

void Progress::finish(Time now) {
  lock_.assert_held();
  settle(now);
  last_activity_ = now;
  // The helper sleeps until something due; make sure that this is soon enough.
  // While somebody polls, the helper need only come when that ends.
  Time deadline = work_.next_deadline();
  if (!sleeper_.load(std::memory_order_relaxed)) {
    lease_.on_post(now);
    if (lease_.held(now)) deadline = std::max(deadline, lease_.end());
  }
  have_helper_by(deadline);
}

void Progress::settle(Time now, Acks acks) {
  lock_.assert_held();
  if (acks == Acks::kSend) batches_unacked_ = 0;
  work_.settle(now, acks);
}

void Progress::settle_received(Time now, bool held) {
  // A program that takes one message after the other gives no answer to each: they share an ACK,
  // as long as it takes them quickly.
  constexpr uint32_t kBatchesPerAck = 8;
  constexpr Duration kHeldAtMost = 30 * kMicrosecond;
  if (!held) acks_held_since_ = now;
  if (!work_.has_completions()) return settle(now, acks_of_batch());
  const bool hold = ++batches_unacked_ < kBatchesPerAck && now - acks_held_since_ < kHeldAtMost;
  settle(now, hold ? Acks::kHold : Acks::kSend);
}

Acks Progress::acks_of_batch() {
  // So much lies in a receive buffer at once; whoever sends it may send more in the meantime.
  constexpr uint32_t kBatchesPerAck = 4;
  const bool more_likely = work_.expects_more() && ++batches_unacked_ < kBatchesPerAck;
  return more_likely ? Acks::kHold : Acks::kSend;
}

}  // namespace verbena::device
