// SPDX-License-Identifier: Apache-2.0
// What carries packets between this device and all others, and the one thing that a device knows of
// the network: sockets, address families, which process of the host a packet is for and how much
// may be on the way to it are below.
//
//     the device   send ... flush              Arrivals::on_packet, on_joined, on_run
//                       |                                    ^
//     Link              v                                    | receive
//                  sockets, rings in shared memory, a simulated network
//
// Owned by the engine's lock holder, except where said.
#pragma once

#include <bitset>
#include <cstdint>
#include <span>
#include <string>

#include "base/ids.h"
#include "base/time.h"
#include "link/link_counters.h"
#include "link/ports.h"
#include "link/taps.h"
#include "transport/work.h"
#include "wire/run.h"

namespace verbena::link {

struct MemberCounters;

// Packets of one length (the last may be shorter) that arrived as one.
struct Joined {
  std::span<const uint8_t> bytes;
  uint32_t segment = 0;
  wire::Gid source;
  wire::Gid destination;
  uint8_t traffic_class = 0;
};

class PacketCheck {
 public:
  virtual ~PacketCheck() = default;
  [[nodiscard]] virtual bool is_right(uint32_t index, std::span<const uint8_t> packet) = 0;
};

// What arrives, for this process. A packet is whole; `now` is when it was read, or from a ring when
// it was looked for.
class Arrivals {
 public:
  virtual ~Arrivals() = default;
  virtual void on_packet(const transport::InPacket& packet, Time now) = 0;
  // Takes as many of the first as it can take at once, each if it is right, and gives their number.
  // 0: they come one by one.
  [[nodiscard]] virtual uint32_t on_joined(const Joined& joined, PacketCheck& check, Time now) = 0;
  // The same for a run whose payload is one piece, and whose packets are whole. `ack_request`: of
  // the last.
  [[nodiscard]] virtual uint32_t on_run(const wire::Run& run, std::span<const uint8_t> payload,
                                        const wire::Gid& source, const wire::Gid& destination,
                                        bool ack_request, Time now) = 0;
};

// How much is looked for. kLikely: what a caller in a hurry, that asks again and again, can expect.
enum class Look : uint8_t { kAll, kLikely };

// Of receive_fds(), at most.
inline constexpr size_t kMaxReceiveFds = 3;
// Which of receive_fds() are readable: the first, the second...
using ReadyFds = std::bitset<kMaxReceiveFds>;
inline constexpr ReadyFds kAllReady{(1U << kMaxReceiveFds) - 1};

class Link : public transport::PacketSink {
 public:
  // --- sending, beside what PacketSink has
  // What was sent through memory is there for a receiver that looks; one that sleeps is woken by
  // flush(), and all else waits for that.
  virtual void show() = 0;
  // All that was sent leaves, and room that was asked for and not used is given back.
  virtual void flush() = 0;
  // Whether somebody who had no room before the last flush() may have some now; cheap.
  [[nodiscard]] virtual bool room_again() = 0;
  // The process ends: nothing is left to wait for anybody.
  virtual void finish() = 0;
  // To QP1 there; the link finds the process that it is for.
  virtual void send_management(const transport::OutPacket& packet) = 0;

  // --- receiving
  // Takes what is there, at most a batch; gives the number of pieces it came in. Arrivals are
  // called meanwhile.
  [[nodiscard]] virtual size_t receive(Look look, Time now) = 0;
  // The same for a thread that slept on receive_fds() and knows which are readable: the others need
  // not be asked.
  [[nodiscard]] virtual size_t receive_ready(ReadyFds ready, Time now) = 0;
  // Whether the last of these may have left something; if not, all there was at that moment is
  // taken.
  [[nodiscard]] virtual bool may_have_left() const = 0;
  // Whether nothing is there; false if that cannot be told without asking the system.
  [[nodiscard]] virtual bool is_quiet() const = 0;
  // Whether the last piece was a large one, after which more of the kind are likely.
  [[nodiscard]] virtual bool expects_more() const = 0;
  // Packets of this peer are expected, or of anybody: what brings them is looked at more often.
  virtual void expect_from(const wire::Gid& peer) = 0;
  virtual void expect_from_anybody() = 0;

  // --- sleeping
  // Readable when receive() may find something, as long as prepare_sleep() said yes; readers of
  // others' bells among them, which woke() silences if they are.
  [[nodiscard]] virtual std::span<const int> receive_fds() const = 0;
  // Before a thread sleeps on them. False: something is there already.
  [[nodiscard]] virtual bool prepare_sleep() = 0;
  virtual void woke(ReadyFds ready) = 0;
  // Readable when on_ready() has something to do; somebody must call it soon then.
  [[nodiscard]] virtual int control_fd() const = 0;
  // `readable`: it is, or nobody knows; otherwise only what needs no descriptor is looked at.
  virtual void on_ready(Time now, bool readable) = 0;
  // While true, receive() and room_again() are called again and again and nobody need wake us.
  // After it was set to false, both are asked once more before sleeping.
  virtual void set_polling(bool polling) = 0;
  // When on_timer() wants to be called.
  [[nodiscard]] virtual Time next_timer() const = 0;
  virtual void on_timer(Time now) = 0;

  // --- this process among those of the host
  // Communication ids that belong to it have this in their top byte.
  [[nodiscard]] virtual uint8_t slot() const = 0;
  // The queue pair numbers that belong to it are the 2^16 from here on.
  [[nodiscard]] virtual Qpn first_qpn() const = 0;
  [[nodiscard]] virtual uint16_t port() const = 0;
  // Why only processes of this host can be reached; empty: all can.
  [[nodiscard]] virtual const std::string& this_host_only() const = 0;
  // Rises, within on_ready(), when the host's addresses or interfaces may have changed.
  [[nodiscard]] virtual uint32_t address_changes() const = 0;
  // Which incarnation of a process this queue pair number belongs to, at an address of this host;
  // 0: none that is alive.
  [[nodiscard]] virtual uint32_t incarnation_of(const wire::Gid& address, Qpn qpn) = 0;
  // Ports of the connection manager among all processes. 0 or errno: EADDRINUSE, ENOSPC, ETIMEDOUT
  // when a stopped process is in the way. May wait for others: any thread, without the engine's
  // lock.
  [[nodiscard]] virtual int add_port(const Port& port, Ports::Kind kind) = 0;
  // Any thread; waits for nobody.
  virtual void remove_port(const Port& port, Ports::Kind kind) = 0;
  // Multicast: once more for each join. 0 or errno.
  [[nodiscard]] virtual int join_group(const wire::Gid& group) = 0;
  virtual void leave_group(const wire::Gid& group) = 0;
  // How many bytes of packets the receive buffer holds.
  [[nodiscard]] virtual uint32_t receive_room() const = 0;
  // The receive buffer in bytes as the system counts: what there is, and what was asked for.
  [[nodiscard]] virtual uint32_t receive_buffer() const = 0;
  [[nodiscard]] virtual uint32_t receive_buffer_wanted() const = 0;
  // Who kept a name of ours from us when this process joined the others; empty: nobody.
  [[nodiscard]] virtual const std::string& name_held() const = 0;
  // Where the counters of this process's port are shown to the others.
  [[nodiscard]] virtual MemberCounters& shown_counters() = 0;

  // --- looking on
  // They outlive the link, or are taken out first; nullptr: none.
  virtual void set_taps(TransmitTap* transmit, ReceiveFilter* receive) = 0;
  [[nodiscard]] virtual const TransmitCounters& transmit_counters() const = 0;
  [[nodiscard]] virtual const ReceiveCounters& receive_counters() const = 0;
  [[nodiscard]] virtual const IntakeCounters& intake_counters() const = 0;

  // --- around fork. In the child nothing is received, and what is sent goes nowhere.
  virtual void before_fork() = 0;
  virtual void after_fork_in_parent() = 0;
  virtual void abandon_in_child() = 0;
};

}  // namespace verbena::link
