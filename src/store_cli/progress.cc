// SPDX-License-Identifier: Apache-2.0
#include "store_cli/progress.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/utf8.h"
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

[[nodiscard]] double part_of(uint64_t done, uint64_t all) {
  return std::min(1.0, static_cast<double>(done) / static_cast<double>(all));
}

// Takes a character off, or a byte of what is none. Its columns on a terminal: too many rather than
// too few.
size_t take_columns(std::string_view& text) {
  constexpr uint32_t kFirstWide = 0x1100;
  std::string_view rest = text;
  const uint32_t character = take_character(rest);
  text.remove_prefix(std::max<size_t>(text.size() - rest.size(), 1));
  return character >= kFirstWide ? 2 : 1;
}

[[nodiscard]] size_t columns_of(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) columns += take_columns(text);
  return columns;
}

// The end of a name, which says more than its beginning.
[[nodiscard]] std::string shortened(std::string_view name, size_t width) {
  if (columns_of(name) <= width) return std::string(name);
  constexpr std::string_view kCut = "...";
  while (!name.empty() && columns_of(name) + kCut.size() > width) {
    take_columns(name);
  }
  return std::string(kCut) + std::string(name);
}

}  // namespace

std::optional<std::string> ProgressMeter::update(uint64_t done, uint64_t now, size_t width,
                                                 const FileProgress& file) {
  if (!due(now)) return std::nullopt;
  const double seconds = static_cast<double>(now - mark_ns_) / 1e9;
  const double rate = static_cast<double>(done - std::min(done, mark_bytes_)) / seconds;
  // The first figure is of all that was before; then a time constant of two seconds.
  const double weight = shown_ns_ == 0 ? 1 : 1 - std::exp(-seconds / 2);
  bytes_per_second_ += (rate - bytes_per_second_) * weight;
  mark_ns_ = now;
  mark_bytes_ = done;
  shown_ns_ = now;
  return line(done, width, file);
}

std::string ProgressMeter::time_left(uint64_t bytes) const {
  if (!(bytes_per_second_ > 0) || bytes == 0) return {};
  return fmt::format("  {} left", duration(static_cast<double>(bytes) / bytes_per_second_));
}

// Empty if there is no room to tell one name from another.
std::string ProgressMeter::text_of(const FileProgress& file, size_t width) const {
  constexpr size_t kLeastName = 8;
  constexpr size_t kShortName = 12;
  if (file.name.empty()) return {};
  const uint64_t done = std::min(file.done_bytes, file.all_bytes);
  const uint64_t all = file.all_bytes;
  std::string figures;
  if (all > 0) {
    figures = fmt::format(" {:.0f}%", std::floor(part_of(done, all) * 100));
    const std::string left = time_left(all - done);
    if (figures.size() + left.size() + kShortName + 2 <= width) figures += left;
  }
  if (figures.size() + kLeastName + 2 > width) return {};
  return "  " + shortened(file.name, width - figures.size() - 2) + figures;
}

std::string ProgressMeter::line(uint64_t done, size_t width, const FileProgress& file) const {
  const std::string rate =
      fmt::format("{}/s", human_size(static_cast<uint64_t>(bytes_per_second_)));
  std::string text = fmt::format("{}  {}", human_size(done), rate);
  if (all_ > 0) {
    done = std::min(done, all_);
    text = fmt::format("{:3.0f}%  {} of {}  {}{}", std::floor(part_of(done, all_) * 100),
                       human_size(done), human_size(all_), rate, time_left(all_ - done));
  }
  const size_t least = what_.size() + 2 + text.size();
  if (least > width) return fmt::format("{}  {}", what_, text).substr(0, width);
  const std::string of_file = text_of(file, width - least);
  // The bar takes what is left, between 10 and 30 columns, or is left out.
  const size_t taken = least + columns_of(of_file) + 4;
  if (all_ == 0 || taken + 10 > width) return fmt::format("{}  {}{}", what_, text, of_file);
  const size_t columns = std::min<size_t>(30, width - taken);
  const auto full = static_cast<size_t>(part_of(done, all_) * static_cast<double>(columns));
  return fmt::format("{}  [{:-<{}}]  {}{}", what_, std::string(full, '#'), columns, text, of_file);
}

ProgressBar::ProgressBar(bool wanted, const std::string& what, uint64_t all_bytes)
    : on_(wanted && ::isatty(STDERR_FILENO) == 1), meter_(what, all_bytes, now_ns()) {}

bool ProgressBar::due() const { return on_ && meter_.due(now_ns()); }

void ProgressBar::update(uint64_t done_bytes, const FileProgress& file) {
  if (!on_) return;
  // The last column stays empty: some terminals go to the next line when it is written.
  const auto line = meter_.update(done_bytes, now_ns(), terminal_width() - 1, file);
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
