// SPDX-License-Identifier: Apache-2.0
// One direction of an emulated link, without I/O: when a packet that enters now leaves at the other
// end, if it does. Time is an argument and randomness seeded, so that the same packets at the same
// times have the same fates.
//
//   enters -> [ queue, drop-tail, marks CE ] -> sent at the rate -> lost? -> delay, jitter ->
//   leaves
//
// The queue holds what was not yet sent, the packet being sent included. What is lost, is lost
// behind it and takes its time on the link.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "base/time.h"

namespace verbena::emulated {

struct Impairments {
  uint64_t rate_bps = 0;  // of IP packets, without a link layer's headers; 0: no bound, no queue
  Duration delay = 0;     // one way
  uint64_t queue_bytes = 1'000'000;
  uint64_t mark_bytes = 0;     // ECT packets that find more in the queue are marked; 0: never
  uint32_t carried_bytes = 0;  // larger packets are lost, before the queue; 0: none are
  bool tells = false;          // their senders are told (icmp.h)
  uint32_t loss_ppm = 0;
  uint32_t reorder_ppm = 0;  // the share that is delayed by reorder_by more than the others
  Duration reorder_by = kMillisecond;
  Duration jitter = 0;  // each packet is delayed by 0 to so much more; packets overtake others
};

struct BottleneckCounters {
  uint64_t packets = 0;  // that entered
  uint64_t bytes = 0;
  uint64_t max_packet_bytes = 0;
  uint64_t dropped = 0;  // the queue was full
  uint64_t lost = 0;
  uint64_t too_large = 0;
  uint64_t marked = 0;
  uint64_t reordered = 0;
  uint64_t max_queue_bytes = 0;
  uint64_t sum_queue_bytes = 0;  // what packets found in the queue

  [[nodiscard]] uint64_t mean_queue_bytes() const {
    return packets == 0 ? 0 : sum_queue_bytes / packets;
  }
};

enum class Fate : uint8_t { kLeaves, kDropped, kLost, kTooLarge };

struct Passage {
  Fate fate = Fate::kLeaves;
  Time due = 0;  // kLeaves: when it leaves
  bool mark = false;
};

class Bottleneck {
 public:
  Bottleneck(const Impairments& impairments, uint64_t seed);

  // A packet enters. `now` does not go back, and is less than 100 days.
  [[nodiscard]] Passage enter(Time now, uint32_t bytes, bool ect);
  [[nodiscard]] const Impairments& impairments() const { return impairments_; }
  [[nodiscard]] const BottleneckCounters& counters() const { return counters_; }
  void reset_counters() { counters_ = {}; }

 private:
  [[nodiscard]] uint64_t queued_bytes(int64_t now_ps) const;
  [[nodiscard]] Duration extra_delay();

  Impairments impairments_;
  SeededRandom random_;
  int64_t ps_per_byte_ = 0;
  int64_t idle_at_ps_ = 0;  // when all that entered is sent
  BottleneckCounters counters_;
};

}  // namespace verbena::emulated
