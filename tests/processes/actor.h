// SPDX-License-Identifier: Apache-2.0
// A forked process with a part to play, and a page it shares with the test: cards are shown there,
// and each says how far it is.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>

#include <sys/types.h>

#include "processes/party.h"

namespace verbena::processes {

struct Stage {
  std::array<Card, 4> cards;
  // Steps done, by card, and words of the test's own.
  std::array<std::atomic<uint32_t>, 4> steps;
  std::array<std::atomic<uint64_t>, 8> numbers;
  std::array<char, 512> words;
};

[[nodiscard]] Stage* make_stage();
void drop_stage(Stage* stage);

// For what an actor does: throws std::runtime_error if it did not go well.
inline void need(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

class Actor {
 public:
  // Runs `part` in a child; what it throws goes to stage->words, and the exit status is 1.
  Actor(Stage& stage, const std::function<void(Stage&)>& part);
  ~Actor();  // kills it, if it is still there
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Waits for its end; the exit status, or 128 + signal.
  int join();

 private:
  pid_t pid_ = -1;
};

}  // namespace verbena::processes
