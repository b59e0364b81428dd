// SPDX-License-Identifier: Apache-2.0
// Who receives: a poller that finds its queue empty receives by itself and thereby takes a lease;
// while it lasts the helper leaves the sockets alone. A program may also poll and then wait in some
// other way (it spins on memory): its packets would lie until the lease ends. So there is a score:
// batches that the poller came for in time raise it, and packets that the helper had to fetch after
// a lease ran out lower it, eight times as much. A poller that was merely off its core for a moment
// keeps its lease; one that is usually elsewhere gets a shorter one, down to none. Without a lease
// a poller still receives what it comes for, beside the helper; having done so for a while, it gets
// a lease again, after a longer while with each time that it was lost.
//
// A queue that is armed says that somebody is about to sleep, and from then on nobody takes a
// lease: the helper must be there. But it need not be the poller who sleeps (UCX has a thread that
// waits for datagrams, which hardly ever come): who looks again and again all the same is awake.
//
// One thread at a time (the engine's lock), but for what is marked.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace verbena::device {

class PollLease {
 public:
  // On a machine as they are; where a look at the sockets takes long (a guest without hardware
  // help) it is longer, or work on one packet would outlast it.
  static constexpr Duration kFull = 500 * kMicrosecond;
  static constexpr Duration kLongestFull = 20 * kMillisecond;
  // Any thread.
  [[nodiscard]] Duration full() const { return full_.load(std::memory_order_relaxed); }
  // How long one look took that found nothing. The shortest counts: in a long one we were off the
  // core.
  void on_empty_look(Duration took) {
    constexpr int64_t kLooksPerLease = 500;
    look_ = look_ == 0 ? took : std::min(took, look_ + look_ / 16 + 1);
    const Duration longest = std::clamp(kLooksPerLease * look_, kFull, kLongestFull);
    if (length_.load(std::memory_order_relaxed) == full()) {
      length_.store(longest, std::memory_order_relaxed);
    }
    full_.store(longest, std::memory_order_relaxed);
  }
  // Any thread.
  [[nodiscard]] bool held(Time now) const { return now < end(); }
  // When it runs out; past when there is none. Any thread.
  [[nodiscard]] Time end() const {
    return polled_.load(std::memory_order_relaxed) + length_.load(std::memory_order_relaxed);
  }
  // When a poller last received. Any thread.
  [[nodiscard]] Time received() const { return received_.load(std::memory_order_relaxed); }
  // It found completions without us: it will be back. Any thread.
  void extend(Time now) {
    if (held(now)) polled_.store(now, std::memory_order_relaxed);
  }
  // Somebody posted, which may take longer than the lease. It need not be the poller: while many
  // threads post, that one may be off its core for long. So posts alone keep a lease for a while
  // only.
  void on_post(Time now) {
    constexpr int64_t kLeasesByPosts = 20;
    if (is_recent(now) && now - received() < kLeasesByPosts * full()) {
      polled_.store(now, std::memory_order_relaxed);
    }
  }
  // Its program is about to sleep. Any thread.
  void give_up() { polled_.store(0, std::memory_order_relaxed); }
  // A queue was armed: looks are counted from here. Any thread.
  void on_armed() { looks_.store(0, std::memory_order_relaxed); }
  // A look while a queue is armed; whether there were so many, one right after the other, that the
  // one who looks does not sleep. A program that is about to looks once or twice more.
  [[nodiscard]] bool on_look_while_armed(Time now) {
    constexpr Duration kApart = 50 * kMicrosecond;
    constexpr uint32_t kAwake = 64;
    const uint32_t before = now - looked_ < kApart ? looks_.load(std::memory_order_relaxed) : 0;
    looked_ = now;
    looks_.store(before + 1, std::memory_order_relaxed);
    return before + 1 >= kAwake;
  }

  void on_poll(Time now) {
    received_.store(now, std::memory_order_relaxed);
    polled_.store(now, std::memory_order_relaxed);
  }
  // The poller brought packets, and has worked on them until now.
  void on_batch(Time now) {
    polled_.store(now, std::memory_order_relaxed);
    if (score_ < kMostScore) ++score_;
    const Duration length = length_.load(std::memory_order_relaxed);
    if (length >= full()) {
      if (score_ == kMostScore) trial_ = kFirstTrial;
    } else if (++in_time_ >= trial_) {
      change(length == 0 ? least() : std::min(2 * length, full()));
    }
  }
  // The helper found packets waiting.
  void on_late(Time now) {
    const Duration length = length_.load(std::memory_order_relaxed);
    if (!is_recent(now)) return;  // that one has not taken a lease for these
    in_time_ = 0;
    score_ -= kLate;
    if (score_ >= 0) return;
    change(length / 2 < least() ? 0 : length / 2);
    trial_ = std::min(2 * trial_, kLongestTrial);
  }

 private:
  static constexpr int32_t kMostScore = 64;
  static constexpr int32_t kNewScore = 16;
  static constexpr int32_t kLate = 8;
  static constexpr uint32_t kFirstTrial = 16;  // batches
  static constexpr uint32_t kLongestTrial = 4096;

  [[nodiscard]] bool is_recent(Time now) const {
    return now - polled_.load(std::memory_order_relaxed) <
           4 * length_.load(std::memory_order_relaxed);
  }
  // Shorter ones end while a batch is worked on.
  [[nodiscard]] Duration least() const { return full() / 4; }
  void change(Duration length) {
    length_.store(length, std::memory_order_relaxed);
    score_ = kNewScore;
    in_time_ = 0;
  }

  // Read by anyone; relaxed: hints that the next look corrects.
  std::atomic<Time> polled_{0};
  std::atomic<Duration> length_{kFull};
  std::atomic<Duration> full_{kFull};
  std::atomic<uint32_t> looks_{0};  // since a queue was armed
  std::atomic<Time> received_{0};   // when the poller last did
  Time looked_ = 0;                 // the last of them
  Duration look_ = 0;
  int32_t score_ = kNewScore;
  uint32_t in_time_ = 0;  // batches, since the lease changed or was late
  uint32_t trial_ = kFirstTrial;
};

}  // namespace verbena::device
