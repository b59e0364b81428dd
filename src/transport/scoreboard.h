// SPDX-License-Identifier: Apache-2.0
// What became of each packet of one direction that is out: arrived though one before it did not,
// lost, or on its way.
//
// Which requests are lost is decided as by RACK (RFC 8985): one that was sent before another which
// has arrived, once it is late by more than packets overtake each other. Repairs count as sent when
// they are, so that their loss is seen in the same way. Responses are sent by the other end, in the
// order of PSNs, those asked for again before others: one is missing when a later one has arrived,
// and one asked for again when another has arrived that was asked for after it.
//
// PSNs [begin, end) are watched, at most kMaxPackets: a ring of 24 bytes for each, 6 KiB at first
// and 192 KiB at most, and a bit for each by which those that have not arrived are found. It is
// made when something arrives out of order for the first time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "transport/psn_bits.h"
#include "wire/psn.h"

namespace verbena::transport {

class Scoreboard {
 public:
  static constexpr uint32_t kMaxPackets = 8192;

  enum class Of : uint8_t { kRequests, kResponses };
  Scoreboard(Of what, wire::Psn begin);

  [[nodiscard]] wire::Psn begin() const { return begin_; }
  [[nodiscard]] wire::Psn end() const { return end_; }

  // A packet left, for the first time or again. PSNs between the last one's and its own are those
  // of no packet. Of a response: it was asked for. `delivered`: all that was by then, to tell a
  // rate by. `timed`: its answer comes a round trip later, not after others.
  void on_sent(wire::Psn psn, uint32_t cost, bool timed, uint64_t delivered, Time now);
  // The same for one that left before it was watched, at about this time.
  void on_sent_before(wire::Psn psn, uint32_t cost, Time about);
  // The first from `psn` on that is out and not known to have arrived; the end when there is none.
  [[nodiscard]] wire::Psn next_awaited(wire::Psn psn) const;
  // This one has arrived. Gives its cost; 0 when that was known, or it is not out.
  uint32_t on_arrived(wire::Psn psn, Time now);
  // It had arrived, and is not there any more: it is lost, though not on the way.
  void on_dropped(wire::Psn psn);
  // One with this PSN has arrived, though it could not be kept, or something that comes after it.
  void on_overtaken_before(wire::Psn psn);
  // All before `psn` has arrived, and is watched no longer. Gives what of it was known before.
  uint64_t on_all_arrived_before(wire::Psn psn, Time now);

  struct Lost {
    uint32_t packets = 0;
    uint64_t cost = 0;
    Time sent_at = 0;  // the last of them
  };
  // Which are lost now, if packets overtake each other by no more than `window`.
  [[nodiscard]] Lost find_lost(Duration window, Time now);
  // When the next one may be, as of find_lost().
  [[nodiscard]] Time next_look() const { return next_look_; }
  // The first that is lost and was not sent again since.
  [[nodiscard]] std::optional<wire::Psn> first_lost();
  [[nodiscard]] bool is_lost(wire::Psn psn) const { return is_watched(psn) && at(psn).lost; }
  [[nodiscard]] uint32_t cost_of(wire::Psn psn) const { return at(psn).cost; }
  // It is sent again for being lost.
  void on_repair(wire::Psn psn) { at(psn).repaired = true; }
  // Whether one that turned out to have arrived twice was a repair, then a needless one. Each is
  // told once.
  [[nodiscard]] bool was_needless(wire::Psn psn);

  // The answers of those sent so far come late for a reason that is not the way's.
  void distrust_times() { timed_from_ = next_order_; }

  // Not on their way, though not acknowledged.
  [[nodiscard]] uint64_t away() const { return arrived_ + lost_; }

  struct Sample {
    Duration round_trip = 0;
    uint32_t delivered = 0;  // of what on_sent() was told
    bool again = false;      // if it is not that of a copy sent earlier
  };
  // Of the last packet sent that arrived since the last call.
  [[nodiscard]] std::optional<Sample> take_sample();
  // How much later than one sent after it a packet came, at most, since the last call.
  [[nodiscard]] Duration take_lateness();

 private:
  struct Packet {
    Time sent_at = 0;    // of a response: when it was found to be missing, if it was
    uint32_t order = 0;  // in which packets were sent
    uint32_t delivered = 0;
    uint16_t cost = 0;
    bool out : 1 = false;       // sent, and not acknowledged
    bool arrived : 1 = false;   // though not all before it
    bool lost : 1 = false;      // and not sent again since
    bool again : 1 = false;     // sent more than once: nobody can tell which copy arrived
    bool timed : 1 = false;     // its answer tells the round trip
    bool missing : 1 = false;   // a response that others have overtaken
    bool repaired : 1 = false;  // sent again for being lost
  };
  static_assert(sizeof(Packet) == 24);

  [[nodiscard]] Packet& at(wire::Psn psn) { return ring_[psn.value() & (ring_.size() - 1)]; }
  [[nodiscard]] const Packet& at(wire::Psn psn) const {
    return ring_[psn.value() & (ring_.size() - 1)];
  }
  [[nodiscard]] bool is_watched(wire::Psn psn) const {
    return !psn.is_before(begin_) && psn.is_before(end_);
  }
  Packet* place_for(wire::Psn psn);
  void note_arrival(const Packet& packet, Time now);
  void note_loss(Packet& packet, wire::Psn psn);
  void forget_loss(Packet& packet);
  // When one that has not arrived is lost; kNever while it may be on its way.
  [[nodiscard]] Time lost_at(Packet& packet, wire::Psn psn, Duration window, Time now) const;

  Of what_;
  std::vector<Packet> ring_;  // by PSN; a power of two of them
  PsnBits awaited_;           // of those: out, and not known to have arrived
  wire::Psn begin_;
  wire::Psn end_;
  wire::Psn arrived_end_;  // none from here on has arrived
  wire::Psn lost_from_;    // none before this one is lost
  uint32_t lost_packets_ = 0;
  uint64_t arrived_ = 0;  // cost of those
  uint64_t lost_ = 0;
  uint32_t next_order_ = 1;
  uint32_t timed_from_ = 1;  // in that order
  // Of those that arrived, the one that was sent last.
  uint32_t newest_order_ = 0;
  Duration newest_round_trip_ = 0;
  Duration least_round_trip_ = 0;
  Duration lateness_ = 0;
  uint32_t sampled_order_ = 0;
  std::optional<Sample> sample_;
  Time next_look_ = kNever;
};

}  // namespace verbena::transport
