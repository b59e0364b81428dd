// SPDX-License-Identifier: Apache-2.0
// Membership: whose a packet is that came here, and whether it is from somebody who may send.
#include <algorithm>
#include <optional>

#include "link/clock.h"
#include "link/membership.h"
#include "link/membership_state.h"
#include "link/steering.h"
#include "wire/headers.h"
#include "wire/packet.h"

namespace verbena::link {
namespace {

[[nodiscard]] uint32_t bytes_of(const Datagram& datagram) {
  return static_cast<uint32_t>(datagram.bytes.size());
}

[[nodiscard]] uint32_t packets_in(const Datagram& joined, uint32_t segment) {
  return static_cast<uint32_t>((joined.bytes.size() + segment - 1) / segment);
}

}  // namespace

bool Membership::is_sender(const wire::Gid& source, uint16_t source_port) {
  // Nobody sends from there, but who forges could: it stands for a peer's that is not known yet.
  if (source_port == 0) return false;
  State& s = *state_;
  s.look();
  if (source_port == s.admitted_port && source == s.admitted) return true;
  if (s.addresses.contains(source) && s.sender_of(source, source_port) == 0) return false;
  s.admitted = source;
  s.admitted_port = source_port;
  return true;
}

bool Membership::was_left_behind(const Datagram& datagram) {
  using Pays = SenderPorts::Pays;
  if (datagram.bytes.size() < kShortestSteered) return false;
  const uint8_t slot = datagram.bytes[kSlotByte];
  const Pays pays = slot == kGsiSlot || slot == kProbeSlot ? Pays::kNothing
                    : slot != slot_                        ? Pays::kElsewhere
                    : datagram.index == 0                  ? Pays::kForDatagram
                                                           : Pays::kForBytes;
  return state_->senders.was_left_behind(family_of(datagram.source), datagram.source_port, pays,
                                         static_cast<uint32_t>(datagram.bytes.size()),
                                         monotonic_now());
}

bool Membership::pass_on(const Datagram& joined, uint32_t segment) {
  State& s = *state_;
  const uint8_t slot = joined.bytes[kSlotByte];
  if (slot == kProbeSlot) return s.on_probe(joined);
  const uint32_t packets = packets_in(joined, segment);
  s.look();
  if (slot == kGsiSlot) return pass_on_mad(joined);
  if (!s.is_member(slot)) {  // an old packet, or nobody's: no reason to doubt the steering
    s.counters.unclaimed += packets;
    return true;
  }
  if (s.peers->forward(slot, joined, segment)) {
    s.counters.forwarded += packets;
    s.doubt_order();
  } else {
    s.counters.forward_failed += packets;
    s.suspect(0);
  }
  return true;
}

// A courtesy of few peers; where there are many members it is not worth its price.
void Membership::tell_others(const Datagram& datagram) {
  constexpr uint32_t kMostMembers = 16;
  State& s = *state_;
  if (s.member_count > kMostMembers) return;
  for (uint32_t slot = kFirstSlot; slot <= kLastSlot; ++slot) {
    if (slot != s.self && s.is_member(static_cast<uint8_t>(slot))) {
      (void)s.peers->forward(static_cast<uint8_t>(slot), datagram, bytes_of(datagram));
    }
  }
}

std::optional<uint8_t> Membership::State::slot_for(const ManagementRoute& route,
                                                   const wire::Gid& destination) {
  using Kind = ManagementRoute::Kind;
  if (route.kind == Kind::kSlot) return route.slot;
  if (route.kind != Kind::kService) return std::nullopt;
  return Ports(table(), self).listener(route.service_id, route.address.value_or(destination));
}

// Of QP1: an answer goes to the member whose connection it is about, a request to who listens. For
// one of nobody's, any member can say so.
bool Membership::pass_on_mad(const Datagram& datagram) {
  State& s = *state_;
  constexpr size_t kMessageAt = wire::Bth::kBytes + wire::Deth::kBytes;
  constexpr size_t kAround = kMessageAt + wire::kIcrcBytes;
  if (s.taking_over || s.options.management == nullptr || datagram.bytes.size() < kAround) {
    return false;
  }
  const ManagementRoute route = s.options.management->route(
      datagram.bytes.subspan(kMessageAt, datagram.bytes.size() - kAround));
  if (route.kind == ManagementRoute::Kind::kEveryone) tell_others(datagram);
  const uint8_t slot = s.slot_for(route, datagram.destination).value_or(s.self);
  if (slot == s.self || slot == kGsiSlot || slot == kProbeSlot || !s.is_member(slot)) return false;
  ++(s.peers->forward(slot, datagram, bytes_of(datagram)) ? s.counters.forwarded
                                                          : s.counters.forward_failed);
  return true;
}

// Together they cost the connection no more than they cost the receive buffer that they went to.
uint32_t Membership::route_joined(const Datagram& rest, uint32_t segment) {
  if (segment < kShortestSteered) return 0;
  const auto slot_at = [&](size_t at) { return rest.bytes[at + kSlotByte]; };
  const size_t bytes = rest.bytes.size();
  const uint8_t slot = bytes < kShortestSteered ? slot_ : slot_at(0);
  if (slot == slot_ || slot == kGsiSlot || slot == kProbeSlot) return 0;
  size_t end = 0;
  while (end + kShortestSteered <= bytes && slot_at(end) == slot) end += segment;
  Datagram same = rest;
  same.bytes = rest.bytes.first(std::min(end, bytes));
  (void)pass_on(same, segment);
  return packets_in(same, segment);
}

void Membership::State::on_forwarded(const Datagram& joined, uint32_t segment) {
  if (joined.bytes.size() <= kSlotByte) return;
  const uint8_t slot = joined.bytes[kSlotByte];
  if (slot != self && slot != kGsiSlot) return;
  counters.taken_over += packets_in(joined, segment);
  if (handler == nullptr) return;
  const auto bytes = static_cast<uint32_t>(joined.bytes.size());
  taking_over = true;
  if (bytes <= segment) {
    handler->on_datagram(joined);
  } else {
    split(joined, segment, *handler);
  }
  taking_over = false;
  if (slot == kGsiSlot) return;  // nobody pays for those
  handler->on_consumed(joined, datagram_cost(bytes, std::min(segment, bytes)));
}

std::optional<ManagementTarget> Membership::target_of(const wire::Gid& destination,
                                                      std::span<const uint8_t> message) {
  State& s = *state_;
  if (s.options.management == nullptr || !s.addresses.contains(destination)) return std::nullopt;
  const ManagementRoute route = s.options.management->route(message);
  const auto slot = s.slot_for(route, destination);
  if (!slot) return std::nullopt;
  return ManagementTarget{*slot, route.kind == ManagementRoute::Kind::kService};
}

}  // namespace verbena::link
