// SPDX-License-Identifier: Apache-2.0
#include "link/simulated_queue.h"

#include <algorithm>

#include "base/endian.h"
#include "wire/network.h"

namespace verbena::link {
namespace {

constexpr size_t kIpAt = wire::EthernetHeader::kBytes;

[[nodiscard]] bool is_ip(std::span<const uint8_t> frame, uint16_t ethertype, uint32_t header) {
  return frame.size() >= kIpAt + header && load_be16(frame.data() + 12) == ethertype;
}

}  // namespace

uint64_t SimulatedQueue::length_bytes(Time now) const {
  if (free_at_ <= now) return 0;
  return static_cast<uint64_t>(free_at_ - now) * options_.bits_per_second / (8 * kSecond);
}

bool SimulatedQueue::is_singled_out(uint64_t length) {
  if (options_.red_from_bytes == 0 || length < options_.red_from_bytes) return false;
  if (length >= options_.red_all_from_bytes) return true;
  const uint64_t span = options_.red_all_from_bytes - options_.red_from_bytes;
  return random_.below(span) < length - options_.red_from_bytes;
}

SimulatedQueue::Passage SimulatedQueue::pass(uint64_t bytes, bool can_be_marked, Time now) {
  const uint64_t length = length_bytes(now);
  figures_.longest_bytes = std::max(figures_.longest_bytes, length);
  figures_.byte_seconds += static_cast<double>(length) * static_cast<double>(now - looked_at_) /
                           static_cast<double>(kSecond);
  looked_at_ = now;
  ++figures_.frames;
  Passage passage;
  const bool full = length + bytes > options_.queue_bytes;
  const bool singled_out = !full && is_singled_out(length);
  passage.marked = singled_out && can_be_marked && options_.marks;
  passage.dropped = full || (singled_out && !passage.marked);
  if (passage.marked) ++figures_.marked;
  if (passage.dropped) {
    ++figures_.dropped;
    if (!full) ++figures_.dropped_early;
    return passage;
  }
  figures_.bytes += bytes;
  free_at_ = std::max(now, free_at_) + options_.time_of(bytes);
  passage.arrival = free_at_ + options_.delay;
  return passage;
}

double SimulatedQueue::mean_bytes(Time now) const {
  return now <= figures_.since ? 0
                               : figures_.byte_seconds * static_cast<double>(kSecond) /
                                     static_cast<double>(now - figures_.since);
}

void SimulatedQueue::reset_figures(Time now) {
  figures_ = {};
  figures_.since = looked_at_ = now;
}

bool can_be_marked(std::span<const uint8_t> frame) {
  uint32_t ecn = 0;
  if (is_ip(frame, wire::kEthertypeIpv4, wire::Ipv4Header::kBytes)) {
    ecn = frame[kIpAt + 1] & 3;
  } else if (is_ip(frame, wire::kEthertypeIpv6, wire::Ipv6Header::kBytes)) {
    ecn = frame[kIpAt + 1] >> 4 & 3;
  }
  return ecn != 0;
}

void mark_congestion(std::span<uint8_t> frame) {
  if (is_ip(frame, wire::kEthertypeIpv4, wire::Ipv4Header::kBytes)) {
    uint8_t* const ip = frame.data() + kIpAt;
    ip[1] |= 3;
    store_be16(ip + 10, 0);
    store_be16(ip + 10, wire::ipv4_checksum(ip));
  } else if (is_ip(frame, wire::kEthertypeIpv6, wire::Ipv6Header::kBytes)) {
    frame[kIpAt + 1] |= 0x30;
  }
}

}  // namespace verbena::link
