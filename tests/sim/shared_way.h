// SPDX-License-Identifier: Apache-2.0
// Hosts whose data goes through one queue (link/simulated_queue.h), some of them ours, some a model
// of TCP, for so many seconds of virtual time; and what came of it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "transport/types.h"

namespace verbena::sim {

struct SharedWay {
  uint64_t bits_per_second = 100'000'000;
  Duration round_trip = 10 * kMillisecond;  // of an empty way
  double queue_bdp = 1;                     // in products of rate and round trip
  double red_from_bdp = 0;                  // RED marks or drops from here on; 0: no RED
  bool ecn = true;                          // false: RED drops what it would mark
  uint32_t loss_ppm = 0;
  uint32_t late_ppm = 0;  // packets that come up to late_by later than others, which overtake them
  Duration late_by = kMillisecond;

  uint32_t hosts = 1;  // pairs of ours
  uint32_t qps = 1;    // of each pair
  transport::SendOp op = transport::SendOp::kWrite;
  uint32_t message_bytes = 64 << 10;
  transport::Mtu mtu = transport::Mtu::k1024;
  bool peer_holds = true;  // false: it only goes back, as the standard has it
  uint32_t tcp_flows = 0;
  uint32_t bbr_flows = 0;

  Duration warm_up = 2 * kSecond;  // not looked at
  Duration measured = 8 * kSecond;

  [[nodiscard]] double bdp_bytes() const {
    return static_cast<double>(bits_per_second) / 8 * static_cast<double>(round_trip) /
           static_cast<double>(kSecond);
  }
};

struct WayFigures {
  std::vector<double> hosts;  // payload of each pair, as a share of what the way carries
  std::vector<double> tcp;    // of each TCP flow, those with BBR last
  double resends = 0;         // of our packets with payload
  double queue_mean_bdp = 0;
  double queue_most_bdp = 0;
  uint64_t failed = 0;  // work requests

  [[nodiscard]] double ours() const;
  [[nodiscard]] double others() const;
  [[nodiscard]] double total() const { return ours() + others(); }
};

// Jain's index: 1 when all have the same, 1/n when one has all.
[[nodiscard]] double jain(const std::vector<double>& shares);

[[nodiscard]] WayFigures run_shared_way(const SharedWay& what, uint64_t seed);

}  // namespace verbena::sim
