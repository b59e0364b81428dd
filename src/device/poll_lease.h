// SPDX-License-Identifier: Apache-2.0
// Who receives: a poller that finds its queue empty receives by itself and thereby takes a lease;
// while it lasts the helper leaves the sockets alone. A program may also poll and then wait in some
// other way (it spins on memory): its packets would lie until the lease ends. So there is a score:
// batches that the poller came for in time raise it, and packets that the helper had to fetch after
// a lease ran out lower it, eight times as much. A poller that was merely off its core for a moment
// keeps its lease; one that is usually elsewhere gets a shorter one, down to none. Steady polling
// earns it again, after a longer time with each time that it was lost.
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
  static constexpr Duration kFull = 500 * kMicrosecond;
  static constexpr Duration kLeast = kFull / 4;  // shorter ones end while a batch is worked on
  // Polls that quickly one after the other are those of a program that does nothing else.
  static constexpr Duration kSteadyGap = 20 * kMicrosecond;
  static constexpr Duration kFirstTrial = 200 * kMicrosecond;
  static constexpr Duration kLongestTrial = 50 * kMillisecond;

  // Any thread.
  [[nodiscard]] bool held(Time now) const { return now < end(); }
  // When it runs out; past when there is none. Any thread.
  [[nodiscard]] Time end() const {
    return polled_.load(std::memory_order_relaxed) + length_.load(std::memory_order_relaxed);
  }
  // It found completions without us: it will be back. Any thread.
  void extend(Time now) {
    if (held(now)) polled_.store(now, std::memory_order_relaxed);
  }
  // It posted, which may take longer than the lease.
  void on_post(Time now) {
    if (is_recent(now)) polled_.store(now, std::memory_order_relaxed);
  }
  // Its program is about to sleep. Any thread.
  void give_up() { polled_.store(0, std::memory_order_relaxed); }

  // A poll; whether it may receive.
  [[nodiscard]] bool on_poll(Time now) {
    const Duration gap = now - polled_.load(std::memory_order_relaxed);
    polled_.store(now, std::memory_order_relaxed);
    const Duration length = length_.load(std::memory_order_relaxed);
    if (length == kFull) return true;
    steady_ = gap < kSteadyGap ? steady_ + gap : std::max<Duration>(steady_ - gap, 0);
    if (steady_ >= trial_) change(length == 0 ? kLeast : 2 * length);
    return length != 0;
  }
  // The poller brought packets, and has worked on them until now.
  void on_batch(Time now) {
    polled_.store(now, std::memory_order_relaxed);
    if (++score_ < kMostScore) return;
    score_ = kMostScore;
    trial_ = kFirstTrial;
  }
  // The helper found packets waiting.
  void on_late(Time now) {
    const Duration length = length_.load(std::memory_order_relaxed);
    if (!is_recent(now)) return;  // that one has not taken a lease for these
    score_ -= kLate;
    if (score_ >= 0) return;
    change(length / 2 < kLeast ? 0 : length / 2);
    trial_ = std::min(2 * trial_, kLongestTrial);
  }

 private:
  static constexpr int32_t kMostScore = 64;
  static constexpr int32_t kNewScore = 16;
  static constexpr int32_t kLate = 8;

  [[nodiscard]] bool is_recent(Time now) const {
    return now - polled_.load(std::memory_order_relaxed) <
           4 * length_.load(std::memory_order_relaxed);
  }
  void change(Duration length) {
    length_.store(length, std::memory_order_relaxed);
    score_ = kNewScore;
    steady_ = 0;
  }

  // Read by anyone; relaxed: hints that the next look corrects.
  std::atomic<Time> polled_{0};
  std::atomic<Duration> length_{kFull};
  int32_t score_ = kNewScore;
  Duration steady_ = 0;  // time of steady polling, less that of other things
  Duration trial_ = kFirstTrial;
};

}  // namespace verbena::device
