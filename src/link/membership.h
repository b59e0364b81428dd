// SPDX-License-Identifier: Apache-2.0
// This process's membership among the Verbena processes of one user on one host (network
// namespace). They share the host's addresses and the RoCE port without a daemon:
//
//  - Each member binds the port with SO_REUSEPORT. A classic BPF program on the group steers a
//  packet by the
//    top byte of its destination queue pair number, the member's *slot*.
//  - What members must agree on lies in a memfd (SharedTable): slots and the order of sockets in
//  the group,
//    credits, and the ports of the connection manager. Any member hands the memfd
//    to a newcomer over an abstract unix socket; when the last is gone, so is it.
//  - A member that dies shifts the group's socket order. Its neighbours notice (a unix connection
//  each), or whoever
//    is handed a packet that is not its own does; the program is attached anew, and the packet is
//    forwarded.
//
// Owned by the engine's lock holder, except where said. After fork the child calls
// abandon_in_child().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/mutex.h"
#include "base/random.h"
#include "base/result.h"
#include "base/time.h"
#include "link/local_addresses.h"
#include "link/management.h"
#include "link/ports.h"
#include "link/ring_events.h"
#include "link/udp_receiver.h"
#include "link/udp_socket.h"
#include "link/udp_transmitter.h"
#include "link/unix_names.h"

namespace verbena::link {

struct MemberCounters;
class MemberLock;
struct SharedTable;

struct MembershipOptions {
  UdpOptions udp;
  // Distinguishes independent groups on one host (tests); part of every abstract name. Each needs a
  // port of its own: the kernel knows one group per user and port.
  std::string group = "verbena";
  // A dead member's slot is not given out again for this long, unless all free ones rest: then the
  // one that has rested longest is.
  Duration slot_rest = 10 * kSecond;
  // Where the port is another's (the kernel's rdma_rxe, another user): serve this host only, on a
  // port of our own, rather than not at all.
  bool this_host_if_taken = true;
  // Whether rings in shared memory are read here as well.
  bool takes_rings = false;
  // Whom messages to QP1 are for; nullptr: whoever gets them.
  const ManagementRules* management = nullptr;
};

struct MembershipError {
  enum class Kind : uint8_t {
    kPortTakenByOther,  // another user's Verbena, or the kernel's rdma_rxe, holds the port
    kNoSlot,            // 254 members already
    kNoAnswer,  // members exist but none hands out the table, or one stopped while it held the lock
    kVersion,   // members of another version
    kSystem,
  };
  Kind kind = Kind::kSystem;
  std::string what;  // for a person: what happened, to what, what to do
  int code = 0;
};

struct ManagementTarget {
  uint8_t slot = 0;
  bool is_request = false;  // to who listens: the steering cannot see whom it is for
};

struct MembershipCounters {
  uint64_t forwarded = 0;       // packets that were another member's
  uint64_t taken_over = 0;      // packets that others forwarded to us
  uint64_t forward_failed = 0;  // their owner did not take them
  uint64_t unclaimed = 0;       // packets for a slot nobody has
  uint64_t reattached = 0;      // steering programs attached by us
  uint64_t reaped = 0;          // members whose death we noticed first
  uint64_t probed = 0;          // times we had the real order of sockets told
  uint64_t corrected = 0;       // times a probe showed us elsewhere than was thought
  uint64_t woken = 0;           // members we told that there is room again
  uint64_t credits_reclaimed = 0;
};

class Membership final : public Credits {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Membership>, MembershipError> join(
      const MembershipOptions& options, RandomSource& random);
  ~Membership() override;

  [[nodiscard]] uint8_t slot() const { return slot_; }
  // As SO_RCVBUF takes it: what the receive sockets have, and what they should have.
  [[nodiscard]] uint32_t receive_buffer() const;
  [[nodiscard]] uint32_t receive_buffer_wanted() const;
  // Of it, what payload fits: the kernel counts more for a packet, and up to a quarter is still
  // charged after it was read.
  [[nodiscard]] uint32_t receive_room() const { return receive_buffer() / 4 * 3; }
  // The RoCE port, or the one that serves this host only.
  [[nodiscard]] uint16_t port() const;
  // Why only members of this host can be reached; empty: all can.
  [[nodiscard]] const std::string& this_host_only() const;
  // Of which name another user has bound, and who; empty: of none.
  [[nodiscard]] const std::string& name_held() const;
  [[nodiscard]] bool is_local(const wire::Gid& address);
  [[nodiscard]] LocalAddresses& addresses();
  // The same of an address that another member uses: it may have heard of it before us.
  [[nodiscard]] bool is_local_by_now(const wire::Gid& address);
  // nullptr where the family is not there.
  [[nodiscard]] const UdpSockets* ipv4() const;
  [[nodiscard]] const UdpSockets* ipv6() const;

  // Becomes readable (it is an epoll descriptor) when on_ready() has something to do. A member that
  // is not stopped must call it soon: newcomers wait for the answer.
  [[nodiscard]] int fd() const;
  // Newcomers asking for the table, neighbours gone, packets forwarded to us (given to `handler`,
  // with on_consumed), room again where available() had said no: ask it again. Never waits.
  void on_ready(DatagramHandler& handler);

  // Whether its packets are to be taken: it is another host's, or a member's. An address of this
  // host alone says nothing, for any user can send from it.
  [[nodiscard]] bool is_sender(const wire::Gid& source, uint16_t source_port);
  // The same of one packet, which may be one of the last of a member that has left meanwhile.
  [[nodiscard]] bool admits(const Datagram& datagram) {
    return is_sender(datagram.source, datagram.source_port) || was_left_behind(datagram);
  }

  // Each datagram then goes through here, before it is parsed or filtered. True: ours (our slot,
  // the multicast QPN, of QP1 what is for our connections and listeners or for nobody's, too short
  // to tell). False: it was another member's and is on its way there, or a word among members.
  [[nodiscard]] bool route(const Datagram& datagram) {
    return datagram.bytes.size() < kShortestSteered || datagram.bytes[5] == slot_ ||
           !pass_on(datagram, static_cast<uint32_t>(datagram.bytes.size()));
  }
  // Of several that the kernel had joined, whose first is not ours: how many of the first went to
  // their member together. 0: none, they go one by one.
  [[nodiscard]] uint32_t route_joined(const Datagram& rest, uint32_t segment);

  // --- Ports of the connection manager, among all members.
  // 0 or errno: EADDRINUSE, ENOSPC, ETIMEDOUT when a stopped process holds the group's lock. Waits
  // for that lock, whose holder may be a newcomer that waits for our on_ready(): any thread calls
  // it, and not with the engine's lock.
  [[nodiscard]] int add_port(const Port& port, Ports::Kind kind);
  // Any thread; waits for nobody.
  void remove_port(const Port& port, Ports::Kind kind);
  // Which member a message to QP1 at this address is for; none: it is elsewhere, or nobody's.
  [[nodiscard]] std::optional<ManagementTarget> target_of(const wire::Gid& destination,
                                                          std::span<const uint8_t> message);

  // --- Credits: how much of a local member's receive buffer we may fill
  // A yes reserves: any number of senders that ask stay within the budget together. After a no,
  // fd() becomes readable when there may be room (unless polling). True for remote and for dead
  // destinations.
  [[nodiscard]] bool available(const wire::Gid& destination, Qpn qpn) override;
  [[nodiscard]] uint32_t packets_available(const wire::Gid& destination, Qpn qpn,
                                           uint32_t packet_bytes, uint32_t wanted) override;
  [[nodiscard]] bool known(const wire::Gid& destination, Qpn qpn) override;
  [[nodiscard]] bool is_gone(const wire::Gid& destination, Qpn qpn) override;
  void spend(const wire::Gid& destination, Qpn qpn, uint32_t cost) override;
  [[nodiscard]] bool is_unread(const wire::Gid& destination, Qpn qpn) override;
  // Whether somebody who said no before the last settle() has room now, or is gone; cheap enough to
  // be asked in every poll.
  [[nodiscard]] bool room_again();
  // available() has said no for kUnresponsiveAfter on end: from then on it says yes, and this too.
  // Both mend themselves when there is room.
  [[nodiscard]] bool is_unresponsive(const wire::Gid& destination, Qpn qpn) override;
  static constexpr Duration kUnresponsiveAfter = kSecond;
  // Gives back what available() reserved and spend() did not use. After each flush, at least before
  // sleeping. Until then a no stays a no.
  void settle();
  // A datagram was read; returns its cost to whoever sent it, if it was a member of this host. One
  // that went astray takes nothing of what its sender has reserved here.
  void consumed(const Datagram& datagram, uint32_t cost);
  // Nothing is there to read just now, as far as is known: gives back what was.
  void found_nothing();
  // Whether both our sockets should be found empty at `now` (CLOCK_MONOTONIC or any that rises):
  // costs that senders left behind (died, lost) are reclaimed in time. begin_look(), then both are
  // read, then found_empty() if they brought nothing.
  [[nodiscard]] bool wants_look(Time now) const;
  void begin_look();
  void found_empty(Time now);
  // When that should be, though nothing comes; kNever: it need not.
  [[nodiscard]] Time next_look() const;
  void put_off_look(Time now);
  // A member died that had something in our sockets: they must be found empty before others may
  // have its room.
  [[nodiscard]] bool awaits_empty();
  // While true, nobody need wake us for credits: we ask again by ourselves. After setting it to
  // false, ask once more before sleeping.
  void set_polling(bool polling);

  // --- Rings in shared memory (shared_link.h): said on connections among members, which they carry
  // Calls come within on_ready(); nullptr: none of it.
  void set_ring_events(RingEvents* events);
  // The member that owns this queue pair number at an address of this host, if it reads rings; 0:
  // none does.
  [[nodiscard]] uint8_t ring_reader(const wire::Gid& destination, Qpn qpn);
  // Brings the view of the members up to date; what it was made for, and a member's incarnation.
  [[nodiscard]] uint32_t generation();
  [[nodiscard]] uint32_t incarnation(uint8_t slot) const;
  // False: it cannot be reached.
  bool offer_ring(uint8_t slot, int ring, int bell);
  void offer_bell(uint8_t slot, int bell);
  void refuse_ring(uint8_t slot);
  bool wake(uint8_t slot);
  [[nodiscard]] SharedTable& table();
  // The member has no room for us; whether that was so for long (is_unresponsive). And has some.
  [[nodiscard]] bool refused(uint8_t slot) { return unresponsive_now(slot); }
  void has_room_again(uint8_t slot) { responds_again(slot); }

  // Which incarnation of a member this queue pair number belongs to, at an address of this host; 0:
  // none of a member that is alive.
  [[nodiscard]] uint32_t incarnation_of(const wire::Gid& address, Qpn qpn);

  // --- Multicast: what is sent to a group comes through the sockets from here on, once more for
  // each join. 0 or errno.
  [[nodiscard]] int join_group(const wire::Gid& group);
  void leave_group(const wire::Gid& group);

  [[nodiscard]] uint32_t members() const;  // alive, ourselves included
  // Rises, within on_ready(), when the host's addresses or interfaces may have changed.
  [[nodiscard]] uint32_t address_changes() const;
  [[nodiscard]] const MembershipCounters& counters() const;
  // Where this member shows the counters of its port: port_counters.h.
  [[nodiscard]] MemberCounters& shown_counters();

  // Around fork: no other thread is at the ports. Its child would keep the group's lock for ever.
  // Taken here, given back by one of the others.
  void before_fork() VERBENA_NO_THREAD_SAFETY;
  void after_fork_in_parent();
  // In a forked child: closes every descriptor, touches nothing shared. From then on it is alone:
  // nothing is received, and what is sent goes nowhere.
  void abandon_in_child();

 private:
  static constexpr size_t kShortestSteered = 12;  // a transport header

  struct State;
  explicit Membership(std::unique_ptr<State> state);
  [[nodiscard]] static Result<std::unique_ptr<Membership>, MembershipError> join_on_port(
      const MembershipOptions& options, RandomSource& random);
  // One, or several of `segment` bytes to the same slot. Whether it was for somebody else.
  [[nodiscard]] bool pass_on(const Datagram& joined, uint32_t segment);
  [[nodiscard]] bool pass_on_mad(const Datagram& datagram);
  [[nodiscard]] bool was_left_behind(const Datagram& datagram);
  void tell_others(const Datagram& datagram);
  void pass_on_rest();
  [[nodiscard]] std::optional<MemberLock> lock_to_leave();
  [[nodiscard]] bool unresponsive_now(uint8_t slot);
  void responds_again(uint8_t slot);

  std::unique_ptr<State> state_;
  uint8_t slot_;
};

}  // namespace verbena::link
