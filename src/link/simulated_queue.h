// SPDX-License-Identifier: Apache-2.0
// The way out of a router, one direction of a link that several flows share: a rate, a propagation
// delay, and a queue of so many bytes in front of it. What finds no room is dropped (drop-tail);
// what finds a long queue may be marked or dropped early (RED, RFC 2309): marked if it says that it
// can be (RFC 3168), else dropped, with the same probability. It goes by the length that a frame
// finds, without RED's average over time. Frames leave in the order they came, so when one leaves
// is known when it comes: nothing is kept here but the moment the link is free.
//
// One thread; time never goes back from one call to the next.
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"
#include "base/time.h"

namespace verbena::link {

struct QueueOptions {
  uint64_t bits_per_second = 100'000'000;
  Duration delay = 5 * kMillisecond;  // one way
  uint64_t queue_bytes = 125'000;
  // RED: from the one length on some are marked or dropped, from the other on all. 0: none.
  uint64_t red_from_bytes = 0;
  uint64_t red_all_from_bytes = 0;
  bool marks = true;  // false: a router without ECN, which drops what it would mark

  [[nodiscard]] Duration time_of(uint64_t bytes) const {
    return static_cast<Duration>(bytes * 8 * kSecond / bits_per_second);
  }
};

class SimulatedQueue {
 public:
  struct Passage {
    bool dropped = false;
    bool marked = false;
    Time arrival = 0;  // at the far end
  };
  struct Figures {
    uint64_t frames = 0;
    uint64_t bytes = 0;  // of what was not dropped
    uint64_t dropped = 0;
    uint64_t dropped_early = 0;  // of those, by RED
    uint64_t marked = 0;
    uint64_t longest_bytes = 0;
    double byte_seconds = 0;  // the length of the queue, as found by frames, over time
    Time since = 0;
  };

  SimulatedQueue(const QueueOptions& options, RandomSource& random)
      : options_(options), random_(random) {}

  [[nodiscard]] Passage pass(uint64_t bytes, bool can_be_marked, Time now);
  // What waits or is on its way out.
  [[nodiscard]] uint64_t length_bytes(Time now) const;
  [[nodiscard]] const QueueOptions& options() const { return options_; }
  [[nodiscard]] const Figures& figures() const { return figures_; }
  [[nodiscard]] double mean_bytes(Time now) const;
  void reset_figures(Time now);

 private:
  // By RED, of a frame that finds so much.
  [[nodiscard]] bool is_singled_out(uint64_t length);

  QueueOptions options_;
  RandomSource& random_;
  Time free_at_ = 0;
  Time looked_at_ = 0;
  Figures figures_;
};

// ECN of a frame (RFC 3168): whether a router may mark it, and the mark. Frames that are not IP
// cannot be marked.
[[nodiscard]] bool can_be_marked(std::span<const uint8_t> frame);
void mark_congestion(std::span<uint8_t> frame);

}  // namespace verbena::link
