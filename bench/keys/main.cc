// SPDX-License-Identifier: Apache-2.0
// `./dev bench keys`: memory keys between two processes over UDP loopback, each against the same
// without them in the same run. docs/memory-keys.md says what the shapes are.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "chart.h"
#include "common/report.h"
#include "copies.h"
#include "transfers.h"
#include "workarounds.h"

namespace verbena::bench {
namespace {

struct Settings {
  uint32_t rounds = 5;
  double scale = 1;
  std::string json;
  std::string svg;
  std::string match;
};

struct Case {
  const char* name;
  Transfer transfer;
  Goal goal;
};

template <typename Measure>
[[nodiscard]] double first(Measure&& measure) {
  const Measured measured = run_ends(measure);
  return measured.values.empty() ? 0.0 : measured.values.front();
}

void transfers(Report& report, const Settings& settings) {
  using transport::Mtu;
  const auto total = static_cast<uint64_t>(settings.scale * static_cast<double>(1u << 30));
  for (const Mtu mtu : {Mtu::k4096, Mtu::k1024}) {
    std::vector<Case> cases{
        {"into a list of 256 pieces", {Shape::kPlain, Shape::kList, mtu}, {.aim = 0.9}},
        {"out of a list of 256 pieces", {Shape::kList, Shape::kPlain, mtu}, {.aim = 0.9}},
        {"into 4048 + 48", {Shape::kPlain, Shape::kInterleave, mtu}, {.aim = 0.9}},
        {"into 4048 + 48, CRC-32 made", {Shape::kPlain, Shape::kSigned, mtu}, {.aim = 0.8}},
        {"out of 4048 + 48, CRC-32 checked", {Shape::kSigned, Shape::kPlain, mtu}, {.aim = 0.8}},
    };
    std::erase_if(
        cases, [&](const Case& c) { return !std::string_view(c.name).contains(settings.match); });
    const auto measure = [&](const Transfer& what) {
      return first(
          [&](Role role, const Control& control) { return transfer(role, control, what, total); });
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

void workarounds(Report& report, const Settings& settings) {
  const auto transfers = std::max<uint32_t>(1, static_cast<uint32_t>(400 * settings.scale));
  report.heading(
      "Filling a list of 256 unaligned pieces, 1 MiB, registration included, one at a time");
  std::vector<Row> rows;
  for (const Way way : kWays) {
    rows.push_back({name_of(way), "GB/s", 1e9, "GB/s indirect key", {}, {}, {}});
  }
  for (uint32_t round = 0; round < settings.rounds; ++round) {
    for (size_t i = 0; i < kWays.size(); ++i) {
      rows[i].ours.push_back(first([&](Role role, const Control& control) {
        return fill_list(role, control, kWays[i], transfers);
      }));
    }
  }
  for (Row& row : rows) {
    row.theirs = rows.front().ours;
    report.print(row);
  }
  if (!settings.svg.empty()) std::ofstream(settings.svg) << bar_chart(rows) << '\n';
}

void rates(Report& report, const Settings& settings) {
  const auto count = std::max<uint32_t>(1, static_cast<uint32_t>(50'000 * settings.scale));
  report.heading(
      "Configuring and invalidating a key, against registering and deregistering a region");
  for (const uint32_t pieces : {1u, 16u, 256u}) {
    Row row{fmt::format("a list of {} pieces of 4 KiB", pieces),
            "/s",
            1,
            "/s region of as much",
            {},
            {},
            {}};
    for (uint32_t round = 0; round < settings.rounds; ++round) {
      row.ours.push_back(first([&](Role role, const Control& control) {
        return keys_per_second(role, control, pieces, count);
      }));
      row.theirs.push_back(first([&](Role role, const Control& control) {
        return regions_per_second(role, control, pieces * 4096, count / 10);
      }));
    }
    report.print(row);
  }
}

void copies(Report& report, const Settings& settings) {
  report.heading("Copying with CRC-32, against memcpy and then ISA-L's CRC of the source");
  for (const uint32_t bytes : {4u << 10, 1u << 20}) {
    Row row{fmt::format("{} KiB", bytes >> 10),
            "GB/s",
            1e9,
            "GB/s memcpy + ISA-L",
            {.aim = 1.0},
            {},
            {}};
    for (uint32_t round = 0; round < settings.rounds; ++round) {
      const uint64_t total =
          static_cast<uint64_t>(settings.scale * static_cast<double>(4ull << 30));
      row.ours.push_back(copy_with_crc(bytes, total));
      row.theirs.push_back(copy_then_isal(bytes, total));
    }
    report.print(row);
  }
}

int run(const Settings& settings) {
  fmt::print("{}\nMedians of {} rounds in turns; each end on a core of its own.\n", machine(),
             settings.rounds);
  Report report;
  if (settings.match.empty()) copies(report, settings);
  if (settings.match.empty()) rates(report, settings);
  transfers(report, settings);
  if (settings.match.empty()) workarounds(report, settings);
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
  app.add_option("--match", settings.match, "Only the WRITEs whose names have this, e.g. 'CRC'");
  app.add_option("--svg", settings.svg, "Draw the ways to fill a list to this file");
  app.add_option("--json", settings.json, "Write the figures to this file as well");
  CLI11_PARSE(app, argc, argv);
  return verbena::bench::run(settings);
}
