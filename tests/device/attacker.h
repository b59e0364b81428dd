// SPDX-License-Identifier: Apache-2.0
// A process of this user with bad intentions, or none at all: sends what it likes to the RoCE port,
// many packets to a system call (GSO).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "link/udp_socket.h"
#include "wire/encode.h"
#include "wire/gid.h"
#include "wire/icrc.h"

namespace verbena::device::testing {

class Attacker {
 public:
  // Sends from `source` to `destination`, both of this host, from a member's socket: others are not
  // heard (src/link/strangers_test.cc).
  Attacker(const link::UdpSockets& sockets, const wire::Gid& source, const wire::Gid& destination,
           uint16_t port);

  // BTH to pad, with an ICRC that is right for this sender.
  void sign(std::vector<uint8_t>& packet) const;
  // Keeps a packet (BTH to ICRC) for the next send; those of one size go together.
  void add(std::span<const uint8_t> packet);
  void flush();
  [[nodiscard]] uint64_t sent() const { return sent_; }

 private:
  wire::IcrcFlow flow_;
  int fd_;
  std::vector<uint8_t> batch_;
  size_t each_ = 0;
  uint64_t sent_ = 0;
};

// Nobody's queue pair in this process: the slot of `known`, another index.
[[nodiscard]] Qpn stranger(Qpn known, RandomSource& random);

}  // namespace verbena::device::testing
