// SPDX-License-Identifier: Apache-2.0
#include "emulated_link/relay.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include <poll.h>
#include <unistd.h>

#include "emulated_link/ecn.h"
#include "emulated_link/icmp.h"

namespace verbena::emulated {
namespace {

// Read at a time from one host, so that what is due to it does not wait for long.
constexpr int kBatch = 32;
constexpr size_t kSlotAlignment = 64;

// For what queue and delay can hold in packets of this size; if they are smaller, some wait in the
// kernel.
[[nodiscard]] uint32_t slots_for(const Relay::Both& impairments) {
  constexpr uint64_t kSmallBytes = 256;
  constexpr uint64_t kSpare = 65'536;
  uint64_t bytes = 0;
  for (const Impairments& one : impairments) {
    const Duration longest = one.delay + one.jitter + one.reorder_by;
    const auto under_way =
        static_cast<double>(one.rate_bps) / 8 * static_cast<double>(longest) / kSecond;
    bytes += one.queue_bytes + static_cast<uint64_t>(under_way);
  }
  return static_cast<uint32_t>(std::min<uint64_t>(bytes / kSmallBytes + kSpare, 1u << 23));
}

[[nodiscard]] Duration slack_for(const Relay::Both& impairments) {
  constexpr Duration kMost = 50 * kMicrosecond;
  return std::min(kMost, std::min(impairments[0].delay, impairments[1].delay) / 64);
}

[[nodiscard]] size_t slot_bytes_for(uint32_t mtu_bytes) {
  return (mtu_bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

}  // namespace

Relay::Relay(std::array<HostEnd, 2> ends, const Both& impairments, uint32_t mtu_bytes,
             uint64_t seed)
    : ends_(std::move(ends)),
      slack_(slack_for(impairments)),
      pool_(slots_for(impairments), slot_bytes_for(mtu_bytes)),
      directions_{Direction{.in = ends_[0].tun.get(),
                            .out = ends_[1].tun.get(),
                            .bottleneck = Bottleneck(impairments[0], 2 * seed),
                            .schedule = {},
                            .lateness = {}},
                  Direction{.in = ends_[1].tun.get(),
                            .out = ends_[0].tun.get(),
                            .bottleneck = Bottleneck(impairments[1], 2 * seed + 1),
                            .schedule = {},
                            .lateness = {}}} {}

Time Relay::now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  // The bottleneck counts in picoseconds: from the start of this process on there are enough.
  static const time_t start_s = time.tv_sec;
  return (time.tv_sec - start_s) * kSecond + time.tv_nsec;
}

void Relay::run(int control, Time until) {
  std::array<pollfd, 3> waited{pollfd{control, POLLIN, 0}, pollfd{directions_[0].in, POLLIN, 0},
                               pollfd{directions_[1].in, POLLIN, 0}};
  for (Time time = now(); time < until; time = now()) {
    const Time next =
        std::min({until, directions_[0].schedule.next_due(), directions_[1].schedule.next_due()});
    const Duration sleep = next <= time ? 0 : next - time + slack_;
    const timespec timeout{.tv_sec = sleep / kSecond, .tv_nsec = sleep % kSecond};
    if (::ppoll(waited.data(), waited.size(), &timeout, nullptr) < 0) return;
    for (size_t i = 0; i < directions_.size(); ++i) {
      deliver(directions_[i]);
      if (waited[i + 1].revents != 0) take(directions_[i]);
    }
    if (waited[0].revents != 0) return;
  }
}

void Relay::take(Direction& direction) {
  for (int i = 0; i < kBatch && !pool_.empty(); ++i) {
    const uint32_t slot = pool_.take();
    uint8_t* const data = pool_.at(slot);
    const ssize_t got = ::read(direction.in, data, pool_.slot_bytes());
    if (got <= 0) {
      pool_.give_back(slot);
      return;
    }
    const std::span<uint8_t> packet(data, static_cast<size_t>(got));
    const auto bytes = static_cast<uint32_t>(got);
    const Passage passage = direction.bottleneck.enter(now(), bytes, is_ect(packet));
    if (passage.fate == Fate::kTooLarge) tell(direction, packet);
    if (passage.fate != Fate::kLeaves) {
      pool_.give_back(slot);
      continue;
    }
    if (passage.mark) mark_ce(packet);
    direction.schedule.add({.due = passage.due, .slot = slot, .bytes = bytes});
  }
}

// Without the delay of the link: who tells is near.
void Relay::tell(Direction& direction, std::span<const uint8_t> packet) {
  const Impairments& link = direction.bottleneck.impairments();
  if (!link.tells || !wants_to_hear(packet)) return;
  const TooLargeMessage message = too_large(packet, static_cast<uint16_t>(link.carried_bytes));
  if (::write(direction.in, message.data(), message.size()) < 0) ++direction.refused;
}

void Relay::deliver(Direction& direction) {
  Time time = now();
  while (direction.schedule.next_due() <= time) {
    const UnderWay packet = direction.schedule.take();
    if (::write(direction.out, pool_.at(packet.slot), packet.bytes) < 0) ++direction.refused;
    pool_.give_back(packet.slot);
    const Duration late = time - packet.due;
    ++direction.lateness.packets;
    direction.lateness.sum += late;
    direction.lateness.max = std::max(direction.lateness.max, late);
    time = now();
  }
}

std::string Relay::report(size_t index) {
  Direction& direction = directions_[index];
  const BottleneckCounters& counters = direction.bottleneck.counters();
  const Lateness& lateness = direction.lateness;
  const uint64_t dropped = dropped_before(ends_[index]);
  const auto number = [](const char* name, uint64_t value) {
    return '"' + std::string(name) + "\": " + std::to_string(value) + ", ";
  };
  const uint64_t left = lateness.packets;
  std::string text = "{" + number("packets", counters.packets) + number("bytes", counters.bytes) +
                     number("max_packet_bytes", counters.max_packet_bytes) + number("left", left) +
                     number("dropped", counters.dropped) + number("lost", counters.lost) +
                     number("too_large", counters.too_large) + number("marked", counters.marked) +
                     number("reordered", counters.reordered) +
                     number("max_queue_bytes", counters.max_queue_bytes) +
                     number("mean_queue_bytes", counters.mean_queue_bytes()) +
                     number("dropped_before_link", dropped - direction.dropped_before) +
                     number("refused_by_host", direction.refused) +
                     number("max_late_us", static_cast<uint64_t>(lateness.max / kMicrosecond));
  const auto mean = left == 0 ? 0 : lateness.sum / static_cast<Duration>(left);
  text += "\"mean_late_us\": " + std::to_string(mean / kMicrosecond) + '}';
  direction.bottleneck.reset_counters();
  direction.lateness = {};
  direction.refused = 0;
  direction.dropped_before = dropped;
  return text;
}

std::string Relay::report() { return R"({"directions": [)" + report(0) + ", " + report(1) + "]}"; }

}  // namespace verbena::emulated
