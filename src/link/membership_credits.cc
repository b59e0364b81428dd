// SPDX-License-Identifier: Apache-2.0
// Membership: how much of a local member's receive buffer we may fill, and those that take nothing.
#include <algorithm>

#include "link/clock.h"
#include "link/membership.h"
#include "link/membership_state.h"
#include "link/numbers.h"
#include "link/steering.h"

namespace verbena::link {

bool Membership::known(const wire::Gid& destination, Qpn qpn) {
  state_->look();
  return state_->local_receiver(destination, slot_of(qpn));
}

// Nobody else can get what is sent to this port of an address of this host.
bool Membership::is_gone(const wire::Gid& destination, Qpn qpn) {
  State& s = *state_;
  s.look();
  const auto slot = slot_of(qpn);
  return !s.is_member(slot) && slot != kGsiSlot && slot != kProbeSlot &&
         s.addresses.contains(destination);
}

bool Membership::available(const wire::Gid& destination, Qpn qpn) {
  State& s = *state_;
  s.look();
  const auto slot = slot_of(qpn);
  if (!s.local_receiver(destination, slot)) return true;
  if (s.holds_back()) return false;
  if (!s.ledger->available(slot)) return unresponsive_now(slot);
  if (s.refusals[slot].since != 0) responds_again(slot);
  return true;
}

uint32_t Membership::packets_available(const wire::Gid& destination, Qpn qpn, uint32_t packet_bytes,
                                       uint32_t wanted) {
  State& s = *state_;
  s.look();
  const auto slot = slot_of(qpn);
  if (!s.local_receiver(destination, slot)) return wanted;
  if (s.holds_back()) return 0;
  // What a datagram costs beyond its packets' bytes, at most.
  const int64_t beyond = packet_bytes + 2 * int64_t{kDatagramOverhead};
  const int64_t may = s.ledger->reserve(slot, beyond + int64_t{wanted} * packet_bytes);
  if (may == 0) return unresponsive_now(slot) ? wanted : 0;
  if (s.refusals[slot].since != 0) responds_again(slot);
  return static_cast<uint32_t>(std::clamp<int64_t>((may - beyond) / packet_bytes, 1, wanted));
}

// Refused again.
bool Membership::unresponsive_now(uint8_t slot) {
  State& s = *state_;
  State::Refusal& refusal = s.refusals[slot];
  const Time now = monotonic_now();
  if (refusal.incarnation != s.incarnation[slot]) responds_again(slot);  // that was somebody else
  // A refusal of long ago says nothing about today.
  const bool stale = now - refusal.last > kUnresponsiveAfter / 4;
  if (refusal.since == 0 || (stale && !refusal.unresponsive)) refusal.since = now;
  refusal.last = now;
  refusal.incarnation = s.incarnation[slot];
  if (now - std::max(refusal.since, refusal.told_at) >= kUnresponsiveAfter / 4) {
    refusal.told_at = now;
    (void)s.peers->wake(slot);
  }
  if (!refusal.unresponsive && now - refusal.since >= kUnresponsiveAfter) {
    refusal.unresponsive = true;
    ++unresponsive_;
  }
  return refusal.unresponsive;
}

void Membership::responds_again(uint8_t slot) {
  State::Refusal& refusal = state_->refusals[slot];
  if (refusal.unresponsive) --unresponsive_;
  refusal = {};
}

bool Membership::is_unresponsive(const wire::Gid& destination, Qpn qpn) {
  State& s = *state_;
  s.look();
  const auto slot = slot_of(qpn);
  if (!s.refusals[slot].unresponsive) return false;
  if (!s.is_member(slot) || s.ledger->available(slot)) {
    responds_again(slot);
    return false;
  }
  return s.addresses.contains(destination);
}

void Membership::spend(const wire::Gid& destination, Qpn qpn, uint32_t cost) {
  State& s = *state_;
  s.look();
  const auto slot = slot_of(qpn);
  if (s.local_receiver(destination, slot)) s.ledger->spend(slot, cost);
}

bool Membership::is_unread(const wire::Gid& destination, Qpn qpn) {
  State& s = *state_;
  s.look();
  const auto slot = slot_of(qpn);
  return s.local_receiver(destination, slot) &&
         (s.ledger->is_unread(slot) || s.ledger->is_blocked(slot));
}

bool Membership::room_again() {
  state_->look();
  if (state_->held_since != 0 && !state_->holds_back()) return true;
  return state_->ledger->room_again();
}

void Membership::settle() {
  state_->look();
  state_->ledger->settle();
}

void Membership::consumed(const Datagram& datagram, uint32_t cost) {
  State& s = *state_;
  if (datagram.bytes[kSlotByte] != slot_) return;
  s.look();
  const uint8_t from = s.sender_of(datagram.source, datagram.source_port);
  if (from == 0) return;
  s.ledger->consumed(from, cost);
  if (!s.ledger->to_wake().empty()) s.wake_refused();
}

void Membership::found_nothing() {
  State& s = *state_;
  s.look();
  s.ledger->found_nothing();
  if (!s.ledger->to_wake().empty()) s.wake_refused();
}

bool Membership::wants_look(Time now) const { return state_->ledger->wants_look(now); }

void Membership::begin_look() {
  state_->look();
  state_->ledger->begin_look();
}

void Membership::found_empty(Time now) {
  State& s = *state_;
  s.look();
  s.ledger->found_empty(now);
  if (!s.ledger->to_wake().empty()) s.wake_refused();
}

Time Membership::next_look() const { return state_->ledger->next_look(); }

void Membership::put_off_look(Time now) { state_->ledger->put_off_look(now); }

bool Membership::awaits_empty() {
  state_->look();
  return state_->ledger->awaits_empty();
}

void Membership::set_polling(bool polling) {
  // seq_cst: pairs with CreditLedger::wake_refused(), which reads it after giving back.
  state_->table().slots[state_->self].polling.store(polling ? 1 : 0, std::memory_order_seq_cst);
}

void Membership::State::wake_refused() {
  for (const uint8_t waiting : ledger->to_wake()) {
    if (!is_member(waiting)) continue;
    (void)peers->wake(waiting);
    ++counters.woken;
  }
  ledger->to_wake().clear();
}

}  // namespace verbena::link
