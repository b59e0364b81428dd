// SPDX-License-Identifier: Apache-2.0
#include "common/report.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include <fmt/format.h>
#include <sys/utsname.h>

namespace verbena::bench {
namespace {

[[nodiscard]] std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  std::string part;
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    if (line.starts_with("model name")) return line.substr(colon + 2);
    if (line.starts_with("CPU part")) part = line.substr(colon + 2);
  }
  return part.empty() ? "unknown CPU" : "ARM part " + part;
}

[[nodiscard]] bool met(const Goal& goal, double limit, double ratio) {
  return goal.lower_is_better ? ratio <= limit : ratio >= limit;
}

[[nodiscard]] std::string verdict(const Row& row) {
  const Goal& goal = row.goal;
  if (goal.aim == 0 || row.ours.empty() || row.theirs.empty()) return "";
  const char* const sign = goal.lower_is_better ? "<=" : ">=";
  if (met(goal, goal.aim, row.ratio())) return fmt::format("aim {} {} met", sign, goal.aim);
  if (goal.must == 0) return fmt::format("aim {} {} missed", sign, goal.aim);
  return fmt::format("aim {0} {1} missed, must {0} {2} {3}", sign, goal.aim, goal.must,
                     met(goal, goal.must, row.ratio()) ? "met" : "MISSED");
}

}  // namespace

double percentile(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  const auto at = std::min(values.size() - 1,
                           static_cast<size_t>(static_cast<double>(values.size()) * percent / 100));
  std::ranges::nth_element(values, values.begin() + static_cast<ptrdiff_t>(at));
  return values[at];
}

double median(std::vector<double> values) { return percentile(std::move(values), 50); }

double Row::ratio() const {
  const double divisor = median(theirs);
  return divisor == 0 ? 0 : median(ours) / divisor;
}

void Report::heading(std::string_view text) {
  heading_ = text;
  fmt::print("\n{}\n", text);
  std::fflush(stdout);
}

void Report::print(const Row& row) {
  if (row.ours.empty()) {
    fmt::print("  {:<34} failed\n", row.name);
    ++missed_;
  } else if (row.theirs.empty()) {
    fmt::print("  {:<34} {:>9.2f} {}\n", row.name, median(row.ours) / row.scale, row.unit);
  } else {
    fmt::print("  {:<34} {:>9.2f} {:<8} {:>9.2f} {:<18} ratio {:>5.2f}  {}\n", row.name,
               median(row.ours) / row.scale, row.unit, median(row.theirs) / row.scale, row.peer,
               row.ratio(), verdict(row));
    if (row.goal.must != 0 && !met(row.goal, row.goal.must, row.ratio())) ++missed_;
  }
  std::fflush(stdout);
  rows_.push_back({heading_, row});
}

std::string Report::json() const {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [heading, row] : rows_) {
    rows.push_back({{"group", heading},
                    {"name", row.name},
                    {"unit", row.unit},
                    {"ours", median(row.ours) / row.scale},
                    {"peer", row.peer},
                    {"theirs", median(row.theirs) / row.scale},
                    {"ratio", row.ratio()},
                    {"rounds", row.ours.size()}});
  }
  return nlohmann::json{{"machine", machine()}, {"rows", rows}}.dump(2);
}

std::string machine() {
  utsname name{};
  ::uname(&name);
  return fmt::format("{}, {} cores, Linux {} {}, {}", cpu_model(),
                     std::thread::hardware_concurrency(), name.release, name.machine, __VERSION__);
}

}  // namespace verbena::bench
