// SPDX-License-Identifier: Apache-2.0
// How far a command is, on the standard error, where that is a terminal and somebody has waited for
// a second: bytes, rate, and how long it will take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace verbena::store_cli {

// What to show and when; knows no terminal and no clock.
class ProgressMeter {
 public:
  static constexpr uint64_t kPatienceNs = 1'000'000'000;
  static constexpr uint64_t kIntervalNs = 200'000'000;

  // all_bytes 0: not known.
  ProgressMeter(std::string what, uint64_t all_bytes, uint64_t now_ns)
      : what_(std::move(what)), all_(all_bytes), start_ns_(now_ns), mark_ns_(now_ns) {}
  void expect(uint64_t all_bytes) { all_ = all_bytes; }
  // A line of at most `width` columns, if it is time for one.
  [[nodiscard]] std::optional<std::string> update(uint64_t done_bytes, uint64_t now_ns,
                                                  size_t width);

 private:
  [[nodiscard]] std::string line(uint64_t done, size_t width) const;
  std::string what_;
  uint64_t all_;
  uint64_t start_ns_;
  uint64_t shown_ns_ = 0;
  // The rate is of the last few seconds: older ones count less and less.
  uint64_t mark_ns_;
  uint64_t mark_bytes_ = 0;
  double bytes_per_second_ = 0;
};

// The meter on a terminal. Leaves nothing behind when it goes.
class ProgressBar {
 public:
  ProgressBar(bool wanted, const std::string& what, uint64_t all_bytes);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar() { clear(); }
  void update(uint64_t done_bytes);
  void update(uint64_t done_bytes, uint64_t all_bytes);
  // Before anything else is written there.
  void clear();

 private:
  bool on_;
  bool shown_ = false;
  ProgressMeter meter_;
};

}  // namespace verbena::store_cli
