// SPDX-License-Identifier: Apache-2.0
// In place of src/link/membership.h: what SharedLink asks of its host, from a simulated one. Who
// joins, dies and says what to whom is decided in host.h.
#pragma once

#include <array>
#include <cstdint>

#include "base/ids.h"
#include "base/unique_fd.h"
#include "link/ring_events.h"
#include "link/shared_table.h"
#include "link/udp_socket.h"
#include "wire/gid.h"

namespace verbena::progress_sim {
class Host;
}  // namespace verbena::progress_sim

namespace verbena::link {

class Membership {
 public:
  Membership(progress_sim::Host& host, uint8_t slot) : host_(host), slot_(slot) {}

  // Takes messages of others.
  void on_ready();
  [[nodiscard]] uint8_t slot() const { return slot_; }
  [[nodiscard]] SharedTable& table();
  void set_ring_events(RingEvents* events) { events_ = events; }
  // Members as of the last generation().
  [[nodiscard]] uint32_t incarnation(uint8_t slot) const { return incarnation_[slot]; }
  [[nodiscard]] uint32_t generation();
  [[nodiscard]] bool offer_ring(uint8_t slot, int ring, int bell);
  void offer_bell(uint8_t slot, int bell);
  void refuse_ring(uint8_t slot);
  bool wake(uint8_t slot);

  [[nodiscard]] static uint8_t ring_reader(const wire::Gid&, Qpn qpn) {
    return static_cast<uint8_t>(qpn.value >> 16);
  }
  [[nodiscard]] static bool is_local_by_now(const wire::Gid&) { return true; }
  // Who has no room for long is still waited for.
  [[nodiscard]] static bool refused(uint8_t) { return false; }
  static void has_room_again(uint8_t) {}
  [[nodiscard]] static const UdpSockets* ipv4() { return nullptr; }
  [[nodiscard]] static const UdpSockets* ipv6() { return nullptr; }
  [[nodiscard]] static uint16_t port() { return 0; }

 private:
  progress_sim::Host& host_;
  uint8_t slot_;
  RingEvents* events_ = nullptr;
  uint32_t seen_generation_ = 0;
  std::array<uint32_t, kSlots> incarnation_{};
};

}  // namespace verbena::link
