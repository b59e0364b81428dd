// SPDX-License-Identifier: Apache-2.0
// The inside of Membership, shared by membership.cc (joining, leaving, ports),
// membership_routing.cc (whose a packet is), membership_credits.cc (room at local receivers),
// membership_rings.cc (what is said of rings) and membership_repair.cc (noticing deaths, keeping
// the steering right).
//
// Correctness never rests on the order of sockets being known: whoever gets a packet that is not
// its own forwards it. A wrong order costs time only, and mends itself:
//  - a death is noticed by a neighbour in the ring of slots (the end of a connection), or by a
//  misdelivered packet. Whoever notices looks until the dead member's name is free;
//  - the order is then computed as the kernel computes it, and probes are sent: one datagram to
//  each index, which the
//    program steers by the index it carries. Whoever receives one learns its own index, and puts
//    itself there in the table. Nobody waits for anybody; one that is stopped does it when it goes
//    on.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "link/credits.h"
#include "link/local_addresses.h"
#include "link/membership.h"
#include "link/multicast_groups.h"
#include "link/peers.h"
#include "link/roster.h"
#include "link/sender_ports.h"
#include "link/table_lock.h"

namespace verbena::link {

struct Membership::State final : PeerEvents {
  State(const MembershipOptions& given, TableMapping mapping);

  // --- membership.cc
  [[nodiscard]] SharedTable& table() const { return mapping.table(); }
  [[nodiscard]] UdpSockets* sockets(Family family) {
    auto& held = udp[index_of(family)];
    return held.receive.valid() ? &held : nullptr;
  }
  // Brings our view of the members up to date; one load when nothing changed.
  void look() {
    if (table().generation.load(std::memory_order_acquire) != seen_generation) refresh();
  }
  void refresh();
  void drop_own_sources();  // own_sources.h
  [[nodiscard]] bool is_member(uint8_t slot) const { return is_taken(incarnation[slot]); }
  [[nodiscard]] uint8_t sender_of(const wire::Gid& source, uint16_t port);
  [[nodiscard]] bool local_receiver(const wire::Gid& destination, uint8_t slot) {
    return slot != kGsiSlot && slot != kProbeSlot && is_member(slot) &&
           addresses.contains(destination);
  }

  // --- membership_routing.cc
  // Whom a message to QP1 at this address of ours is for, if that can be told.
  [[nodiscard]] std::optional<uint8_t> slot_for(const ManagementRoute& route,
                                                const wire::Gid& destination);
  void on_forwarded(const Datagram& joined, uint32_t segment) override;

  // --- membership_rings.cc
  void on_ring(uint8_t slot, uint32_t claimed, UniqueFd& ring, UniqueFd& bell) override;
  void on_bell(uint8_t slot, uint32_t claimed, UniqueFd& bell) override;
  void on_no_ring(uint8_t slot) override;
  void on_woken() override;

  // --- membership_credits.cc
  void wake_refused();

  // --- membership_repair.cc
  void on_peer_gone(uint8_t slot) override;
  void on_timer();
  void suspect(Duration in);
  void repair();
  void steer(Roster& roster);
  void watch_neighbours();
  // Its death is noticed by the end of a connection, or where none can be had by looking again.
  void watch(uint8_t slot);
  // Tries to watch those it could not before. Whether some are left, to be looked at again.
  [[nodiscard]] bool watch_unwatched();
  void probe();
  void probe_soon(Duration in);
  // Whether it was one.
  [[nodiscard]] bool on_probe(const Datagram& datagram);
  void doubt_order();
  // Whether data for members is to wait until they can be reached straight: what goes astray is
  // passed on, but what is sent afterwards overtakes it, and to a UC queue pair that is a loss. Not
  // for long.
  [[nodiscard]] bool holds_back();
  void arm_timer();

  MembershipOptions options;
  GroupNames names;
  TableMapping mapping;
  uint8_t self = 0;  // our slot
  std::array<UdpSockets, kFamilies> udp;
  uint32_t receive_buffer = ~uint32_t{0};  // of the smaller one (UdpSockets)
  UniqueFd epoll;
  UniqueFd timer;
  std::unique_ptr<Peers> peers;
  std::unique_ptr<CreditLedger> ledger;
  LocalAddresses addresses;
  MulticastGroups multicast_groups;
  MembershipCounters counters;
  // Held while ports of ours are added or removed, by any thread, and while this process forks.
  // Never while waiting.
  Mutex ports_mutex;
  DatagramHandler* handler = nullptr;  // during on_ready()
  RingEvents* ring_events = nullptr;
  bool taking_over = false;  // what another member forwarded is ours, whatever it is
  bool abandoned VERBENA_GUARDED_BY(ports_mutex) = false;
  std::string this_host_only;  // why
  std::string name_held;       // by whom

  // Our view of the table as of seen_generation.
  uint32_t seen_generation = 0;
  uint32_t member_count = 0;
  std::array<uint32_t, kSlots> incarnation{};
  std::array<bool, kSlots> reads_rings{};
  SenderPorts senders;
  // Whose packets are taken, as was found out last: most come from the same.
  wire::Gid admitted;
  uint16_t admitted_port = 0;  // 0: nobody

  // Receivers that refused us, by slot.
  struct Refusal {
    Time since = 0;  // 0: it did not
    Time last = 0;
    uint32_t incarnation = 0;
    Time told_at = 0;  // the member, that it should see whether what it waits for was lost
    bool unresponsive = false;
  };
  std::array<Refusal, kSlots> refusals;

  // By slot: the incarnation of a member whose connection ended, or could not be had; else 0.
  std::array<uint32_t, kSlots> unwatched{};
  Time repair_at = kNever;
  uint32_t looks_left =
      0;  // a dying process closes its descriptors one by one: we look several times
  Duration look_pause = 0;
  Time held_since = 0;    // 0: nothing is held back
  uint32_t held_for = 0;  // since this one left
  Time probe_at = kNever;
  Duration probe_pause = 0;  // grows while probes change nothing
  Time last_probe = 0;
  uint32_t probed_membership = 0;
};

inline constexpr uint32_t kTagPeers = 1;
inline constexpr uint32_t kTagTimer = 2;
inline constexpr uint32_t kTagAddresses = 3;

}  // namespace verbena::link
