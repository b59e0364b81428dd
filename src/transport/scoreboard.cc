// SPDX-License-Identifier: Apache-2.0
#include "transport/scoreboard.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace verbena::transport {
namespace {

using wire::Psn;

constexpr size_t kFirstPackets = 256;

[[nodiscard]] bool is_later(uint32_t order, uint32_t than) {
  return static_cast<int32_t>(order - than) > 0;
}

}  // namespace

Scoreboard::Scoreboard(Of what, Psn begin)
    : what_(what),
      ring_(kFirstPackets),
      awaited_(kFirstPackets),
      begin_(begin),
      end_(begin),
      arrived_end_(begin),
      lost_from_(begin) {}

// nullptr when it is too far ahead to be watched; that does not happen.
Scoreboard::Packet* Scoreboard::place_for(Psn psn) {
  const int32_t ahead = distance(begin_, psn);
  if (ahead < 0 || ahead >= static_cast<int32_t>(kMaxPackets)) return nullptr;
  size_t size = ring_.size();
  while (static_cast<size_t>(ahead) >= size) size *= 2;
  if (size != ring_.size()) {
    std::vector<Packet> larger(size);
    for (Psn at = begin_; at != end_; at = at.next()) {
      larger[at.value() & (size - 1)] = this->at(at);
    }
    ring_ = std::move(larger);
    awaited_ = PsnBits(size);
    for (Psn each = begin_; each != end_; each = each.next()) {
      if (at(each).out && !at(each).arrived) awaited_.set(each);
    }
  }
  const int32_t watched = distance(begin_, end_);
  VERBENA_CHECK(watched >= 0);
  for (int32_t i = watched; i <= ahead; ++i, end_ = end_.next()) at(end_) = {};
  return &at(psn);
}

Psn Scoreboard::next_awaited(Psn psn) const {
  VERBENA_CHECK(!end_.is_before(begin_));
  return awaited_.next_set(psn.is_before(begin_) ? begin_ : psn, end_);
}

void Scoreboard::note_loss(Packet& packet, Psn psn) {
  packet.lost = true;
  if (lost_packets_++ == 0 || psn.is_before(lost_from_)) lost_from_ = psn;
  lost_ += packet.cost;
}

void Scoreboard::forget_loss(Packet& packet) {
  if (!packet.lost) return;
  packet.lost = false;
  lost_ -= packet.cost;
  --lost_packets_;
}

void Scoreboard::on_sent(Psn psn, uint32_t cost, bool timed, uint64_t delivered, Time now) {
  Packet* const packet = place_for(psn);
  if (packet == nullptr) return;
  forget_loss(*packet);
  packet->again = packet->out;
  packet->out = true;
  if (!packet->arrived) awaited_.set(psn);
  packet->timed = timed && (!packet->again || what_ == Of::kResponses);
  packet->missing = false;
  packet->sent_at = now;
  packet->order = next_order_++;
  packet->delivered = static_cast<uint32_t>(delivered);
  packet->cost = static_cast<uint16_t>(cost);
}

void Scoreboard::on_sent_before(Psn psn, uint32_t cost, Time about) {
  on_sent(psn, cost, /*timed=*/false, 0, about);
}

// An answer that comes sooner than any is that to a copy sent earlier.
void Scoreboard::note_arrival(const Packet& packet, Time now) {
  const Duration round_trip = std::max<Duration>(now - packet.sent_at, 1);
  if (packet.again && what_ == Of::kRequests && round_trip < least_round_trip_) return;
  if (newest_order_ == 0 || is_later(packet.order, newest_order_)) {
    newest_order_ = packet.order;
    newest_round_trip_ = round_trip;
  } else if (what_ == Of::kResponses ? packet.missing && !packet.again : packet.timed) {
    lateness_ = std::max(lateness_,
                         packet.missing ? now - packet.sent_at : round_trip - newest_round_trip_);
  }
  if (!packet.timed || is_later(timed_from_, packet.order)) return;
  if (!packet.again && (least_round_trip_ == 0 || round_trip < least_round_trip_)) {
    least_round_trip_ = round_trip;
  }
  if (sample_ && !is_later(packet.order, sampled_order_)) return;
  sampled_order_ = packet.order;
  sample_ = Sample{round_trip, packet.delivered, packet.again};
}

uint32_t Scoreboard::on_arrived(Psn psn, Time now) {
  if (!is_watched(psn)) return 0;
  Packet& packet = at(psn);
  if (!packet.out || packet.arrived) return 0;
  forget_loss(packet);
  packet.arrived = true;
  awaited_.reset(psn);
  arrived_ += packet.cost;
  if (!psn.is_before(arrived_end_)) arrived_end_ = psn.next();
  note_arrival(packet, now);
  return packet.cost;
}

void Scoreboard::on_dropped(Psn psn) {
  if (!is_watched(psn)) return;
  Packet& packet = at(psn);
  if (!packet.out || !packet.arrived) return;
  packet.arrived = false;
  awaited_.set(psn);
  arrived_ -= packet.cost;
  note_loss(packet, psn);
}

void Scoreboard::on_overtaken_before(Psn psn) {
  if (psn.is_after(end_)) psn = end_;
  if (psn.is_after(arrived_end_)) arrived_end_ = psn;
}

uint64_t Scoreboard::on_all_arrived_before(Psn psn, Time now) {
  uint64_t known = 0;
  for (; begin_.is_before(psn) && begin_ != end_; begin_ = begin_.next()) {
    Packet& packet = at(begin_);
    if (!packet.out) continue;
    packet.out = false;
    awaited_.reset(begin_);
    forget_loss(packet);
    if (packet.arrived) {
      arrived_ -= packet.cost;
      known += packet.cost;
    } else {
      note_arrival(packet, now);
    }
  }
  if (begin_.is_before(psn)) begin_ = end_ = psn;
  if (arrived_end_.is_before(begin_)) arrived_end_ = begin_;
  if (lost_from_.is_before(begin_)) lost_from_ = begin_;
  return known;
}

Time Scoreboard::lost_at(Packet& packet, Psn psn, Duration window, Time now) const {
  const bool overtaken = newest_order_ != 0 && !is_later(packet.order, newest_order_);
  if (what_ == Of::kRequests) {
    return overtaken ? packet.sent_at + newest_round_trip_ + window : kNever;
  }
  if (packet.again ? !overtaken : !psn.is_before(arrived_end_)) return kNever;
  if (!packet.missing) {
    packet.missing = true;
    packet.timed = false;
    packet.sent_at = now;
  }
  return packet.sent_at + window;
}

Scoreboard::Lost Scoreboard::find_lost(Duration window, Time now) {
  Lost found;
  next_look_ = kNever;
  for (Psn psn = next_awaited(begin_); psn != end_; psn = next_awaited(psn.next())) {
    Packet& packet = at(psn);
    if (packet.lost) continue;
    const Time late = lost_at(packet, psn, window, now);
    if (late == kNever && !packet.again && !psn.is_before(arrived_end_)) break;  // as all behind it
    if (now < late) {
      next_look_ = std::min(next_look_, late);
      continue;
    }
    note_loss(packet, psn);
    ++found.packets;
    found.cost += packet.cost;
    found.sent_at = std::max(found.sent_at, packet.sent_at);
  }
  return found;
}

std::optional<Psn> Scoreboard::first_lost() {
  if (lost_packets_ == 0) return std::nullopt;
  while (!at(lost_from_).lost) {
    lost_from_ = lost_from_.next();
    VERBENA_CHECK(is_watched(lost_from_));
  }
  return lost_from_;
}

// Those before `begin` are still there until others take their places.
bool Scoreboard::was_needless(Psn psn) {
  const int32_t behind_end = distance(psn, end_);
  if (behind_end <= 0 || static_cast<size_t>(behind_end) > ring_.size()) return false;
  const bool repaired = at(psn).repaired;
  at(psn).repaired = false;
  return repaired;
}

std::optional<Scoreboard::Sample> Scoreboard::take_sample() {
  return std::exchange(sample_, std::nullopt);
}

Duration Scoreboard::take_lateness() { return std::exchange(lateness_, 0); }

}  // namespace verbena::transport
