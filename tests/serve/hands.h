// SPDX-License-Identifier: Apache-2.0
// Worker processes at a server, for tests that disturb them.
#pragma once

#include <array>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "base/random.h"
#include "serve/settings.h"
#include "serve/target.h"

namespace verbena::serve {

// A worker process, and how far it is.
struct Hand {
  std::string name;
  Process process;
  uint64_t steps = 0;
  uint64_t fate = 0;  // killed after so many
};

class Hands {
 protected:
  void hire(Hand& hand, const Target& target, bool restarts) {
    hand.name = "w" + std::to_string(++hired_);
    std::vector<std::string> command{VERBENA_SERVE_WORKER, target.host(),
                                     std::to_string(target.port()), hand.name,
                                     std::to_string(random_.next())};
    if (restarts) command.emplace_back("restarts");
    hand.process = Process(command);
    hand.steps = 0;
  }
  // Until one of them has gone on; false: one has ended, or nothing happens.
  [[nodiscard]] static bool listen(std::span<Hand> hands) {
    std::vector<pollfd> fds;
    for (const Hand& hand : hands) fds.push_back({hand.process.output(), POLLIN, 0});
    if (::poll(fds.data(), fds.size(), 120'000) <= 0) return false;
    for (size_t i = 0; i < hands.size(); ++i) {
      if (fds[i].revents == 0) continue;
      std::array<char, 256> bytes;
      const ssize_t got = read(fds[i].fd, bytes.data(), bytes.size());
      if (got <= 0) return false;
      hands[i].steps += static_cast<uint64_t>(got);
    }
    return true;
  }
  // They finish what they do, and have seen nothing wrong.
  static void dismiss(std::span<Hand> hands) {
    for (Hand& hand : hands) hand.process.close_input();
    for (Hand& hand : hands) {
      std::array<char, 256> bytes;
      while (read(hand.process.output(), bytes.data(), bytes.size()) > 0) {}
      EXPECT_EQ(hand.process.wait(), 0) << hand.name;
    }
  }

  const uint64_t seed_ = setting("VERBENA_SERVE_SEED", std::random_device{}());
  SeededRandom random_{seed_};

 private:
  uint64_t hired_ = 0;
};

}  // namespace verbena::serve
