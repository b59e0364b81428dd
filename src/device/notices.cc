// SPDX-License-Identifier: Apache-2.0
#include "device/notices.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <utility>

#include "device/standard_error.h"

namespace verbena::device {
namespace {

// Of the process: it may open and close the device often.
std::array<std::atomic<bool>, static_cast<size_t>(Notices::Kind::kCount)> notices_said{};

}  // namespace

bool Notices::wants(Kind kind) const {
  return !quiet_ && !notices_said[static_cast<size_t>(kind)].load(std::memory_order_relaxed);
}

void Notices::say(Kind kind, const char* format, ...) {
  if (quiet_ || notices_said[static_cast<size_t>(kind)].exchange(true)) return;
  Line& line = lines_[static_cast<size_t>(kind)];
  std::array<char, 320> words{};
  va_list arguments;
  va_start(arguments, format);
  (void)std::vsnprintf(words.data(), words.size(), format, arguments);
  va_end(arguments);
  const int bytes = std::snprintf(line.text.data(), line.text.size(),
                                  "verbena: %s (VERBENA_QUIET=1 turns this off)\n", words.data());
  line.bytes = std::min(static_cast<size_t>(std::max(bytes, 0)), line.text.size() - 1);
  pending_.store(true, std::memory_order_relaxed);
}

Notices::Lines Notices::take() {
  pending_.store(false, std::memory_order_relaxed);
  return std::exchange(lines_, {});
}

void Notices::write(const Lines& lines) {
  for (const Line& line : lines) {
    if (line.bytes != 0) (void)StandardError::of_process().write(line.view());
  }
}

}  // namespace verbena::device
