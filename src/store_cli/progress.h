// SPDX-License-Identifier: Apache-2.0
// How far a command is, on the standard error, where that is a terminal and somebody has waited for
// a second: bytes, rate, and how long it will take, in all and of the file it is at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::store_cli {

struct FileProgress {
  std::string_view name{};  // that a terminal may show; empty: there is none
  uint64_t done_bytes = 0;
  uint64_t all_bytes = 0;  // 0: not known
};

// What to show and when; knows no terminal and no clock.
class ProgressMeter {
 public:
  static constexpr uint64_t kPatienceNs = 1'000'000'000;
  static constexpr uint64_t kIntervalNs = 200'000'000;

  // all_bytes 0: not known.
  ProgressMeter(std::string what, uint64_t all_bytes, uint64_t now_ns)
      : what_(std::move(what)), all_(all_bytes), start_ns_(now_ns), mark_ns_(now_ns) {}
  void expect(uint64_t all_bytes) { all_ = all_bytes; }
  [[nodiscard]] bool due(uint64_t now_ns) const {
    return now_ns >= start_ns_ + kPatienceNs && now_ns >= shown_ns_ + kIntervalNs;
  }
  // A line of at most `width` columns, if it is time for one.
  [[nodiscard]] std::optional<std::string> update(uint64_t done_bytes, uint64_t now_ns,
                                                  size_t width, const FileProgress& file = {});

 private:
  [[nodiscard]] std::string line(uint64_t done, size_t width, const FileProgress& file) const;
  [[nodiscard]] std::string text_of(const FileProgress& file, size_t width) const;
  [[nodiscard]] std::string time_left(uint64_t bytes) const;
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
  // An update would be shown.
  [[nodiscard]] bool due() const;
  void update(uint64_t done_bytes, const FileProgress& file = {});
  void update(uint64_t done_bytes, uint64_t all_bytes);
  // Before anything else is written there.
  void clear();

 private:
  bool on_;
  bool shown_ = false;
  ProgressMeter meter_;
};

}  // namespace verbena::store_cli
