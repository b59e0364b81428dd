// SPDX-License-Identifier: Apache-2.0
#include "sim/congestion_table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>

#include "sim/shared_way.h"

namespace verbena::sim {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

struct Row {
  const char* name;
  SharedWay way;
  // What must hold; of the default, nothing.
  double total_least = 0;  // share of the way that is used, by us and TCP
  double total_most = kNoLimit;
  double ours_least = 0;
  double tcp_least = 0;  // share of the way that TCP flows have, together
  double resends_most = kNoLimit;
  double jain_least = 0;         // between our hosts
  double tcp_jain_least = 0;     // between TCP flows
  double queue_most = kNoLimit;  // mean, in BDP
};

[[nodiscard]] SharedWay way(uint64_t megabits, Duration round_trip, double queue_bdp,
                            uint32_t qps) {
  SharedWay way;
  way.bits_per_second = megabits * 1'000'000;
  way.round_trip = round_trip;
  way.queue_bdp = queue_bdp;
  way.qps = qps;
  return way;
}

[[nodiscard]] SharedWay with_tcp(SharedWay way, uint32_t flows) {
  way.tcp_flows = flows;
  way.warm_up = 5 * kSecond;
  way.measured = 20 * kSecond;
  return way;
}

[[nodiscard]] SharedWay tcp_alone(SharedWay way) {
  way.hosts = 0;
  return with_tcp(way, 1);
}

[[nodiscard]] SharedWay with_bbr(SharedWay way, uint32_t flows) {
  way = with_tcp(way, 0);
  way.bbr_flows = flows;
  return way;
}

[[nodiscard]] SharedWay bbr_alone(SharedWay way, uint32_t flows) {
  way.hosts = 0;
  return with_bbr(way, flows);
}

[[nodiscard]] SharedWay reads(SharedWay way) {
  way.op = transport::SendOp::kRead;
  return way;
}

[[nodiscard]] SharedWay with_hosts(SharedWay way, uint32_t hosts) {
  way.hosts = hosts;
  way.measured = 20 * kSecond;
  return way;
}

[[nodiscard]] SharedWay marking(SharedWay way, double from_bdp) {
  way.red_from_bdp = from_bdp;
  return way;
}

[[nodiscard]] SharedWay dropping_early(SharedWay way, double from_bdp) {
  way.red_from_bdp = from_bdp;
  way.ecn = false;
  return way;
}

[[nodiscard]] SharedWay goes_back(SharedWay way) {
  way.peer_holds = false;
  return way;
}

[[nodiscard]] SharedWay lossy(SharedWay way, uint32_t ppm) {
  way.loss_ppm = ppm;
  return way;
}

[[nodiscard]] SharedWay late(SharedWay way, uint32_t ppm) {
  way.late_ppm = ppm;
  return way;
}

// Of a way that loses or delays packets: what is lost is sent again, and nearly nothing else.
[[nodiscard]] Row repairs(const char* name, const SharedWay& way, double total_least,
                          double resends_most) {
  return {.name = name, .way = way, .total_least = total_least, .resends_most = resends_most};
}

// The way is full, and little of that is sent twice; TCP beside us keeps 0.4 of its fair share, and
// our hosts have as much as each other.
[[nodiscard]] Row fills(const char* name, const SharedWay& way) {
  const double others = way.tcp_flows + way.bbr_flows;
  const double flows = way.hosts + others;
  return {.name = name,
          .way = way,
          .total_least = 0.9,
          .tcp_least = 0.4 * others / flows,
          .resends_most = 0.02,
          .jain_least = 0.9};
}

// The same, and marks keep a queue that has room for four products short, with nothing lost.
[[nodiscard]] Row short_queue(const char* name, const SharedWay& way) {
  Row row = fills(name, way);
  row.queue_most = 0.5;
  row.resends_most = 0;
  return row;
}

// A quarter of the time: at 1 Gbit/s a second has ten times the packets.
[[nodiscard]] Row briefly(Row row) {
  row.way.warm_up /= 4;
  row.way.measured /= 4;
  return row;
}

// Checked for each seed. The model must do what TCP does, or what is compared with it says nothing.
const std::array kChecked = {
    Row{.name = "TCP alone",
        .way = tcp_alone(way(100, 10 * kMillisecond, 1, 0)),
        .total_least = 0.95},
    Row{.name = "two TCP",
        .way = with_tcp(tcp_alone(way(100, 10 * kMillisecond, 1, 0)), 2),
        .total_least = 0.95,
        .tcp_jain_least = 0.85},
    // CUBIC suffers from a link that loses, BBR does not.
    Row{.name = "TCP alone, loss of 1 %",
        .way = lossy(tcp_alone(way(100, 10 * kMillisecond, 1, 0)), 10'000),
        .total_most = 0.3},
    Row{.name = "BBR alone",
        .way = bbr_alone(way(100, 10 * kMillisecond, 1, 0), 1),
        .total_least = 0.9,
        .queue_most = 0.2},
    Row{.name = "two BBR",
        .way = bbr_alone(way(100, 10 * kMillisecond, 2, 0), 2),
        .total_least = 0.9,
        .tcp_jain_least = 0.8},
    Row{.name = "BBR alone, loss of 1 %",
        .way = lossy(bbr_alone(way(100, 10 * kMillisecond, 1, 0), 1), 10'000),
        .total_least = 0.85},
    fills("WRITE", way(100, 10 * kMillisecond, 0.25, 1)),
    fills("WRITE", way(100, 10 * kMillisecond, 0.25, 8)),
    fills("WRITE", way(100, 10 * kMillisecond, 0.25, 64)),
    fills("WRITE", way(100, 10 * kMillisecond, 1, 1)),
    fills("WRITE", way(100, 10 * kMillisecond, 1, 8)),
    fills("WRITE", way(100, 10 * kMillisecond, 1, 64)),
    fills("WRITE", way(100, 10 * kMillisecond, 4, 1)),
    fills("WRITE", way(100, 10 * kMillisecond, 4, 8)),
    fills("WRITE", way(100, 10 * kMillisecond, 4, 64)),
    fills("WRITE", way(100, 1 * kMillisecond, 1, 8)),
    fills("WRITE", way(100, 50 * kMillisecond, 1, 8)),
    fills("READ", reads(way(100, 10 * kMillisecond, 1, 1))),
    fills("READ", reads(way(100, 10 * kMillisecond, 1, 8))),
    fills("READ", reads(way(100, 10 * kMillisecond, 1, 64))),
    fills("peer goes back", goes_back(way(100, 10 * kMillisecond, 1, 8))),
    repairs("peer goes back", goes_back(way(100, 10 * kMillisecond, 0.25, 8)), 0.9, 0.04),
    repairs("loss of 0.1 %", lossy(way(100, 10 * kMillisecond, 1, 8), 1'000), 0.95, 0.005),
    repairs("loss of 1 %", lossy(way(100, 10 * kMillisecond, 1, 8), 10'000), 0.9, 0.02),
    repairs("loss of 5 %", lossy(way(100, 10 * kMillisecond, 1, 8), 50'000), 0.8, 0.08),
    repairs("loss of 1 %", lossy(way(100, 10 * kMillisecond, 1, 1), 10'000), 0.9, 0.02),
    repairs("loss of 5 %", lossy(way(100, 10 * kMillisecond, 1, 1), 50'000), 0.8, 0.08),
    repairs("READ, loss of 1 %", reads(lossy(way(100, 10 * kMillisecond, 1, 1), 10'000)), 0.7,
            0.04),
    repairs("READ, loss of 5 %", reads(lossy(way(100, 10 * kMillisecond, 1, 1), 50'000)), 0.3,
            0.12),
    repairs("1 % late by 1 ms", late(way(100, 10 * kMillisecond, 1, 1), 10'000), 0.95, 0.001),
    repairs("jitter of 1 ms", late(way(100, 10 * kMillisecond, 1, 1), 1'000'000), 0.9, 0.001),
    repairs("jitter of 1 ms", late(way(100, 10 * kMillisecond, 1, 8), 1'000'000), 0.9, 0.005),
    repairs("READ, jitter of 1 ms", reads(late(way(100, 10 * kMillisecond, 1, 1), 1'000'000)), 0.9,
            0.005),
    fills("WRITE and TCP", with_tcp(way(100, 10 * kMillisecond, 0.25, 1), 1)),
    fills("WRITE and TCP", with_tcp(way(100, 10 * kMillisecond, 1, 1), 1)),
    fills("WRITE and TCP", with_tcp(way(100, 10 * kMillisecond, 4, 1), 1)),
    fills("WRITE and TCP", with_tcp(way(100, 10 * kMillisecond, 0.25, 8), 1)),
    fills("WRITE and TCP", with_tcp(way(100, 10 * kMillisecond, 1, 8), 1)),
    fills("WRITE and TCP", with_tcp(way(100, 10 * kMillisecond, 4, 8), 1)),
    fills("WRITE and TCP", with_tcp(way(100, 10 * kMillisecond, 0.25, 64), 1)),
    fills("WRITE and TCP", with_tcp(way(100, 10 * kMillisecond, 1, 64), 1)),
    fills("WRITE and TCP", with_tcp(way(100, 10 * kMillisecond, 4, 64), 1)),
    fills("READ and TCP", with_tcp(reads(way(100, 10 * kMillisecond, 1, 8)), 1)),
    fills("two hosts", with_hosts(way(100, 10 * kMillisecond, 1, 8), 2)),
    Row{.name = "four hosts",
        .way = with_hosts(way(100, 10 * kMillisecond, 0.25, 4), 4),
        .total_least = 0.9,
        .resends_most = 0.03,
        .jain_least = 0.9},
    short_queue("ECN", marking(way(100, 10 * kMillisecond, 4, 1), 0.25)),
    short_queue("ECN", marking(way(100, 10 * kMillisecond, 4, 8), 0.25)),
    short_queue("ECN", marking(way(100, 10 * kMillisecond, 4, 64), 0.25)),
    short_queue("ECN READ", marking(reads(way(100, 10 * kMillisecond, 4, 8)), 0.25)),
    short_queue("ECN two hosts", with_hosts(marking(way(100, 10 * kMillisecond, 4, 8), 0.25), 2)),
    short_queue("ECN four hosts", with_hosts(marking(way(100, 10 * kMillisecond, 4, 4), 0.25), 4)),
    Row{.name = "RED without ECN",
        .way = dropping_early(way(100, 10 * kMillisecond, 4, 8), 0.25),
        .total_least = 0.9,
        .resends_most = 0.02,
        .queue_most = 0.4},
    fills("two hosts READ", with_hosts(reads(way(100, 10 * kMillisecond, 1, 8)), 2)),
    briefly(fills("WRITE", way(1000, 100 * kMicrosecond, 0.25, 1))),
    briefly(fills("WRITE", way(1000, 100 * kMicrosecond, 1, 8))),
    briefly(fills("WRITE", way(1000, 1 * kMillisecond, 1, 8))),
    briefly(fills("WRITE", way(1000, 10 * kMillisecond, 1, 1))),
    briefly(fills("READ", reads(way(1000, 10 * kMillisecond, 1, 8)))),
    briefly(repairs("loss of 1 %", lossy(way(1000, 1 * kMillisecond, 1, 8), 10'000), 0.9, 0.02)),
    briefly(repairs("loss of 1 %", lossy(way(1000, 10 * kMillisecond, 1, 1), 10'000), 0.9, 0.02)),
    briefly(short_queue("ECN", marking(way(1000, 10 * kMillisecond, 4, 8), 0.25))),
    briefly(fills("WRITE and TCP", with_tcp(way(1000, 1 * kMillisecond, 1, 8), 1))),
    Row{.name = "WRITE and BBR",
        .way = with_bbr(way(100, 10 * kMillisecond, 1, 8), 1),
        .total_least = 0.9,
        .ours_least = 0.03},
};

// These take longer, or cannot be had yet.
const std::array kShown = {
    Row{.name = "WRITE", .way = way(1000, 100 * kMicrosecond, 0.25, 8)},
    Row{.name = "WRITE", .way = way(1000, 100 * kMicrosecond, 0.5, 8)},
    Row{.name = "WRITE", .way = way(1000, 1 * kMillisecond, 0.25, 8)},
    Row{.name = "WRITE", .way = way(1000, 10 * kMillisecond, 0.25, 8)},
    Row{.name = "WRITE", .way = way(1000, 10 * kMillisecond, 1, 8)},
    Row{.name = "TCP alone", .way = tcp_alone(way(1000, 10 * kMillisecond, 0.25, 0))},
    Row{.name = "peer goes back", .way = goes_back(way(1000, 1 * kMillisecond, 1, 8))},
    Row{.name = "loss of 5 %", .way = lossy(way(1000, 10 * kMillisecond, 1, 1), 50'000)},
    Row{.name = "READ, loss of 1 %",
        .way = reads(lossy(way(1000, 10 * kMillisecond, 1, 1), 10'000))},
    Row{.name = "1 % late by 1 ms", .way = late(way(1000, 10 * kMillisecond, 1, 1), 10'000)},
    Row{.name = "jitter of 1 ms", .way = late(way(1000, 10 * kMillisecond, 1, 1), 1'000'000)},
    Row{.name = "READ, jitter of 1 ms",
        .way = reads(late(way(1000, 10 * kMillisecond, 1, 1), 1'000'000))},
    Row{.name = "loss of 1 %", .way = lossy(way(1000, 1 * kMillisecond, 1, 1), 10'000)},
    Row{.name = "WRITE and TCP", .way = with_tcp(way(100, 1 * kMillisecond, 1, 8), 1)},
    Row{.name = "WRITE and BBR", .way = with_bbr(way(100, 10 * kMillisecond, 0.25, 8), 1)},
    Row{.name = "WRITE and BBR", .way = with_bbr(way(100, 10 * kMillisecond, 1, 1), 1)},
    Row{.name = "WRITE and BBR", .way = with_bbr(way(100, 10 * kMillisecond, 4, 8), 1)},
    Row{.name = "TCP and BBR", .way = with_tcp(bbr_alone(way(100, 10 * kMillisecond, 1, 0), 1), 1)},
    Row{.name = "TCP and BBR", .way = with_tcp(bbr_alone(way(100, 10 * kMillisecond, 4, 0), 1), 1)},
};

[[nodiscard]] std::string label(const Row& row) {
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), "%s, %.0f Mb/s, %.1f ms, queue %.2f BDP, %u QPs",
                row.name, static_cast<double>(row.way.bits_per_second) / 1e6,
                static_cast<double>(row.way.round_trip) / 1e6, row.way.queue_bdp, row.way.qps);
  return text.data();
}

void print_header() {
  std::printf(
      "| case | rate | RTT | queue | QPs | ours | TCP | resends | queue mean | most | Jain |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|\n");
}

// Those of each kind, if there are two: first TCP with CUBIC, then with BBR.
[[nodiscard]] std::string others(const Row& row, const WayFigures& figures) {
  std::array<char, 32> text{};
  const bool both = row.way.tcp_flows == 1 && row.way.bbr_flows == 1;
  if (both) {
    std::snprintf(text.data(), text.size(), "%.2f + %.2f", figures.tcp[0], figures.tcp[1]);
  } else {
    std::snprintf(text.data(), text.size(), "%.2f", figures.others());
  }
  return text.data();
}

void print_row(const Row& row, const WayFigures& figures) {
  std::printf(
      "| %s | %.0f Mb/s | %.1f ms | %.2f BDP | %u | %.2f | %s | %.2f %% | %.2f | %.2f | %.2f |\n",
      row.name, static_cast<double>(row.way.bits_per_second) / 1e6,
      static_cast<double>(row.way.round_trip) / 1e6, row.way.queue_bdp, row.way.hosts * row.way.qps,
      figures.ours(), others(row, figures).c_str(), 100 * figures.resends, figures.queue_mean_bdp,
      figures.queue_most_bdp, jain(figures.hosts));
  std::fflush(stdout);
}

[[nodiscard]] bool check(const Row& row, uint64_t seed) {
  const WayFigures figures = run_shared_way(row.way, seed);
  bool good = true;
  const auto want = [&](const char* what, double found, double least, double most) {
    if (found >= least && found <= most) return;
    good = false;
    std::printf("%s, seed %llu: %s is %.3f, wanted %.3f to %.3f\n", label(row).c_str(),
                static_cast<unsigned long long>(seed), what, found, least, most);
  };
  want("the share of the way in use", figures.total(), row.total_least, row.total_most);
  want("our share", figures.ours(), row.ours_least, kNoLimit);
  want("TCP's share", figures.others(), row.tcp_least, kNoLimit);
  want("the share of resends", figures.resends, 0, row.resends_most);
  want("Jain's index", jain(figures.hosts), row.jain_least, kNoLimit);
  want("Jain's index of TCP flows", jain(figures.tcp), row.tcp_jain_least, kNoLimit);
  want("the queue's mean length in BDP", figures.queue_mean_bdp, 0, row.queue_most);
  want("the number of failed requests", static_cast<double>(figures.failed), 0, 0);
  return good;
}

}  // namespace

void print_congestion_table(std::string_view rows, uint64_t seed) {
  print_header();
  const auto print = [rows, seed](const Row& row) {
    if (label(row).contains(rows)) print_row(row, run_shared_way(row.way, seed));
  };
  std::ranges::for_each(kChecked, print);
  std::ranges::for_each(kShown, print);
}

bool check_congestion(std::string_view rows, uint64_t first, uint64_t seeds) {
  bool good = true;
  for (const Row& row : kChecked) {
    if (!label(row).contains(rows)) continue;
    for (uint64_t seed = first; seed < first + seeds; ++seed) good = check(row, seed) && good;
  }
  if (good) std::printf("All figures hold.\n");
  return good;
}

}  // namespace verbena::sim
