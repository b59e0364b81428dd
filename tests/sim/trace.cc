// SPDX-License-Identifier: Apache-2.0
#include "sim/trace.h"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace verbena::sim {

void violate(const char* format, ...) {
  std::array<char, 1024> text{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  throw Violation(text.data());
}

void Trace::mix(uint64_t a, uint64_t b, uint64_t c) {
  ++events_;
  for (const uint64_t word : {static_cast<uint64_t>(now_), a, b, c}) {
    hash_ = (hash_ ^ word) * 0x100000001b3;
    hash_ ^= hash_ >> 29;
  }
}

void Trace::mix_bytes(std::span<const uint8_t> bytes) {
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, 8);
    hash_ = (hash_ ^ word) * 0x100000001b3;
    hash_ ^= hash_ >> 29;
  }
  for (; i < bytes.size(); ++i) hash_ = (hash_ ^ bytes[i]) * 0x100000001b3;
}

void Trace::say(const char* format, ...) const {
  std::printf("%12.3f us  ", static_cast<double>(now_) / 1000.0);
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
}

}  // namespace verbena::sim
