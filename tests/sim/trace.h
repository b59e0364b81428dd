// SPDX-License-Identifier: Apache-2.0
// What happened, in order: always as a hash (the same seed must give the same one), in words when
// asked. And the way a checker says no.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "base/time.h"

namespace verbena::sim {

// A rule was broken; ends the seed.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};
[[noreturn]] [[gnu::format(printf, 1, 2)]] void violate(const char* format, ...);
// The condition must hold, or the text says what was broken.
#define SIM_REQUIRE(condition, ...)                         \
  do {                                                      \
    if (!(condition)) ::verbena::sim::violate(__VA_ARGS__); \
  } while (false)

class Trace {
 public:
  explicit Trace(bool print) : print_(print) {}

  [[nodiscard]] bool printing() const { return print_; }
  void set_time(Time now) { now_ = now; }
  // One event as numbers.
  void mix(uint64_t a, uint64_t b = 0, uint64_t c = 0);
  void mix_bytes(std::span<const uint8_t> bytes);
  // One event in words; call only when printing().
  [[gnu::format(printf, 2, 3)]] void say(const char* format, ...) const;
  [[nodiscard]] uint64_t hash() const { return hash_; }
  [[nodiscard]] uint64_t events() const { return events_; }

 private:
  bool print_;
  Time now_ = 0;
  uint64_t hash_ = 0xcbf29ce484222325;
  uint64_t events_ = 0;
};

}  // namespace verbena::sim
