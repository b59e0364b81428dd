// SPDX-License-Identifier: Apache-2.0
// Membership: what members say to each other of rings in shared memory.
#include <array>

#include "link/membership.h"
#include "link/membership_state.h"
#include "link/numbers.h"

namespace verbena::link {

void Membership::set_ring_events(RingEvents* events) { state_->ring_events = events; }

uint8_t Membership::ring_reader(const wire::Gid& destination, Qpn qpn) {
  State& s = *state_;
  s.look();
  const auto slot = slot_of(qpn);
  return s.reads_rings[slot] && s.local_receiver(destination, slot) ? slot : uint8_t{0};
}

uint32_t Membership::generation() {
  state_->look();
  return state_->seen_generation;
}

uint32_t Membership::incarnation(uint8_t slot) const { return state_->incarnation[slot]; }

SharedTable& Membership::table() { return state_->table(); }

bool Membership::offer_ring(uint8_t slot, int ring, int bell) {
  State& s = *state_;
  const std::array<int, 2> passed{ring, bell};
  return s.peers->tell(slot, {PeerMessage::Kind::kRing, s.self, s.incarnation[s.self]}, passed);
}

void Membership::offer_bell(uint8_t slot, int bell) {
  State& s = *state_;
  (void)s.peers->answer(slot, {PeerMessage::Kind::kBell, s.self, s.incarnation[s.self]},
                        {&bell, 1});
}

void Membership::refuse_ring(uint8_t slot) {
  (void)state_->peers->answer(slot, {PeerMessage::Kind::kNoRing, state_->self});
}

bool Membership::wake(uint8_t slot) { return state_->peers->wake(slot); }

// What was said by a member that is gone is not its successor's word. What it sent before it went
// has been sent.
void Membership::State::on_ring(uint8_t slot, uint32_t claimed, UniqueFd& ring, UniqueFd& bell) {
  look();
  const bool has_left = is_taken(claimed) && claimed + 1 == incarnation[slot];
  if (ring_events != nullptr && (has_left || (is_member(slot) && claimed == incarnation[slot]))) {
    ring_events->on_ring(slot, claimed, ring, bell);
  }
}

void Membership::State::on_bell(uint8_t slot, uint32_t claimed, UniqueFd& bell) {
  look();
  if (ring_events != nullptr && is_member(slot) && claimed == incarnation[slot]) {
    ring_events->on_bell(slot, bell);
  }
}

void Membership::State::on_no_ring(uint8_t slot) {
  if (ring_events != nullptr && slot != 0) ring_events->on_no_ring(slot);
}

void Membership::State::on_woken() {
  ledger->expect_leftovers();
  if (ring_events != nullptr) ring_events->on_woken();
}

}  // namespace verbena::link
