// SPDX-License-Identifier: Apache-2.0
// What the test and its members share: memory that all of them map. Members find one another here
// (no connection manager is involved), say what they did, and the test says what it is about to do
// to them.
//
// A process sits in a seat; each process that ever sat there has a number, its incarnation. A
// connection is between two incarnations.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace verbena::processes {

inline constexpr uint32_t kSeats = 16;

// One end's offer of a connection.
struct Offer {
  // Own incarnation << 32 | the peer's. Stored last (release), read first (acquire).
  std::atomic<uint64_t> stamp;
  std::atomic<uint64_t> ready;  // the stamp again, once the queue pair hears packets
  std::atomic<uint32_t> qpn;
  std::atomic<uint32_t> rkey;
  std::atomic<uint64_t> block;  // the peer's part of our memory
};

[[nodiscard]] constexpr uint64_t stamp_of(uint32_t own, uint32_t peer) {
  return uint64_t{own} << 32 | peer;
}

struct Seat {
  // By the test.
  std::atomic<uint32_t> incarnation;  // 0: nobody yet
  std::atomic<uint32_t> doomed;       // this incarnation is killed, or about to be
  std::atomic<uint32_t> host;
  std::atomic<uint32_t> finish;  // start nothing new
  std::atomic<uint32_t> leave;
  // By its process.
  std::atomic<uint32_t> joined;  // the incarnation that has opened its device
  std::atomic<uint32_t> finished;
  std::atomic<uint32_t> left;
  std::atomic<uint64_t> rounds;                                // in all
  std::array<std::atomic<uint64_t>, kSeats> rounds_with;       // of this incarnation
  std::array<std::atomic<uint32_t>, kSeats> rounds_with_peer;  // that peer's incarnation
  // Connections that ended as the standard says: in all, and those of this incarnation.
  std::atomic<uint64_t> deaths;
  std::array<std::atomic<uint64_t>, kSeats> deaths_with;
  std::atomic<uint64_t> messages;   // checked here
  std::atomic<uint32_t> overflows;  // datagrams its sockets dropped
  std::atomic<uint32_t> failed;
  std::array<char, 256> failure;
};

struct Board {
  std::array<Seat, kSeats> seats;
  std::array<std::array<Offer, kSeats>, kSeats> offers;  // [from][to]
};

// Anonymous shared memory, zeroed.
[[nodiscard]] Board* make_board();
void drop_board(Board* board);

}  // namespace verbena::processes
