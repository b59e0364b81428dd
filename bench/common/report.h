// SPDX-License-Identifier: Apache-2.0
// Rows of ours against theirs: medians over rounds that took turns, and the ratio of the two.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::bench {

[[nodiscard]] double median(std::vector<double> values);
[[nodiscard]] double percentile(std::vector<double> values, double percent);

// What a ratio (ours by theirs) is hoped and required to be. 0: nothing is.
struct Goal {
  double aim = 0;
  double must = 0;
  bool lower_is_better = false;
};

struct Row {
  std::string name;
  std::string unit;
  double scale = 1;  // values are divided by it when printed
  std::string peer;  // empty: nothing to compare with
  Goal goal;
  std::vector<double> ours;
  std::vector<double> theirs;

  [[nodiscard]] double ratio() const;
};

class Report {
 public:
  void heading(std::string_view text);
  void print(const Row& row);
  // All rows so far, and the machine, as JSON.
  [[nodiscard]] std::string json() const;
  [[nodiscard]] bool all_met() const { return missed_ == 0; }

 private:
  std::string heading_;
  struct Kept {
    std::string heading;
    Row row;
  };
  std::vector<Kept> rows_;
  uint32_t missed_ = 0;
};

// Model, cores, kernel, compiler: what a figure means nothing without.
[[nodiscard]] std::string machine();

}  // namespace verbena::bench
