// SPDX-License-Identifier: Apache-2.0
// `./dev bench device`: the device between two processes, over UDP loopback beside iperf3 and bare
// UDP sockets, and through shared memory beside UCX's. docs/performance.md says how to read it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/report.h"
#include "iperf.h"
#include "raw_udp.h"
#include "settings.h"
#include "shared_rows.h"
#include "wire_sample.h"
#include "workloads.h"

namespace verbena::bench {
namespace {

using transport::Mtu;
using transport::SendOp;

class Bench {
 public:
  explicit Bench(const Settings& settings) : settings_(settings) {}

  int run() {
    fmt::print("{}\nMedians of {} rounds in turns; each end on a core of its own.\n", machine(),
               settings_.rounds);
    if (settings_.wants("bandwidth")) bandwidths();
    if (settings_.wants("latency")) latencies();
    if (settings_.wants("small")) small_messages();
    if (settings_.wants("queues")) many_queue_pairs();
    if (settings_.wants("loss")) losses();
    if (settings_.wants("memory")) memory();
    if (settings_.wants("icrc")) sampled_capture();
    shared_rows(settings_, report_);
    if (settings_.wants("threads")) thread_rows(settings_, report_);
    if (!settings_.json.empty()) std::ofstream(settings_.json) << report_.json() << '\n';
    return report_.all_met() ? 0 : 1;
  }

 private:
  [[nodiscard]] uint64_t bytes(uint64_t of) const { return settings_.bytes(of); }
  [[nodiscard]] uint32_t count(uint32_t of) const { return settings_.count(of); }

  static Measured transfer(const SideOptions& options, SendOp op, uint32_t message,
                           uint64_t total) {
    return run_ends([&](Role role, const Control& control) {
      return bandwidth(role, control, options, op, message, total);
    });
  }

  static void keep(std::vector<double>& into, const Measured& measured) {
    if (!measured.values.empty()) into.push_back(measured.values.front());
  }

  struct Case {
    SendOp op;
    Mtu mtu;
    uint32_t message;
  };
  [[nodiscard]] static std::string describe(const Case& c) {
    return fmt::format("{} of {} KiB, MTU {}", c.op == SendOp::kRead ? "READ" : "WRITE",
                       c.message >> 10, transport::mtu_bytes(c.mtu));
  }

  void bandwidths() {
    std::vector<Case> cases;
    for (const SendOp op : {SendOp::kWrite, SendOp::kRead}) {
      for (const Mtu mtu : {Mtu::k1024, Mtu::k4096}) {
        for (const uint32_t message : {64u << 10, 1u << 20}) cases.push_back({op, mtu, message});
      }
    }
    std::erase_if(cases, [&](const Case& c) { return !describe(c).contains(settings_.match); });
    constexpr Goal kGoal{.aim = 1.0, .must = 0.6};
    std::vector<Row> against_tcp;
    std::vector<Row> against_udp;
    std::vector<Row> cpu;
    for (const Case& c : cases) {
      const std::string name = describe(c);
      against_tcp.push_back({name, "GB/s", 1e9, "GB/s iperf3 TCP", kGoal, {}, {}});
      against_udp.push_back({name, "GB/s", 1e9, "GB/s UDP GSO", {}, {}, {}});
      cpu.push_back({name, "s/GiB", 1, "s/GiB iperf3 TCP", {}, {}, {}});
    }
    for (uint32_t round = 0; round < settings_.rounds; ++round) {
      std::optional<TcpResult> tcp;
      if (!settings_.alone) tcp = tcp_loopback(std::max(1.0, settings_.scale));
      std::vector<double> blast(2);
      for (size_t i = 0; i < 2 && !settings_.alone; ++i) {
        const uint32_t packet = (i == 0 ? 1024 : 4096) + 16;
        const Measured raw = run_ends([&](Role role, const Control& control) {
          return udp_gso_blast(role, control, packet, bytes(2u << 30));
        });
        blast[i] = raw.values.empty() ? 0 : raw.values.front();
      }
      for (size_t i = 0; i < cases.size(); ++i) {
        const uint64_t total = bytes(2u << 30);
        const Measured ours = transfer({.mtu = cases[i].mtu}, cases[i].op, cases[i].message, total);
        keep(against_tcp[i].ours, ours);
        keep(against_udp[i].ours, ours);
        if (!settings_.alone)
          against_udp[i].theirs.push_back(blast[cases[i].mtu == Mtu::k1024 ? 0 : 1]);
        const double gib = static_cast<double>(total) / (1 << 30);
        if (!ours.values.empty()) cpu[i].ours.push_back(ours.cpu_seconds / gib);
        if (!tcp) continue;
        against_tcp[i].theirs.push_back(tcp->bytes_per_second);
        cpu[i].theirs.push_back(tcp->cpu_seconds_per_gib);
      }
    }
    report_.heading("Bandwidth, RC over IPv4, against TCP");
    for (const Row& row : against_tcp) report_.print(row);
    report_.heading(
        "Bandwidth, against the limit: the same packets blasted over a bare UDP socket");
    for (const Row& row : against_udp) report_.print(row);
    report_.heading("CPU time, both ends, polling included");
    for (const Row& row : cpu) report_.print(row);
  }

  // Median and 99th percentile of one exchange against another, taken in turns.
  void latency(const std::string& name, const End& ours, const std::string& peer, const End& theirs,
               bool spinners, const Goal& goal) {
    if (!name.contains(settings_.match)) return;
    Row median_row{name + ", median", "us", 1, "us " + peer, goal, {}, {}};
    Row tail_row{name + ", 99th percentile", "us", 1, "us " + peer, {}, {}, {}};
    for (uint32_t round = 0; round < settings_.rounds; ++round) {
      const Measured b = settings_.alone ? Measured{} : run_ends(theirs, spinners);
      const Measured a = run_ends(ours);
      if (!a.values.empty()) {
        median_row.ours.push_back(median(a.values));
        tail_row.ours.push_back(percentile(a.values, 99));
      }
      if (!b.values.empty()) {
        median_row.theirs.push_back(median(b.values));
        tail_row.theirs.push_back(percentile(b.values, 99));
      }
    }
    report_.print(median_row);
    report_.print(tail_row);
  }

  void latencies() {
    report_.heading("Latency of 8 bytes, one way");
    const uint32_t rounds = count(50'000);
    const auto ours = [](SendOp op, Notice notice, uint32_t n,
                         uint32_t signal_every = kSignalEvery) {
      return [=](Role role, const Control& control) {
        return pingpong(role, control, {}, op, notice, n, signal_every);
      };
    };
    const auto udp = [](Waiting waiting, uint32_t n) {
      return [=](Role role, const Control& control) {
        return udp_pingpong(role, control, 8, n, waiting);
      };
    };
    constexpr Goal kPolling{.aim = 1.3, .must = 2.0, .lower_is_better = true};
    latency("SEND, polling", ours(SendOp::kSend, Notice::kPollQueue, rounds), "UDP polling",
            udp(Waiting::kPolling, rounds), false, kPolling);
    latency("WRITE imm, polling", ours(SendOp::kWriteImm, Notice::kPollQueue, rounds),
            "UDP polling", udp(Waiting::kPolling, rounds), false, kPolling);
    const uint32_t fewer = count(10'000);
    latency("WRITE, spinning on memory", ours(SendOp::kWrite, Notice::kSpinOnMemory, fewer),
            "UDP + spinner", udp(Waiting::kBlocking, fewer), true,
            {.aim = 2.0, .lower_is_better = true});
    // As perftest has it: each message's own completion is waited for before the next.
    latency("SEND, polling, each completed", ours(SendOp::kSend, Notice::kPollQueue, rounds, 1),
            "UDP polling", udp(Waiting::kPolling, rounds), false, {});
    latency("WRITE, spinning, each completed",
            ours(SendOp::kWrite, Notice::kSpinOnMemory, fewer, 1), "UDP + spinner",
            udp(Waiting::kBlocking, fewer), true, {});
    latency("SEND, sleeping", ours(SendOp::kSend, Notice::kSleepOnChannel, fewer), "UDP blocking",
            udp(Waiting::kBlocking, fewer), false, {});
  }

  void small_messages() {
    report_.heading("Small messages a second");
    Row row{"8-byte WRITEs, pipelined", "M/s", 1e6, "M/s UDP datagrams", {}, {}, {}};
    for (uint32_t round = 0; round < settings_.rounds; ++round) {
      if (!settings_.alone) {
        keep(row.theirs, run_ends([&](Role role, const Control& control) {
               return udp_datagrams(role, control, 8, count(300'000));
             }));
      }
      keep(row.ours, run_ends([&](Role role, const Control& control) {
             return small_writes(role, control, {}, count(500'000));
           }));
    }
    report_.print(row);
  }

  // Rows against the first of them.
  void against_first(const std::vector<std::pair<std::string, SideOptions>>& cases, SendOp op,
                     uint32_t message, uint64_t total) {
    std::vector<Row> rows;
    for (const auto& [name, options] : cases)
      rows.push_back({name, "GB/s", 1e9, "GB/s", {}, {}, {}});
    for (uint32_t round = 0; round < settings_.rounds; ++round) {
      for (size_t i = 0; i < cases.size(); ++i) {
        keep(rows[i].ours, transfer(cases[i].second, op, message, total));
      }
    }
    for (Row& row : rows) {
      row.theirs = rows.front().ours;
      row.peer = "GB/s " + cases.front().first;
      report_.print(row);
    }
  }

  void many_queue_pairs() {
    report_.heading("WRITE of 64 KiB at MTU 4096 over many active queue pairs");
    against_first({{"1 queue pair", {.queue_pairs = 1}},
                   {"64 queue pairs", {.queue_pairs = 64}},
                   {"1024 queue pairs", {.queue_pairs = 1024}}},
                  SendOp::kWrite, 64u << 10, bytes(1u << 30));
  }

  void losses() {
    report_.heading("WRITE of 1 MiB at MTU 4096 with loss of what arrives, at both ends");
    against_first({{"no loss", {}},
                   {"0.1 %", {.loss_ppm = 1'000}},
                   {"1 %", {.loss_ppm = 10'000}},
                   {"5 %", {.loss_ppm = 50'000}}},
                  SendOp::kWrite, 1u << 20, bytes(512u << 20));
  }

  void memory() {
    report_.heading("Memory");
    Row row{"a connected, idle queue pair", "KiB", 1024, "KiB wanted", {}, {}, {}};
    row.goal = {.aim = 1.0, .lower_is_better = true};
    row.theirs = {16.0 * 1024};
    keep(row.ours, run_ends([](Role role, const Control& control) {
           return idle_memory(role, control, 1000);
         }));
    report_.print(row);
  }

  void sampled_capture() {
    report_.heading("Packets on the wire, sampled during a transfer");
    const WireSample sample = sample_wire([&] {
      (void)transfer({}, SendOp::kWrite, 1u << 20, bytes(256u << 20));
      (void)transfer({.mtu = Mtu::k1024}, SendOp::kRead, 1u << 20, bytes(256u << 20));
    });
    if (!sample.able) {
      fmt::print("  left out: capturing on the loopback interface needs root\n");
      return;
    }
    fmt::print("  {} packets in {} frames, {} with a wrong ICRC\n", sample.packets, sample.frames,
               sample.wrong);
    Row row{"right ICRCs", "of all", 1, "wanted", {.aim = 1, .must = 1}, {}, {1}};
    if (sample.packets != 0) {
      row.ours = {1 - static_cast<double>(sample.wrong) / static_cast<double>(sample.packets)};
    }
    report_.print(row);
  }

  const Settings& settings_;
  Report report_;
};

}  // namespace
}  // namespace verbena::bench

int main(int argc, char** argv) {
  verbena::bench::Settings settings;
  CLI::App app{"Measures the device beside iperf3, bare UDP sockets and UCX."};
  app.add_option("--rounds", settings.rounds, "rounds of each measurement; the median is shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--scale", settings.scale, "more (or less, below 1) work in each measurement")
      ->check(CLI::Range(0.01, 100.0))
      ->capture_default_str();
  app.add_option("--only", settings.only,
                 "of: bandwidth, latency, small, queues, loss, memory, icrc (through\n"
                 "sockets); shared (through shared memory), or of it shared-bandwidth,\n"
                 "shared-latency, shared-small, shared-queues; threads")
      ->delimiter(',')
      ->check(CLI::IsMember({"bandwidth", "latency", "small", "queues", "loss", "memory", "icrc",
                             "shared", "shared-bandwidth", "shared-latency", "shared-small",
                             "shared-queues", "threads"}));
  app.add_option("--match", settings.match, "of bandwidths and latencies, those with this in their name");
  app.add_flag("--alone", settings.alone, "leave the peers out, for a profile of the device");
  app.add_option("--json", settings.json, "write the figures to this file, too");
  CLI11_PARSE(app, argc, argv);
  return verbena::bench::Bench(settings).run();
}
