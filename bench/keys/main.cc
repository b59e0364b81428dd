// SPDX-License-Identifier: Apache-2.0
// `./dev bench keys`: memory keys between two processes over UDP loopback, each against the same
// without them in the same run. docs/memory-keys.md says what the shapes are.
#include <CLI/CLI.hpp>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/report.h"
#include "transfers.h"

namespace verbena::bench {
namespace {

struct Settings {
  uint32_t rounds = 5;
  double scale = 1;
  std::string json;
};

struct Case {
  const char* name;
  Transfer transfer;
  Goal goal;
};

void transfers(Report& report, const Settings& settings) {
  using transport::Mtu;
  const auto total = static_cast<uint64_t>(settings.scale * static_cast<double>(1u << 30));
  for (const Mtu mtu : {Mtu::k4096, Mtu::k1024}) {
    const std::vector<Case> cases{
        {"into a list of 256 pieces", {Shape::kPlain, Shape::kList, mtu}, {.aim = 0.9}},
        {"out of a list of 256 pieces", {Shape::kList, Shape::kPlain, mtu}, {.aim = 0.9}},
        {"into 4048 + 48", {Shape::kPlain, Shape::kInterleave, mtu}, {.aim = 0.9}},
        {"into 4048 + 48, CRC-32 made", {Shape::kPlain, Shape::kSigned, mtu}, {.aim = 0.8}},
        {"out of 4048 + 48, CRC-32 checked", {Shape::kSigned, Shape::kPlain, mtu}, {.aim = 0.8}},
    };
    const auto measure = [&](const Transfer& what) {
      const Measured measured = run_ends(
          [&](Role role, const Control& control) { return transfer(role, control, what, total); });
      return measured.values.empty() ? 0.0 : measured.values.front();
    };
    report.heading(fmt::format("WRITE of 1 MiB, MTU {}, against memory that lies side by side",
                               transport::mtu_bytes(mtu)));
    std::vector<Row> rows;
    for (const Case& c : cases) rows.push_back({c.name, "GB/s", 1e9, "GB/s plain", c.goal, {}, {}});
    for (uint32_t round = 0; round < settings.rounds; ++round) {
      const double plain = measure({Shape::kPlain, Shape::kPlain, mtu});
      for (size_t i = 0; i < cases.size(); ++i) {
        rows[i].ours.push_back(measure(cases[i].transfer));
        rows[i].theirs.push_back(plain);
      }
    }
    for (const Row& row : rows) report.print(row);
  }
}

int run(const Settings& settings) {
  fmt::print("{}\nMedians of {} rounds in turns; each end on a core of its own.\n", machine(),
             settings.rounds);
  Report report;
  transfers(report, settings);
  if (!settings.json.empty()) std::ofstream(settings.json) << report.json() << '\n';
  return report.all_met() ? 0 : 1;
}

}  // namespace
}  // namespace verbena::bench

int main(int argc, char** argv) {
  verbena::bench::Settings settings;
  CLI::App app{"Memory keys, against memory that lies side by side."};
  app.add_option("--rounds", settings.rounds, "Each measurement so many times; medians are shown");
  app.add_option("--scale", settings.scale, "Of the work in each measurement");
  app.add_option("--json", settings.json, "Write the figures to this file as well");
  CLI11_PARSE(app, argc, argv);
  return verbena::bench::run(settings);
}
