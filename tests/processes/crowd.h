// SPDX-License-Identifier: Apache-2.0
// The test's side of the crowd: starts members (forked from the test, which itself never opens a
// device and has no threads), ends, stops and continues them, and waits for what they write on the
// board.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/types.h>

#include "base/time.h"
#include "processes/board.h"
#include "processes/member.h"
#include "processes/namespaces.h"

namespace verbena::processes {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
// Only ends a test that hangs; nothing is measured with it.
inline constexpr Duration kPatience = (kSanitized ? 120 : 60) * kSecond;

// A number from the environment, or the default.
[[nodiscard]] uint64_t number_from(const char* variable, uint64_t otherwise);
[[nodiscard]] device::EngineOptions engine_options(uint16_t port, const std::string& group);
// A port and a group that no other test has.
[[nodiscard]] device::EngineOptions own_engine_options();

// Waits until `condition` holds; false when patience ends.
[[nodiscard]] bool wait_until(const std::function<bool()>& condition, Duration bound = kPatience);

// What a group of processes could leave behind. Empty: nothing.
[[nodiscard]] std::string leftovers(const link::MembershipOptions& host);

class Crowd {
 public:
  // `before` runs in each new process, ahead of everything (namespaces, users).
  using Before = std::function<void(uint32_t seat)>;
  explicit Crowd(MemberOptions options, Before before = {});
  ~Crowd();
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  void start(uint32_t seat, uint32_t host = 0);
  void kill(uint32_t seat);
  void stop(uint32_t seat);
  void go_on(uint32_t seat);
  // Lets all that sit finish what they do; then they leave.
  [[nodiscard]] bool finish();
  void leave(uint32_t seat);

  [[nodiscard]] std::vector<uint32_t> sitting() const;
  // Whether these two have done a round in both directions, as who they are now.
  [[nodiscard]] bool talk(uint32_t a, uint32_t b) const;
  [[nodiscard]] bool all_talk() const;
  // Rounds of `from` with each of `with`, since they came.
  [[nodiscard]] uint64_t rounds_with(uint32_t from, const std::vector<uint32_t>& with) const;
  // What a member complains of; empty: nothing.
  [[nodiscard]] std::string failure() const;
  // Waits for the condition; also ends when somebody complains.
  [[nodiscard]] ::testing::AssertionResult eventually(const std::function<bool()>& condition) const;

  [[nodiscard]] Board& board() { return *board_; }
  [[nodiscard]] const MemberOptions& options() const { return options_; }
  [[nodiscard]] pid_t pid(uint32_t seat) const { return pids_[seat]; }

 private:
  void reap(uint32_t seat);

  MemberOptions options_;
  Before before_;
  Board* board_;
  std::array<pid_t, kSeats> pids_{};
};

}  // namespace verbena::processes
