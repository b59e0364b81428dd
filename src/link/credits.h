// SPDX-License-Identifier: Apache-2.0
// Credits: how much each member may have in flight to each other member of the host, so that no
// receive buffer overflows. Both directions of one process: what it sends, and what it has read of
// the data of others.
//
// A sender reserves in the receiver's inbox before it sends (a grant, in chunks: one atomic
// addition for many packets) and the receiver gives back what it has read. The check and the
// reservation are one step, so any number of senders together never exceed the budget; only packets
// nobody asked credits for (acknowledgements) can, and the budget leaves room for them. What a
// sender reserved and did not use goes back with settle().
//
// Lost costs come back: a dead member's when the receiver's socket is next empty, others when the
// receiver's socket is empty and the sender has been quiet for kQuiet; of a sender that never is,
// as much as was missing whenever the socket was found empty for so long. A receiver that sleeps
// looks for them now and then (next_look) until nothing is open. Lock-free; one thread of the
// process at a time.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "link/shared_table.h"
#include "link/udp_socket.h"

namespace verbena::link {

// What members may have in a receive buffer at once, as datagram_cost() counts, for what
// getsockopt(SO_RCVBUF) says. Up to a quarter of the buffer is still charged after it was read; a
// little is left for what nobody asks for. Of a large buffer the rest is for other hosts: members
// gain nothing by more, and what lies in the buffer would no longer lie in the cache.
[[nodiscard]] constexpr uint32_t receive_budget(uint32_t so_rcvbuf) {
  return std::min(so_rcvbuf, 2 * kCommonReceiveBuffer) / 100 * 66;
}

class CreditLedger {
 public:
  // The largest packet, alone: MTU 4096 and all its headers.
  static constexpr int64_t kMaxPacketCost = 9'472;
  static constexpr int64_t kChunk = 32'768;
  // Longer than a thread waits for its core on a crowded machine: one between its reservation and
  // its send stands still as well, and what it then sends must have its room.
  static constexpr Duration kQuiet = 500 * kMillisecond;

  CreditLedger(SharedTable& table, uint8_t self);

  // Under the group's lock, before the slot is taken and others send to it: what a former owner
  // left is void.
  void start_afresh();
  // The members changed.
  void refresh();

  // --- Sending to `slot`, a member of this host
  [[nodiscard]] bool available(uint8_t slot) {
    return outgoing_[slot].grant >= kMaxPacketCost || (!outgoing_[slot].refused && acquire(slot));
  }
  // What may be spent now: at least `cost`, if there is room for it; 0: not even a packet.
  [[nodiscard]] int64_t reserve(uint8_t slot, int64_t cost) {
    const Outgoing& out = outgoing_[slot];
    if (out.grant < kMaxPacketCost) {
      if (out.refused || !acquire(slot, cost)) return 0;
    } else if (out.grant < cost) {
      (void)try_acquire(slot, cost);
    }
    return out.grant;
  }
  // Whether somebody who said no before the last settle() has room for a batch now, or is gone; a
  // look that does not disturb them.
  [[nodiscard]] bool room_again() const;
  void spend(uint8_t slot, uint32_t cost) {
    Outgoing& out = outgoing_[slot];
    out.grant -= cost;
    if (out.grant < 0) overdraw(slot);
    out.sent += cost;
    pair(slot, self_).sent.store(out.sent, std::memory_order_release);
    if (!out.touched) touch(slot);
  }
  // Whether the receiver has not read all of it: it did not look, or some of it was lost.
  [[nodiscard]] bool is_unread(uint8_t slot) const {
    return pair(slot, self_).consumed.load(std::memory_order_acquire) < outgoing_[slot].sent;
  }
  // Whether there is no room for packets that go there, or come from there: all of it is reserved,
  // or was lost.
  [[nodiscard]] bool is_blocked(uint8_t slot) const { return is_full(slot) || is_full(self_); }
  // Gives back what was reserved and not used. Before sleeping, and best after every flush. Until
  // then a no stays a no: one question instead of one by every queue pair.
  void settle() {
    if (!touched_.empty()) settle_all();
    if (refused_.empty() && before_.empty()) return;
    before_.swap(refused_);
    for (const uint8_t slot : before_) outgoing_[slot].refused = false;
    refused_.clear();
  }

  // --- Receiving
  void consumed(uint8_t from, uint32_t cost) {
    Incoming& in = incoming_[from];
    if (in.consumed + cost > in.sent_seen) {
      in.sent_seen = pair(self_, from).sent.load(std::memory_order_acquire);
      if (in.consumed >= in.sent_seen)
        return;  // not charged to us: misdelivered, or reclaimed before
      cost = static_cast<uint32_t>(std::min<uint64_t>(cost, in.sent_seen - in.consumed));
    }
    in.consumed += cost;
    may_be_open_ = true;
    pair(self_, from).consumed.store(in.consumed, std::memory_order_release);
    returned_ += cost;
    if (returned_ >= return_at_) give_back();
  }
  // Nothing is there to read just now, as far as is known.
  void found_nothing() {
    if (returned_ > 0) give_back();
  }
  // Whether it is time to find out that nothing is in any socket: begin_look(), then all of them
  // are read, then found_empty() if nothing was there.
  [[nodiscard]] bool wants_look(Time now) const {
    return reaped_ > 0 || now - last_look_ >= kLookEvery;
  }
  // What is sent from here on may be in the sockets when they have been read.
  void begin_look();
  void found_empty(Time now) {
    if (reaped_ > 0) free_reaped();
    found_nothing();
    if (now - last_look_ >= kLookEvery) check_leftovers(now);
  }
  // Room of the dead is not free before found_empty().
  [[nodiscard]] bool awaits_empty() const { return reaped_ > 0; }
  // When the sockets should be found empty, for something may be open that was lost; kNever.
  [[nodiscard]] Time next_look() const {
    if (!may_be_open_) return kNever;
    return last_look_ + (is_missing_ ? kLookSoon : kLookAgain);
  }
  // A sender finds no room for long, and nothing may come any more.
  void expect_leftovers() { may_be_open_ = true; }
  // They were not empty then.
  void put_off_look(Time now) { last_look_ = now; }
  // Senders that were refused and may now ask again; they want to be woken. Emptied by the caller.
  [[nodiscard]] std::vector<uint8_t>& to_wake() { return to_wake_; }

  [[nodiscard]] uint64_t reclaimed() const { return reclaimed_; }
  [[nodiscard]] int64_t outstanding() const {
    return table_.inboxes[self_].outstanding.load(std::memory_order_relaxed);
  }

 private:
  static constexpr Duration kLookEvery = 2500 * kMicrosecond;
  static constexpr Duration kLookAgain = kQuiet / 4;
  static constexpr uint32_t kLooks = 16;  // without which nothing is missing
  static constexpr Duration kLookSoon = kQuiet / kLooks;

  struct Outgoing {
    int64_t grant = 0;  // reserved, not used
    uint64_t granted = 0;
    uint64_t sent = 0;
    bool touched = false;
    bool refused = false;
  };
  struct Incoming {
    uint64_t consumed = 0;
    uint64_t sent_seen = 0;
    uint64_t quiet_granted = 0;  // as of quiet_since
    uint64_t quiet_sent = 0;
    Time quiet_since = 0;
    uint64_t look_sent = 0;      // when the look began
    uint64_t least_missing = 0;  // of what was sent, in all looks since
    Time missing_since = 0;
    uint32_t looks = 0;
  };

  [[nodiscard]] CreditPair& pair(uint8_t receiver, uint8_t sender) const {
    return table_.credits[receiver][sender];
  }
  [[nodiscard]] bool has_room(uint8_t slot) const;
  [[nodiscard]] bool is_full(uint8_t slot) const {
    return table_.inboxes[slot].outstanding.load(std::memory_order_relaxed) >
           int64_t{table_.slots[slot].budget.load(std::memory_order_relaxed)} - kMaxPacketCost;
  }
  [[nodiscard]] bool acquire(uint8_t slot, int64_t wanted = kChunk);
  [[nodiscard]] bool try_acquire(uint8_t slot, int64_t wanted);
  void start_waiting(uint8_t slot);
  void stop_waiting(uint8_t slot);
  [[nodiscard]] uint32_t others_waiting(uint8_t slot) const;
  void overdraw(uint8_t slot);
  void touch(uint8_t slot);
  void settle_all();
  void give_back();
  void wake_refused();
  void check_leftovers(Time now);
  void note_missing(uint8_t from, Time now);
  void reclaim(uint8_t from, uint64_t cost);
  void reap(uint8_t from, uint64_t cost);
  void free_reaped();

  SharedTable& table_;
  uint8_t self_;
  std::array<Outgoing, kSlots> outgoing_;
  std::array<Incoming, kSlots> incoming_;
  std::array<uint32_t, kSlots> incarnation_{};
  std::vector<uint8_t> members_;  // alive, ourselves included
  std::vector<uint8_t> touched_;  // receivers we hold grants of
  std::bitset<kSlots> waiting_;   // inboxes where our bit is set, or was
  std::vector<uint8_t> refused_;  // who said no since the last settle()
  std::vector<uint8_t> before_;   // between the last two
  int64_t returned_ = 0;          // read, not yet given back
  int64_t return_at_ = 0;
  std::vector<uint8_t> to_wake_;
  Time last_look_ = 0;
  bool may_be_open_ = false;       // as of that look, or for what happened since
  bool is_missing_ = false;        // as of that look, of a sender that goes on
  int64_t stale_outstanding_ = 0;  // while every pair is even
  Time stale_since_ = 0;
  uint64_t reaped_ = 0;  // of dead members, until our sockets have been empty once
  uint64_t reclaimed_ = 0;
};

}  // namespace verbena::link
