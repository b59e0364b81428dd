// SPDX-License-Identifier: Apache-2.0
#include "shared_rows.h"

#include <optional>

#include <fmt/format.h>

#include "common/ends.h"
#include "iperf.h"
#include "ucx.h"
#include "unix_pingpong.h"
#include "workloads.h"

namespace verbena::bench {
namespace {

using link::LinkKind;
using transport::SendOp;

void keep(std::vector<double>& into, const Measured& measured) {
  if (!measured.values.empty()) into.push_back(measured.values.front());
}

void keep_median(std::vector<double>& into, const Measured& measured) {
  if (!measured.values.empty()) into.push_back(median(measured.values));
}

void bandwidths(const Settings& settings, Report& report) {
  struct Case {
    SendOp op;
    uint32_t message;
  };
  const std::vector<Case> cases{{SendOp::kWrite, 64u << 10},
                                {SendOp::kRead, 64u << 10},
                                {SendOp::kWrite, 1u << 20},
                                {SendOp::kRead, 1u << 20}};
  std::vector<Row> ucx;
  std::vector<Row> tcp;
  std::vector<Row> cpu;
  for (const Case& c : cases) {
    const std::string name =
        fmt::format("{} of {} KiB", c.op == SendOp::kRead ? "READ" : "WRITE", c.message >> 10);
    ucx.push_back({name, "GB/s", 1e9, "GB/s UCX posix+cma", {.aim = 1, .must = 0.7}, {}, {}});
    tcp.push_back({name, "GB/s", 1e9, "GB/s iperf3 TCP", {.must = 1.5}, {}, {}});
    cpu.push_back({name,
                   "s/GiB",
                   1,
                   "s/GiB iperf3 TCP",
                   {.aim = 0.7, .must = 1, .lower_is_better = true},
                   {},
                   {}});
  }
  const uint64_t total = settings.bytes(8ull << 30);
  for (uint32_t round = 0; round < settings.rounds; ++round) {
    std::optional<TcpResult> stream;
    if (!settings.alone) stream = tcp_loopback(std::max(1.0, settings.scale));
    for (size_t i = 0; i < cases.size(); ++i) {
      const Case& c = cases[i];
      const Measured ours = run_ends([&](Role role, const Control& control) {
        return bandwidth(role, control, {.link = LinkKind::kShared}, c.op, c.message, total);
      });
      keep(ucx[i].ours, ours);
      keep(tcp[i].ours, ours);
      const double gib = static_cast<double>(total) / (1 << 30);
      if (!ours.values.empty()) cpu[i].ours.push_back(ours.cpu_seconds / gib);
      if (stream) {
        tcp[i].theirs.push_back(stream->bytes_per_second);
        cpu[i].theirs.push_back(stream->cpu_seconds_per_gib);
      }
      if (settings.alone) continue;
      const auto count = static_cast<uint32_t>(total / 2 / c.message);
      const auto peer = ucx_shared(UcxTest::kTagBandwidth, c.message, count);
      if (peer) ucx[i].theirs.push_back(peer->bytes_per_second);
    }
  }
  report.heading("Bandwidth through shared memory, MTU 4096");
  for (const Row& row : ucx) report.print(row);
  for (const Row& row : tcp) report.print(row);
  report.heading("CPU time through shared memory, both ends, polling included");
  for (const Row& row : cpu) report.print(row);
}

void latencies(const Settings& settings, Report& report) {
  const uint32_t many = settings.count(200'000);
  const uint32_t few = settings.count(20'000);
  const auto ours = [](SendOp op, Notice notice, uint32_t n, LinkKind link) {
    return run_ends([=](Role role, const Control& control) {
      return pingpong(role, control, {.link = link}, op, notice, n);
    });
  };
  Row polling{"SEND of 8 bytes, both poll",
              "us",
              1,
              "us UCX posix",
              {.aim = 1.5, .must = 3, .lower_is_better = true},
              {},
              {}};
  Row spinning{"WRITE of 8 bytes, both spin on memory",          "us", 1, "us through sockets",
               {.aim = 0.5, .must = 1, .lower_is_better = true}, {},   {}};
  Row sleeping{"SEND of 8 bytes, both asleep on channels",       "us", 1, "us blocking unix socket",
               {.aim = 1.3, .must = 2, .lower_is_better = true}, {},   {}};
  for (uint32_t round = 0; round < settings.rounds; ++round) {
    keep_median(polling.ours, ours(SendOp::kSend, Notice::kPollQueue, many, LinkKind::kShared));
    keep_median(spinning.ours, ours(SendOp::kWrite, Notice::kSpinOnMemory, few, LinkKind::kShared));
    keep_median(sleeping.ours,
                ours(SendOp::kSend, Notice::kSleepOnChannel, few, LinkKind::kShared));
    if (settings.alone) continue;
    if (const auto peer = ucx_shared(UcxTest::kTagLatency, 8, many)) {
      polling.theirs.push_back(peer->microseconds);
    }
    keep_median(spinning.theirs, ours(SendOp::kWrite, Notice::kSpinOnMemory, few, LinkKind::kUdp));
    keep_median(sleeping.theirs, run_ends([few](Role role, const Control& control) {
                  return unix_pingpong(role, control, 8, few);
                }));
  }
  report.heading("Latency through shared memory, one way, medians");
  for (const Row& row : {polling, spinning, sleeping}) report.print(row);
}

void small_messages(const Settings& settings, Report& report) {
  Row row{"8-byte WRITEs, pipelined", "M/s", 1e6, "M/s through sockets",
          {.aim = 3, .must = 2},      {},    {}};
  const uint32_t count = settings.count(1'000'000);
  const auto run = [count](LinkKind link) {
    return run_ends([=](Role role, const Control& control) {
      return small_writes(role, control, {.link = link}, count);
    });
  };
  for (uint32_t round = 0; round < settings.rounds; ++round) {
    keep(row.ours, run(LinkKind::kShared));
    if (!settings.alone) keep(row.theirs, run(LinkKind::kUdp));
  }
  report.heading("Small messages a second through shared memory");
  report.print(row);
}

void many_queue_pairs(const Settings& settings, Report& report) {
  Row row{"WRITE of 64 KiB, 1024 queue pairs", "GB/s", 1e9, "GB/s 1 queue pair",
          {.aim = 0.9, .must = 0.8},           {},     {}};
  const uint64_t total = settings.bytes(4ull << 30);
  const auto run = [total](uint32_t queue_pairs) {
    return run_ends([=](Role role, const Control& control) {
      return bandwidth(role, control, {.queue_pairs = queue_pairs, .link = LinkKind::kShared},
                       SendOp::kWrite, 64u << 10, total);
    });
  };
  for (uint32_t round = 0; round < settings.rounds; ++round) {
    keep(row.ours, run(1024));
    keep(row.theirs, run(1));
  }
  report.heading("Many active queue pairs through shared memory");
  report.print(row);
}

}  // namespace

void shared_rows(const Settings& settings, Report& report) {
  const auto wants = [&](const char* group) {
    return settings.wants("shared") || settings.wants(group);
  };
  if (wants("shared-bandwidth")) bandwidths(settings, report);
  if (wants("shared-latency")) latencies(settings, report);
  if (wants("shared-small")) small_messages(settings, report);
  if (wants("shared-queues")) many_queue_pairs(settings, report);
}

void thread_rows(const Settings& settings, Report& report) {
  constexpr uint32_t kMost = 4;
  std::vector<Row> rows;
  std::vector<Row> sleeps;
  std::vector<Row> doorbells;
  for (uint32_t threads = 1; threads <= kMost; ++threads) {
    const std::string name = fmt::format("{} threads", threads);
    rows.push_back({name, "M/s", 1e6, "M/s 1 thread", {}, {}, {}});
    sleeps.push_back({name, "sleeps", 1, "", {}, {}, {}});
    doorbells.push_back({name, "doorbells", 1, "", {}, {}, {}});
  }
  for (uint32_t round = 0; round < settings.rounds; ++round) {
    for (uint32_t threads = 1; threads <= kMost; ++threads) {
      const Measured measured = run_ends([&](Role role, const Control& control) {
        return threads_of_writes(role, control, threads, settings.count(500'000));
      });
      if (measured.values.size() < 3) continue;
      rows[threads - 1].ours.push_back(measured.values[0]);
      sleeps[threads - 1].ours.push_back(measured.values[1]);
      doorbells[threads - 1].ours.push_back(measured.values[2]);
    }
  }
  report.heading("8-byte WRITEs of threads of one process, each with its own queues");
  for (Row& row : rows) {
    row.theirs = rows.front().ours;
    report.print(row);
  }
  report.heading("Of each 1,000 of these messages: sleeps for a lock");
  for (const Row& row : sleeps) report.print(row);
  report.heading("Doorbells, rung because another thread had the lock");
  for (const Row& row : doorbells) report.print(row);
}

}  // namespace verbena::bench
