// SPDX-License-Identifier: Apache-2.0
// Every datagram that members send each other, and what became of it: it is taken by whom it is
// for, once, unless that one or somebody who had it in hand died.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>

namespace verbena::members_sim {

class Letters {
 public:
  static constexpr size_t kBytes = 40;
  using Bytes = std::array<uint8_t, kBytes>;

  struct Letter {
    uint32_t from = 0;  // processes
    uint32_t to = 0;
    uint32_t cost = 0;
    uint32_t in_hand = 0;  // of who read it last; 0: of nobody yet
    bool taken = false;
    bool refused = false;  // its sender was gone
    bool counted = false;  // among what is on its way
  };

  // As it travels.
  [[nodiscard]] Bytes post(const Letter& letter, uint8_t slot);
  // The one that is in there; nullptr: it is none.
  [[nodiscard]] Letter* find(std::span<const uint8_t> bytes);
  // It has left the sockets.
  void uncount(Letter& letter);
  // Costs of what lies in sockets.
  [[nodiscard]] uint64_t on_the_way_to(uint32_t process) { return on_the_way_[process]; }
  [[nodiscard]] bool are_on_the_way_from(uint32_t process) const;
  [[nodiscard]] const std::deque<Letter>& all() const { return letters_; }

 private:
  std::deque<Letter> letters_;  // stay where they are
  std::map<uint32_t, uint64_t> on_the_way_;
};

}  // namespace verbena::members_sim
