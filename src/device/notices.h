// SPDX-License-Identifier: Apache-2.0
// What makes a program hang without a word, said in one line on the standard error: once in a
// process for each kind, unless the user wants quiet. The engine says it under its lock; the helper
// writes it later, without the lock, so that nobody waits for a terminal. Nothing is allocated.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace verbena::device {

class Notices {
 public:
  enum class Kind : uint8_t {
    kCompletionsLost,
    kSilentError,
    kPacketsDropped,
    kWithoutRing,
    kMtuRefused,
    kTooLarge,
    kBlackHole,
    kNameHeld,
    kWrongTag,
    kTagWithoutSecret,
    kCount
  };
  struct Line {
    std::array<char, 400> text{};
    size_t bytes = 0;  // 0: none
    [[nodiscard]] std::string_view view() const { return {text.data(), bytes}; }
  };
  using Lines = std::array<Line, static_cast<size_t>(Kind::kCount)>;

  explicit Notices(bool quiet = false) : quiet_(quiet) {}
  void set_quiet(bool quiet) { quiet_ = quiet; }

  // --- the engine, under its lock
  // Whether such a thing is still to be said: what it takes to find out is wasted otherwise.
  [[nodiscard]] bool wants(Kind kind) const;
  [[gnu::format(printf, 3, 4)]] void say(Kind kind, const char* format, ...);
  // Lines that were said and not taken yet.
  [[nodiscard]] Lines take();

  // --- without the lock
  // Whether there is something to take; a hint.
  [[nodiscard]] bool pending() const { return pending_.load(std::memory_order_relaxed); }
  static void write(const Lines& lines);

 private:
  bool quiet_;
  std::atomic<bool> pending_{false};
  Lines lines_;
};

}  // namespace verbena::device
