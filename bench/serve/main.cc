// SPDX-License-Identifier: Apache-2.0
// `./dev bench serve`: the store's server beside Redis, memcached and a network block device
// (nbdkit), on loopback, in one run: the same sizes, clients and requests under way. All of them
// keep the values in memory.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "common/ends.h"
#include "common/report.h"
#include "load.h"
#include "servers.h"

namespace verbena::bench {
namespace {

struct Settings {
  uint32_t rounds = 3;
  double seconds = 1;
  std::string json;
  std::string match;
  uint32_t bytes = 0;  // 0: all of these
  uint32_t clients = 0;
  uint32_t depth = 0;
  bool alone = false;  // without the peers, for a profile
  std::vector<std::string> fabrics{"verbs", "ofi:tcp"};
  std::string programs;  // the folder of this build's
};

[[nodiscard]] double measure(const Load& load, const Ours& ours) {
  return through_verbena(load, ours.port, ours.libraries, ours.fabric);
}
// What is not about fabrics is measured over the first.
[[nodiscard]] double measure_ours(const Servers& servers, const Load& load) {
  return measure(load, servers.ours.front());
}

// Peers and our fabrics take turns; each fabric is shown beside each peer.
void beside_peers(Report& report, const Settings& settings, const Servers& servers,
                  const Load& load, const Goal& goal) {
  struct Peer {
    const char* name;
    double (*through)(const Load& load, uint16_t port);
    uint16_t port;
    std::vector<double> values{};
  };
  std::vector<Peer> peers{{"Redis", through_redis, servers.redis},
                          {"memcached", through_memcached, servers.memcached},
                          {"nbdkit", through_nbd, servers.nbd}};
  if (settings.alone) peers.clear();
  std::vector<std::vector<double>> ours(servers.ours.size());
  for (uint32_t round = 0; round < settings.rounds; ++round) {
    for (size_t i = 0; i < ours.size(); ++i) ours[i].push_back(measure(load, servers.ours[i]));
    for (Peer& peer : peers) peer.values.push_back(peer.through(load, peer.port));
  }
  const bool large = load.bytes > 65536;
  const char* const unit = large ? "MB/s" : "k/s";
  const double scale = large ? 1e6 : 1e3 * load.bytes;
  for (size_t i = 0; i < ours.size(); ++i) {
    const std::string& fabric = servers.ours[i].fabric;
    const auto row = [&](const std::string& peer, std::vector<double> theirs) {
      // What is aimed at was said of the device, beside stores of objects.
      const bool aimed = fabric == "verbs" && peer != "nbdkit";
      report.print({fmt::format("{}, {}", load.write ? "write" : "read", fabric), unit, scale,
                    peer.empty() ? "" : fmt::format("{} {}", unit, peer), aimed ? goal : Goal{},
                    ours[i], std::move(theirs)});
    };
    if (peers.empty()) row("", {});
    for (const Peer& peer : peers) row(peer.name, peer.values);
  }
}

void beside_peers(Report& report, const Settings& settings, const Servers& servers) {
  struct Case {
    uint32_t bytes;
    Goal depth1;
    Goal depth16;
  };
  for (const Case& c :
       {Case{4096, {.aim = 0.7}, {.aim = 1.0}}, Case{1U << 20, {.aim = 1.5}, {.aim = 1.5}}}) {
    if (settings.bytes != 0 && settings.bytes != c.bytes) continue;
    for (const uint32_t clients : {1U, 8U}) {
      if (settings.clients != 0 && settings.clients != clients) continue;
      for (const uint32_t depth : {1U, 16U}) {
        if (settings.depth != 0 && settings.depth != depth) continue;
        report.heading(fmt::format("{} bytes, {} client{}, {} under way each", c.bytes, clients,
                                   clients == 1 ? "" : "s", depth));
        for (const bool write : {false, true}) {
          beside_peers(report, settings, servers,
                       {write, c.bytes, clients, depth, settings.seconds},
                       depth == 1 ? c.depth1 : c.depth16);
        }
      }
    }
  }
}

void how_it_grows(Report& report, const Settings& settings, const Servers& servers) {
  const ServerProcess& server = *servers.ours.front().process;
  report.heading("by clients, 4 under way each; server CPU beside");
  for (const uint32_t bytes : {4096U, 1U << 20}) {
    for (const uint32_t clients : {1U, 8U, 64U}) {
      for (const bool write : {false, true}) {
        const Load load{write, bytes, clients, 4, settings.seconds};
        Row row{fmt::format("{} {} bytes, {} clients", write ? "write" : "read", bytes, clients),
                "MB/s",
                1e6,
                "",
                {},
                {},
                {}};
        double cpu = 0;
        double moved = 0;
        for (uint32_t round = 0; round < settings.rounds; ++round) {
          const double before = server.cpu();
          row.ours.push_back(measure_ours(servers, load));
          cpu += server.cpu() - before;
          moved += row.ours.back() * settings.seconds;
        }
        report.print(row);
        fmt::print("      server CPU {:.2f} s per GiB\n", cpu / moved * (1U << 30));
      }
    }
  }
}

// "BW average" of a program of perftest on our device, bytes per second.
double through_perftest(const Settings& settings, const std::string& program, double seconds) {
  const uint16_t port = free_port();
  const auto count = std::max(100.0, 1000 * seconds);
  const std::string command =
      fmt::format("LD_LIBRARY_PATH={}/lib/verbena {} -F -s 1048576 -n {:.0f} -p {}",
                  settings.programs, program, count, port);
  const ServerProcess target({"sh", "-c", "exec env " + command + " >/dev/null 2>&1"});
  for (int tries = 0; tries < 100; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    FILE* const output = popen((command + " 127.0.0.1 2>/dev/null").c_str(), "r");
    if (output == nullptr) break;
    std::array<char, 256> line{};
    double average = 0;
    while (std::fgets(line.data(), line.size(), output) != nullptr) {
      double peak = 0;
      uint64_t bytes = 0;
      uint64_t done = 0;
      double found = 0;
      if (std::sscanf(line.data(), "%lu %lu %lf %lf", &bytes, &done, &peak, &found) == 4) {
        average = found;
      }
    }
    pclose(output);
    if (average > 0) return average * (1U << 20);
  }
  fmt::print(stderr, "{} does not run: is perftest installed?\n", program);
  std::exit(1);
}

void beside_the_device(Report& report, const Settings& settings, const Servers& servers) {
  report.heading("1 MiB, 1 client, 16 under way, beside what the device itself moves");
  for (const bool write : {true, false}) {
    const std::string program = write ? "ib_read_bw" : "ib_write_bw";
    Row row{write ? "puts" : "gets", "MB/s", 1e6, "MB/s " + program, {.aim = 0.8}, {}, {}};
    for (uint32_t round = 0; round < settings.rounds; ++round) {
      row.ours.push_back(measure_ours(servers, {write, 1U << 20, 1, 16, settings.seconds}));
      row.theirs.push_back(through_perftest(settings, program, settings.seconds));
    }
    report.print(row);
  }
}

// Against a caller who has the CRC of what it writes, and takes that of what it reads. The server
// and the device make and check theirs in any case.
void by_integrity(Report& report, const Settings& settings, const Servers& servers) {
  report.heading("the client's CRCs on, against off; 1 client, 16 under way");
  for (const uint32_t bytes : {65536U, 1U << 20}) {
    for (const bool write : {false, true}) {
      Row row{fmt::format("{} {} bytes", write ? "write" : "read", bytes),
              "MB/s",
              1e6,
              "MB/s off",
              {.aim = 0.9},
              {},
              {}};
      for (uint32_t round = 0; round < settings.rounds; ++round) {
        Load load{write, bytes, 1, 16, settings.seconds};
        row.ours.push_back(measure_ours(servers, load));
        load.checked = false;
        row.theirs.push_back(measure_ours(servers, load));
      }
      report.print(row);
    }
  }
}

int run(const Settings& settings) {
  Report report;
  fmt::print("{}\n", machine());
  const Servers servers = start_servers(settings.programs, settings.fabrics, !settings.alone);
  const auto wanted = [&](std::string_view part) {
    return settings.match.empty() || part.contains(settings.match);
  };
  if (wanted("peers")) beside_peers(report, settings, servers);
  if (wanted("device")) beside_the_device(report, settings, servers);
  if (wanted("integrity")) by_integrity(report, settings, servers);
  if (wanted("clients")) how_it_grows(report, settings, servers);
  if (!settings.json.empty()) std::ofstream(settings.json) << report.json() << '\n';
  return 0;
}

}  // namespace
}  // namespace verbena::bench

int main(int argc, char** argv) {
  verbena::bench::Settings settings;
  CLI::App app(
      "The store's server beside Redis (no persistence), memcached and nbdkit's memory disk, on "
      "loopback.");
  app.add_option("--rounds", settings.rounds, "of each measurement; the median counts");
  app.add_option("--seconds", settings.seconds, "that each takes");
  app.add_option("--match", settings.match,
                 "only parts with this in their name: peers, device, integrity, clients");
  app.add_option("--bytes", settings.bytes,
                 "of peers: only requests of this size, 4096 or 1048576");
  app.add_option("--clients", settings.clients, "of peers: only so many clients, 1 or 8");
  app.add_option("--depth", settings.depth, "of peers: only so many under way, 1 or 16");
  app.add_flag("--alone", settings.alone, "without peers, for a profile");
  app.add_option("--fabric", settings.fabrics,
                 "of ours: verbs, ofi:PROVIDER; several by commas. Parts but peers use the first")
      ->delimiter(',');
  app.add_option("--json", settings.json, "also write all rows to this file");
  CLI11_PARSE(app, argc, argv);
  settings.programs =
      std::filesystem::canonical("/proc/self/exe").parent_path().parent_path().string();
  return verbena::bench::run(settings);
}
