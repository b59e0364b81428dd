// SPDX-License-Identifier: Apache-2.0
// The rings of this process in memory that it shares with others of the host: one towards each that
// it sends to, one from each that sends to it, one to itself.
//
// A ring is made when a process is first sent something, and is used from then on for all that goes
// there, so that nothing overtakes; it ends with either process. The sender may write before the
// receiver has heard of it. One that cannot take it (no descriptors, another user by now) may not
// even be able to say so: a ring that is not taken in time is withdrawn, and what is in it leaves
// by the sockets. Where a ring cannot be had these are used for as long as the receiver lives.
//
//   room       what lies in a ring; a sender that finds none asks to be told (RingWriter)
//   sleeping   Doorbell in the shared table: a receiver that sleeps is woken once
//   memory     the first rings of a process are larger than the others; what is behind an idle one
//              goes back to the system
//
// Owned by the engine's lock holder.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"
#include "link/intake.h"
#include "link/membership.h"
#include "link/numbers.h"
#include "link/ring.h"
#include "link/shared_table.h"
#include "transport/work.h"

namespace verbena::link {

// As it lies in a ring.
struct RingFlow {
  std::array<uint8_t, 16> source{};
  std::array<uint8_t, 16> destination{};
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint32_t interface_index = 0;  // the sender's own note
};

class SharedLink final : private RingEvents {
 public:
  // Counts what it carries where the sockets do.
  struct Parts {
    Membership& host;
    Intake& intake;
    TransmitCounters& sent;
    ReceiveCounters& received;
    // Sends what was in a ring that nobody takes; nullptr: it stays there.
    Link* otherwise = nullptr;
  };
  // Nothing where the system has no such memory: errno says why.
  [[nodiscard]] static std::unique_ptr<SharedLink> make(const Parts& parts);
  ~SharedLink() override;

  // --- sending
  struct Out;
  // The ring that leads there, made if need be. nullptr: none does.
  // The last is remembered: who sends much to one receiver asks for each packet.
  [[nodiscard]] Out* way_to(const wire::Gid& destination, Qpn qpn) {
    const bool is_last =
        last_way_.out != nullptr && last_way_.slot == slot_of(qpn) &&
        last_way_.generation == table_.generation.load(std::memory_order_acquire) &&
        last_way_.destination == destination;
    return is_last ? last_way_.out : find_way(destination, qpn);
  }
  [[nodiscard]] Out* way_to(uint8_t slot);
  // The host's addresses may have changed.
  void forget_way() { last_way_.out = nullptr; }
  [[nodiscard]] bool has_room(Out& out);
  [[nodiscard]] uint32_t room_for(Out& out, uint32_t packet_bytes, uint32_t wanted);
  [[nodiscard]] static bool is_unread(Out& out);
  void send(Out& out, const transport::OutPacket& packet);
  void send_run(Out& out, const transport::OutRun& run);
  // What was sent is there for receivers that look.
  void show();
  // And those that sleep are woken.
  void flush();
  // Whether somebody who had no room before the last flush() has some now, or is gone.
  [[nodiscard]] bool room_again();
  // What nobody has taken so far leaves by the sockets.
  void withdraw_all() { withdraw_late(kNever); }
  void set_tap(TransmitTap* tap) { tap_ = tap; }

  // --- receiving
  // The number of records.
  [[nodiscard]] size_t receive(Time now);
  [[nodiscard]] bool expects_more() const { return large_; }
  [[nodiscard]] bool has_rings() const { return !in_.empty(); }
  // Whether nothing is in them.
  [[nodiscard]] bool is_quiet() const;

  // --- sleeping
  [[nodiscard]] int fd() const { return bell_.get(); }
  [[nodiscard]] bool prepare_sleep();
  void woke();
  [[nodiscard]] Time next_timer() const { return std::min(idle_check_, take_check_); }
  void on_timer(Time now);

  void abandon_in_child();

 private:
  struct In;
  explicit SharedLink(const Parts& parts, UniqueFd bell);

  // RingEvents
  void on_ring(uint8_t slot, uint32_t incarnation, UniqueFd& ring, UniqueFd& bell) override;
  void on_bell(uint8_t slot, UniqueFd& bell) override;
  void on_no_ring(uint8_t slot) override;
  void on_woken() override;

  // Members came or went since we looked.
  void look() {
    if (parts_.host.generation() != seen_generation_) forget_the_dead();
  }
  [[nodiscard]] Out* find_way(const wire::Gid& destination, Qpn qpn);
  void forget_the_dead();
  void drop_dead_rings();
  [[nodiscard]] Out* open(uint8_t slot);
  void give_back_idle(Time now);
  void withdraw_late(Time now);
  // From here on the sockets are used.
  void give_up(uint8_t slot);
  class Otherwise;
  void send_otherwise(RingReader& ring);
  void add_reader(uint8_t slot, uint32_t incarnation, Ring ring);
  // False: the packet is lost.
  [[nodiscard]] bool prepare(Out& out, const transport::Path& path, uint32_t payload_bytes,
                             bool may_use_reserve, uint32_t packets);
  void touch(Out& out);
  [[nodiscard]] bool refuse(Out& out);
  // False: it cannot be reached.
  bool wake(uint8_t slot);
  // To the tap.
  void show(const transport::Path& path, std::span<const uint8_t> headers,
            std::span<const uint8_t> payload);
  void show_run(const transport::OutRun& run, const uint8_t* payload);

  size_t read(In& in, Time now);
  void take(In& in, const RingReader::Record& record, Time now);
  [[nodiscard]] bool has_good_flow(In& in);
  void take_flow(In& in, const RingReader::Record& record);
  void take_packet(In& in, const RingReader::Record& record, Time now);
  void take_run(In& in, const RingReader::Record& record, Time now);
  void hand_on(const In& in, std::span<const uint8_t> headers, std::span<const uint8_t> payload,
               Time now);

  Parts parts_;
  SharedTable& table_;
  const uint8_t self_;
  UniqueFd bell_;
  uint32_t seen_generation_ = 0;
  std::array<std::unique_ptr<Out>, kSlots> out_;
  struct Way {
    wire::Gid destination;
    uint8_t slot = 0;
    uint32_t generation = 0;  // of the table, when it was found
    Out* out = nullptr;
  };
  Way last_way_;
  std::array<uint32_t, kSlots> no_ring_{};  // the incarnation that no ring leads to
  struct Bell {
    UniqueFd fd;
    uint32_t incarnation = 0;  // whose it is
  };
  std::array<Bell, kSlots> bells_;  // of others
  std::vector<std::unique_ptr<In>> in_;
  bool has_dead_ = false;   // of in_, some may be of members that are gone
  bool receiving_ = false;  // none of in_ goes away
  size_t first_in_ = 0;     // whose turn is first
  bool large_ = false;
  uint32_t rings_made_ = 0;
  std::vector<uint8_t> touched_;  // since the last flush
  std::vector<uint8_t> refused_;  // since the last flush
  std::vector<uint8_t> before_;   // between the last two
  Time idle_check_ = kNever;
  Time take_check_ = kNever;
  bool abandoned_ = false;
  TransmitTap* tap_ = nullptr;
  std::vector<uint8_t> whole_;  // a packet as others see it
};

}  // namespace verbena::link
