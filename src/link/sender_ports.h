// SPDX-License-Identifier: Apache-2.0
// From which UDP ports the members of this host send. A port is its member's alone as long as the
// member lives, so whoever else sends from an address of this host is none of them, whatever its
// packets claim.
//
// The last packets of a member may be read after it has left, when its port is anybody's to take.
// They come before whatever a new owner of the port sends, and the credits (credits.h) say how much
// they are: that much is taken. What is sent without credits, to QP1 and to groups, is taken for a
// short time.
//
// Owned by the engine's lock holder.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "link/shared_table.h"

namespace verbena::link {

class SenderPorts {
 public:
  // How long after a member has left its last packets are taken: with credits, and without.
  static constexpr Duration kUnreadFor = 10 * kSecond;
  static constexpr Duration kUnpaidFor = kSecond;

  // The members changed. Before the ledger forgets what those who left had sent (credits.h).
  void refresh(const SharedTable& table, uint8_t self, Time now);
  // 0: nobody's.
  [[nodiscard]] uint8_t member(Family family, uint16_t port) const {
    return port < kFirstPort ? uint8_t{0} : slots_[index_of(family)][port - kFirstPort];
  }

  // Of a packet from a port that is no member's: is it one that a member sent before it left?
  enum class Pays : uint8_t {
    kNothing,      // it is to QP1, or to a group
    kForDatagram,  // alone, or the first of several in a datagram
    kForBytes,     // another one
    kElsewhere,    // it is for another process, whose ledger knows
  };
  [[nodiscard]] bool was_left_behind(Family family, uint16_t port, Pays pays, uint32_t bytes,
                                     Time now);

 private:
  static constexpr uint16_t kFirstPort = 0xc000;  // open_udp()

  struct Known {
    uint32_t incarnation = 0;
    std::array<uint16_t, kFamilies> port{};
  };
  struct Departed {
    std::array<uint16_t, kFamilies> port{};
    Time left_at = 0;
    uint64_t unread = 0;  // datagram_cost() of what it sent us
  };

  std::array<std::array<uint8_t, 0x10000 - kFirstPort>, kFamilies> slots_{};
  std::array<Known, kSlots> known_{};
  std::vector<Departed> departed_;  // the oldest first
};

}  // namespace verbena::link
