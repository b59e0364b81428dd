// SPDX-License-Identifier: Apache-2.0
// The simulated host: the table that its members share, who is a member, and what they say to each
// other.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/unique_fd.h"
#include "link/shared_table.h"

namespace verbena::progress_sim {

class Host {
 public:
  // Of a member's receive buffer, in the ledger's costs.
  static constexpr uint32_t kBudget = 40'000;

  static constexpr uint8_t kMembers = 16;

  Host();
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  struct Message {
    enum class Kind : uint8_t { kRing, kBell, kNoRing, kWake };
    Kind kind{};
    uint8_t from = 0;
    uint32_t incarnation = 0;  // of it
    UniqueFd ring{};
    UniqueFd bell{};
  };
  struct Member {
    bool alive = false;
    UniqueFd control;  // eventfd: there is a message, or somebody came or went
    std::deque<Message> messages;
    // Datagrams: a pipe, which is readable while there is one.
    UniqueFd receive;
    UniqueFd send;
    int64_t in_flight = 0;  // costs of data in it that was asked credits for
    // Packets in its rings: whose sender has seen to it that the member wakes, and that were read.
    uint64_t announced = 0;
    uint64_t read = 0;
  };

  [[nodiscard]] link::SharedTable& table() { return *table_; }
  [[nodiscard]] Member& member(uint8_t slot) { return members_[slot]; }
  [[nodiscard]] std::vector<uint8_t> alive() const;
  [[nodiscard]] uint32_t incarnation(uint8_t slot) const {
    return table_->slots[slot].incarnation.load(std::memory_order_relaxed);
  }

  // A new process will have this slot; it joins when it is ready.
  void prepare(uint8_t slot);
  void join(uint8_t slot);
  // The process is dead, and the others notice.
  void remove(uint8_t slot);
  void tell(uint8_t slot, Message message);
  // In a forked child: a table of nobody takes its place.
  void abandon();

 private:
  void changed();

  link::SharedTable* table_;
  std::array<Member, kMembers> members_;
};

}  // namespace verbena::progress_sim
