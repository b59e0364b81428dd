// SPDX-License-Identifier: Apache-2.0
#include "emulated_link/bottleneck.h"

#include <algorithm>

namespace verbena::emulated {
namespace {

constexpr int64_t kPsPerNs = 1'000;
constexpr uint64_t kBitPsPerBytePerSecond = 8'000'000'000'000;

}  // namespace

Bottleneck::Bottleneck(const Impairments& impairments, uint64_t seed)
    : impairments_(impairments), random_(seed) {
  if (impairments.rate_bps != 0) {
    ps_per_byte_ = static_cast<int64_t>(kBitPsPerBytePerSecond / impairments.rate_bps);
  }
}

uint64_t Bottleneck::queued_bytes(int64_t now_ps) const {
  if (ps_per_byte_ == 0 || idle_at_ps_ <= now_ps) return 0;
  return static_cast<uint64_t>((idle_at_ps_ - now_ps + ps_per_byte_ - 1) / ps_per_byte_);
}

Duration Bottleneck::extra_delay() {
  Duration extra = 0;
  if (impairments_.jitter > 0) {
    extra += static_cast<Duration>(random_.below(static_cast<uint64_t>(impairments_.jitter) + 1));
  }
  if (impairments_.reorder_ppm != 0 && random_.chance_ppm(impairments_.reorder_ppm)) {
    ++counters_.reordered;
    extra += impairments_.reorder_by;
  }
  return extra;
}

Passage Bottleneck::enter(Time now, uint32_t bytes, bool ect) {
  const int64_t now_ps = now * kPsPerNs;
  const uint64_t queued = queued_bytes(now_ps);
  ++counters_.packets;
  counters_.bytes += bytes;
  counters_.max_packet_bytes = std::max<uint64_t>(counters_.max_packet_bytes, bytes);
  counters_.sum_queue_bytes += queued;
  if (impairments_.carried_bytes != 0 && bytes > impairments_.carried_bytes) {
    ++counters_.too_large;
    return {.fate = Fate::kTooLarge};
  }
  // An idle link takes any packet: a queue shorter than one would let nothing through.
  if (queued > 0 && queued + bytes > impairments_.queue_bytes) {
    ++counters_.dropped;
    return {.fate = Fate::kDropped};
  }
  if (ps_per_byte_ != 0) {
    counters_.max_queue_bytes = std::max(counters_.max_queue_bytes, queued + bytes);
  }
  idle_at_ps_ = std::max(idle_at_ps_, now_ps) + bytes * ps_per_byte_;
  if (impairments_.loss_ppm != 0 && random_.chance_ppm(impairments_.loss_ppm)) {
    ++counters_.lost;
    return {.fate = Fate::kLost};
  }
  const bool mark = ect && impairments_.mark_bytes != 0 && queued > impairments_.mark_bytes;
  counters_.marked += mark ? 1 : 0;
  return {.fate = Fate::kLeaves,
          .due = idle_at_ps_ / kPsPerNs + impairments_.delay + extra_delay(),
          .mark = mark};
}

}  // namespace verbena::emulated
