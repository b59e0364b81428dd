// SPDX-License-Identifier: Apache-2.0
// `./dev bench serve`: the store's server beside Redis and memcached, on loopback, in one run: the
// same sizes, clients and requests under way. All of them keep the values in memory.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/ends.h"
#include "common/report.h"
#include "load.h"

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
  bool alone = false;    // without the peers, for a profile
  std::string programs;  // the folder of this build's
};

uint16_t free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    std::perror("bind");
    std::exit(1);
  }
  close(fd);
  return ntohs(address.sin_port);
}

// A server in a process of its own, which ends with this.
class ServerProcess {
 public:
  explicit ServerProcess(const std::vector<std::string>& words) {
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (freopen("/dev/null", "w", stdout) == nullptr) _exit(127);
      std::vector<char*> arguments;
      for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
      arguments.push_back(nullptr);
      execvp(arguments[0], arguments.data());
      _exit(127);
    }
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  // False: it has ended.
  [[nodiscard]] bool wait_for(uint16_t port) const {
    for (int i = 0; i < 1000 && waitpid(pid_, nullptr, WNOHANG) == 0; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(port);
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      const bool there =
          connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
      close(fd);
      if (there) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  // Seconds of CPU that it has used.
  [[nodiscard]] double cpu() const {
    std::ifstream file(fmt::format("/proc/{}/stat", pid_));
    std::string text((std::istreambuf_iterator<char>(file)), {});
    std::istringstream fields(text.substr(text.rfind(')') + 2));
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;
    uint64_t user = 0;
    uint64_t system = 0;
    fields >> user >> system;
    return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }

 private:
  pid_t pid_ = -1;
};

struct Servers {
  uint16_t ours = free_port();
  uint16_t redis = free_port();
  uint16_t memcached = free_port();
};

double measure_ours(const Settings& settings, const Servers& servers, const Load& load) {
  return through_verbena(load, servers.ours, settings.programs + "/lib/verbena");
}

void beside_peers(Report& report, const Settings& settings, const Servers& servers) {
  struct Case {
    uint32_t bytes;
    Goal depth1;
    Goal depth16;
  };
  for (const Case& c : {Case{4096, {.aim = 0.7}, {.aim = 1.0}},
                        Case{1U << 20, {.aim = 1.5}, {.aim = 1.5}}}) {
    if (settings.bytes != 0 && settings.bytes != c.bytes) continue;
    for (const uint32_t clients : {1U, 8U}) {
      if (settings.clients != 0 && settings.clients != clients) continue;
      for (const uint32_t depth : {1U, 16U}) {
        if (settings.depth != 0 && settings.depth != depth) continue;
        report.heading(fmt::format("{} bytes, {} client{}, {} under way each", c.bytes, clients,
                                   clients == 1 ? "" : "s", depth));
        for (const bool write : {false, true}) {
          const Load load{write, c.bytes, clients, depth, settings.seconds};
          const Goal goal = depth == 1 ? c.depth1 : c.depth16;
          const std::string name = write ? "write" : "read";
          const bool large = c.bytes > 65536;
          const char* const unit = large ? "MB/s" : "k/s";
          const double scale = large ? 1e6 : 1e3 * c.bytes;
          Row redis{name, unit, scale, settings.alone ? "" : fmt::format("{} Redis", unit), goal, {}, {}};
          Row memcached{name, unit, scale, fmt::format("{} memcached", unit), goal, {}, {}};
          for (uint32_t round = 0; round < settings.rounds; ++round) {
            const double ours = measure_ours(settings, servers, load);
            redis.ours.push_back(ours);
            memcached.ours.push_back(ours);
            if (settings.alone) continue;
            redis.theirs.push_back(through_redis(load, servers.redis));
            memcached.theirs.push_back(through_memcached(load, servers.memcached));
          }
          report.print(redis);
          if (!settings.alone) report.print(memcached);
        }
      }
    }
  }
}

void how_it_grows(Report& report, const Settings& settings, const Servers& servers,
                  const ServerProcess& server) {
  report.heading("by clients, 4 under way each; server CPU beside");
  for (const uint32_t bytes : {4096U, 1U << 20}) {
    for (const uint32_t clients : {1U, 8U, 64U}) {
      for (const bool write : {false, true}) {
        const Load load{write, bytes, clients, 4, settings.seconds};
        Row row{fmt::format("{} {} bytes, {} clients", write ? "write" : "read", bytes, clients),
                "MB/s", 1e6, "", {}, {}, {}};
        double cpu = 0;
        double moved = 0;
        for (uint32_t round = 0; round < settings.rounds; ++round) {
          const double before = server.cpu();
          row.ours.push_back(measure_ours(settings, servers, load));
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
      row.ours.push_back(
          measure_ours(settings, servers, {write, 1U << 20, 1, 16, settings.seconds}));
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
              "MB/s", 1e6, "MB/s off", {.aim = 0.9}, {}, {}};
      for (uint32_t round = 0; round < settings.rounds; ++round) {
        Load load{write, bytes, 1, 16, settings.seconds};
        row.ours.push_back(measure_ours(settings, servers, load));
        load.checked = false;
        row.theirs.push_back(measure_ours(settings, servers, load));
      }
      report.print(row);
    }
  }
}

int run(const Settings& settings) {
  Servers servers;
  const ServerProcess ours({settings.programs + "/bin/verbena", "serve", "--memory", "8G",
                            "--listen", fmt::format("127.0.0.1:{}", servers.ours), "--quiet"});
  const ServerProcess redis({"redis-server", "--port", std::to_string(servers.redis), "--bind",
                             "127.0.0.1", "--save", "", "--appendonly", "no"});
  const ServerProcess memcached({"memcached", "-l", "127.0.0.1", "-p",
                                 std::to_string(servers.memcached), "-m", "8192", "-I", "4m", "-u",
                                 "nobody"});
  if (!ours.wait_for(servers.ours) || !redis.wait_for(servers.redis) ||
      !memcached.wait_for(servers.memcached)) {
    fmt::print(stderr, "a server does not start: are redis-server and memcached installed?\n");
    return 1;
  }
  Report report;
  fmt::print("{}\n", machine());
  const auto wanted = [&](std::string_view part) {
    return settings.match.empty() || part.contains(settings.match);
  };
  if (wanted("peers")) beside_peers(report, settings, servers);
  if (wanted("device")) beside_the_device(report, settings, servers);
  if (wanted("integrity")) by_integrity(report, settings, servers);
  if (wanted("clients")) how_it_grows(report, settings, servers, ours);
  if (!settings.json.empty()) std::ofstream(settings.json) << report.json() << '\n';
  return 0;
}

}  // namespace
}  // namespace verbena::bench

int main(int argc, char** argv) {
  verbena::bench::Settings settings;
  CLI::App app("The store's server beside Redis (no persistence) and memcached, on loopback.");
  app.add_option("--rounds", settings.rounds, "of each measurement; the median counts");
  app.add_option("--seconds", settings.seconds, "that each takes");
  app.add_option("--match", settings.match, "only parts with this in their name: peers, device, integrity, clients");
  app.add_option("--bytes", settings.bytes, "of peers: only requests of this size, 4096 or 1048576");
  app.add_option("--clients", settings.clients, "of peers: only so many clients, 1 or 8");
  app.add_option("--depth", settings.depth, "of peers: only so many under way, 1 or 16");
  app.add_flag("--alone", settings.alone, "without Redis and memcached, for a profile");
  app.add_option("--json", settings.json, "also write all rows to this file");
  CLI11_PARSE(app, argc, argv);
  settings.programs =
      std::filesystem::canonical("/proc/self/exe").parent_path().parent_path().string();
  return verbena::bench::run(settings);
}
