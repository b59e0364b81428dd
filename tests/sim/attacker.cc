// SPDX-License-Identifier: Apache-2.0
#include "sim/attacker.h"

#include <algorithm>
#include <array>
#include <utility>

#include "wire/encode.h"
#include "wire/network.h"

namespace verbena::sim {

using wire::Op;
using wire::Service;

namespace {

constexpr size_t kCaptured = 64;

[[nodiscard]] uint64_t key(uint32_t host, Qpn qpn) { return uint64_t{host} << 32 | qpn.value; }

[[nodiscard]] wire::Headers headers_for(Service service, Op op, Qpn qpn, wire::Psn psn) {
  wire::Headers headers;
  headers.bth.opcode = wire::opcode_byte(service, op);
  headers.bth.dest_qp = qpn;
  headers.bth.psn = psn;
  headers.bth.ack_request = true;
  return headers;
}

}  // namespace

Attacker::Attacker(World& world, UdGroup* ud) : world_(world), ud_(ud) {
  const bool ipv4 = world.node(0).address().is_ipv4();
  address_ = wire::Gid::from_ipv4(10, 9, 9, 9);
  if (!ipv4) address_ = wire::Gid{{0xfd, 0x99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x66, 0x66}};
}

uint32_t Attacker::mtu_towards(uint32_t host, Qpn qpn) const {
  for (RcPair* pair : pairs_) {
    for (uint32_t lane : {0u, 1u}) {
      const End& to = pair->lane(lane).to();
      if (to.host == host && to.qpn == qpn) return transport::mtu_bytes(pair->terms(lane).mtu);
    }
  }
  return 256;
}

// Wiretapping: where each connection stands, and frames to play back.
void Attacker::on_frame(const link::FrameEvent& event) {
  if (event.kind != link::FrameEvent::Kind::kSent || event.to >= world_.hosts()) return;
  const auto frame = wire::dissect(event.bytes);
  if (!frame) return;
  const auto view = wire::parse(frame->transport);
  if (!view) return;
  if (view->info->service == Service::kRc && !view->info->is_response()) {
    uint32_t packets = 1;
    if (view->info->operation == wire::Operation::kReadRequest) {
      const uint32_t mtu = mtu_towards(event.to, view->bth.dest_qp);
      packets = std::max(1u, (view->reth().length + mtu - 1) / mtu);
    }
    const wire::Psn end = view->bth.psn + packets;
    const auto [place, fresh] = ends_.try_emplace(key(event.to, view->bth.dest_qp), end);
    if (!fresh && (place->second.is_before(end) || distance(end, place->second) > 1 << 21)) {
      place->second = end;
    }
  }
  const bool spared = std::ranges::any_of(spared_, [&](const End& end) {
    return end.host == event.to && end.qpn == view->bth.dest_qp;
  });
  if (!spared && world_.random().below(16) == 0) {
    captured_.push_back({event.to, {event.bytes.begin(), event.bytes.end()}});
    if (captured_.size() > kCaptured) captured_.pop_front();
  }
}

void Attacker::next() {
  world_.after(static_cast<Duration>(world_.draw(1, static_cast<uint64_t>(pace_))), [this] {
    if (stopped_) return;
    strike();
    next();
  });
}

void Attacker::strike() {
  ++strikes_;
  switch (world_.draw(0, 7)) {
    case 0:  return forge_from_elsewhere();
    case 1:  return forge_to_nobody();
    case 2:  return forge_foreign_service();
    case 3:
    case 4:  return replay();
    case 5:
    case 6:  return answer_what_was_not_asked();
    default: return answer_nonsense();
  }
}

bool Attacker::pick_victim(Victim& victim) {
  if (pairs_.empty()) return false;
  victim.pair = pairs_[world_.draw(0, pairs_.size() - 1)];
  victim.lane = static_cast<uint32_t>(world_.draw(0, 1));
  return victim.pair->connected();
}

wire::Psn Attacker::sent_end(const Victim& victim) const {
  const End& to = victim.pair->lane(victim.lane).to();
  const auto known = ends_.find(key(to.host, to.qpn));
  const wire::Psn first = victim.pair->terms(victim.lane).send_psn;
  // What was seen may belong to an earlier life of the queue pair.
  if (known == ends_.end() || distance(first, known->second) < 0 ||
      distance(first, known->second) > 1 << 20) {
    return first;
  }
  return known->second;
}

void Attacker::deliver(uint32_t host, const wire::Gid& source,
                       std::span<const uint8_t> bth_to_pad) {
  wire::IcrcFlow flow;
  flow.source = source;
  flow.destination = world_.node(host).address();
  flow.source_port = 0xd000;
  flow.destination_port = wire::kRoceUdpPort;
  world_.strike(host, wire::build_frame(flow, 64, 0, bth_to_pad));
}

// A send, or a congestion notification, that would be good but for the address it comes from.
void Attacker::forge_from_elsewhere() {
  Victim victim;
  if (!pick_victim(victim)) return;
  const End& to = victim.pair->lane(victim.lane).to();
  const bool notice = world_.chance(20);
  const wire::Headers headers =
      headers_for(notice ? Service::kCnp : Service::kRc, notice ? Op::kSendMiddle : Op::kSendOnly,
                  to.qpn, sent_end(victim));
  const std::array<uint8_t, 8> payload{1, 2, 3, 4, 5, 6, 7, 8};
  deliver(to.host, address_, wire::encode(headers, payload));
}

void Attacker::forge_to_nobody() {
  const auto host = static_cast<uint32_t>(world_.draw(0, world_.hosts() - 1));
  const Qpn qpn(static_cast<uint32_t>(world_.random().next()) & kQpnMask);
  const wire::Headers headers = headers_for(Service::kRc, Op::kReadRequest, qpn, wire::Psn(7));
  deliver(host, world_.node((host + 1) % world_.hosts()).address(), wire::encode(headers, {}));
}

void Attacker::forge_foreign_service() {
  Victim victim;
  if (!pick_victim(victim)) return;
  const End& to = victim.pair->lane(victim.lane).to();
  const End& from = victim.pair->lane(victim.lane).from();
  constexpr std::array<std::pair<Service, Op>, 5> kForeign = {{{Service::kRd, Op::kSendOnly},
                                                               {Service::kXrc, Op::kWriteOnly},
                                                               {Service::kCnp, Op::kSendMiddle},
                                                               {Service::kUd, Op::kSendOnly},
                                                               {Service::kUc, Op::kSendOnly}}};
  const auto [service, op] = kForeign[world_.draw(0, kForeign.size() - 1)];
  const wire::Headers headers = headers_for(service, op, to.qpn, sent_end(victim));
  const std::array<uint8_t, 16> payload{};
  deliver(to.host, world_.node(from.host).address(), wire::encode(headers, payload));
}

void Attacker::replay() {
  if (captured_.empty()) return;
  const Captured& old = captured_[world_.draw(0, captured_.size() - 1)];
  if (ud_ != nullptr) ud_->count_delivery(old.frame);
  world_.strike(old.to, old.frame);
}

// Acknowledges, or refuses, what was never sent.
void Attacker::answer_what_was_not_asked() {
  Victim victim;
  if (!pick_victim(victim)) return;
  const Lane& lane = victim.pair->lane(victim.lane);
  const auto beyond =
      static_cast<uint32_t>(world_.chance(80) ? world_.draw(1, 6) : world_.draw(1, 1u << 20));
  wire::Headers headers =
      headers_for(Service::kRc, Op::kAcknowledge, lane.from().qpn, sent_end(victim) + beyond);
  headers.aeth.syndrome =
      world_.chance(80) ? wire::syndrome::kAckNoCredits : wire::syndrome::kNakRemoteAccess;
  deliver(lane.from().host, world_.node(lane.to().host).address(), wire::encode(headers, {}));
}

// A response with data that claims to be a refusal.
void Attacker::answer_nonsense() {
  Victim victim;
  if (!pick_victim(victim)) return;
  const Lane& lane = victim.pair->lane(victim.lane);
  wire::Headers headers = headers_for(Service::kRc, Op::kReadResponseOnly, lane.from().qpn,
                                      sent_end(victim).previous());
  headers.aeth.syndrome = wire::syndrome::kNakSequence;
  deliver(lane.from().host, world_.node(lane.to().host).address(), wire::encode(headers, {}));
}

}  // namespace verbena::sim
