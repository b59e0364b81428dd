// SPDX-License-Identifier: Apache-2.0
#include "store_cli/progress.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "store_cli/sizes.h"

namespace verbena::store_cli {
namespace {

[[nodiscard]] uint64_t now_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

[[nodiscard]] size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(STDERR_FILENO, text.data(), text.size());
    if (wrote <= 0) return;  // a line of progress is not worth an error
    text.remove_prefix(static_cast<size_t>(wrote));
  }
}

[[nodiscard]] std::string duration(double seconds) {
  if (seconds >= 100.0 * 3600) return "days";
  const auto whole = static_cast<unsigned>(std::ceil(seconds));
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

std::optional<std::string> ProgressMeter::update(uint64_t done, uint64_t now, size_t width) {
  if (now < start_ns_ + kPatienceNs || now < shown_ns_ + kIntervalNs) return std::nullopt;
  const double seconds = static_cast<double>(now - mark_ns_) / 1e9;
  const double rate = static_cast<double>(done - std::min(done, mark_bytes_)) / seconds;
  // The first figure is of all that was before; then a time constant of two seconds.
  const double weight = shown_ns_ == 0 ? 1 : 1 - std::exp(-seconds / 2);
  bytes_per_second_ += (rate - bytes_per_second_) * weight;
  mark_ns_ = now;
  mark_bytes_ = done;
  shown_ns_ = now;
  return line(done, width);
}

std::string ProgressMeter::line(uint64_t done, size_t width) const {
  const std::string rate =
      fmt::format("{}/s", human_size(static_cast<uint64_t>(bytes_per_second_)));
  if (all_ == 0) return fmt::format("{}  {}  {}", what_, human_size(done), rate).substr(0, width);

  const double part = std::min(1.0, static_cast<double>(done) / static_cast<double>(all_));
  std::string text = fmt::format("{:3.0f}%  {} of {}  {}", std::floor(part * 100),
                                 human_size(std::min(done, all_)), human_size(all_), rate);
  if (bytes_per_second_ > 0 && done < all_) {
    text +=
        fmt::format("  {} left", duration(static_cast<double>(all_ - done) / bytes_per_second_));
  }
  // The bar takes what is left, between 10 and 30 columns, or is left out.
  const size_t taken = what_.size() + text.size() + 6;
  if (taken + 10 <= width) {
    const size_t columns = std::min<size_t>(30, width - taken);
    const auto full = static_cast<size_t>(part * static_cast<double>(columns));
    return fmt::format("{}  [{:-<{}}]  {}", what_, std::string(full, '#'), columns, text);
  }
  return fmt::format("{}  {}", what_, text).substr(0, width);
}

ProgressBar::ProgressBar(bool wanted, const std::string& what, uint64_t all_bytes)
    : on_(wanted && ::isatty(STDERR_FILENO) == 1), meter_(what, all_bytes, now_ns()) {}

void ProgressBar::update(uint64_t done_bytes) {
  if (!on_) return;
  // The last column stays empty: some terminals go to the next line when it is written.
  const auto line = meter_.update(done_bytes, now_ns(), terminal_width() - 1);
  if (!line) return;
  write_all("\r" + *line + "\x1b[K");  // over the old line, then what is left of it: no flicker
  shown_ = true;
}

void ProgressBar::update(uint64_t done_bytes, uint64_t all_bytes) {
  meter_.expect(all_bytes);
  update(done_bytes);
}

void ProgressBar::clear() {
  if (shown_) write_all("\r\x1b[K");
  shown_ = false;
}

}  // namespace verbena::store_cli
