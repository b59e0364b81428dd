// SPDX-License-Identifier: Apache-2.0
// SharedLink: how rings come: offered, taken, refused, withdrawn.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "link/bell.h"
#include "link/clock.h"
#include "link/shared_link.h"
#include "link/shared_link_ends.h"

namespace verbena::link {
namespace {

// A process with many peers talks to few of them at a time.
constexpr uint32_t kLargeRings = 16;
constexpr uint32_t kLargeBytes = 256 * 1024;
// A member takes its rings as soon as it has the processor. One that is stopped for longer is
// reached through the sockets from then on.
constexpr Duration kTakenWithin = 250 * kMillisecond;

}  // namespace

SharedLink::Out* SharedLink::way_to(uint8_t slot) {
  look();
  Out* const out = out_[slot].get();
  if (out != nullptr) return out;
  if (abandoned_ || no_ring_[slot] == parts_.host.incarnation(slot)) return nullptr;
  return open(slot);
}

SharedLink::Out* SharedLink::open(uint8_t slot) {
  const uint32_t incarnation = parts_.host.incarnation(slot);
  auto made = Ring::make(rings_made_ < kLargeRings ? kLargeBytes : Ring::kLeastBytes);
  bool taken = false;
  if (made && slot == self_) {
    if (auto ring = Ring::adopt(made->fd.get())) {
      add_reader(slot, incarnation, std::move(*ring));
      taken = true;
    }
  } else if (made) {
    taken = parts_.host.offer_ring(slot, made->fd.get(), bell_.get());
  }
  if (!taken) {
    no_ring_[slot] = incarnation;
    return nullptr;
  }
  ++rings_made_;
  out_[slot] = std::make_unique<Out>(std::move(made->ring), slot, incarnation);
  if (parts_.otherwise != nullptr && !out_[slot]->ring.is_taken()) {
    out_[slot]->take_by = monotonic_now() + kTakenWithin;
    take_check_ = std::min(take_check_, out_[slot]->take_by);
  }
  return out_[slot].get();
}

void SharedLink::on_ring(uint8_t slot, uint32_t incarnation, UniqueFd& ring, UniqueFd& bell) {
  const bool is_alive = incarnation == parts_.host.incarnation(slot);
  if (is_alive) on_bell(slot, bell);
  auto adopted = Ring::adopt(ring.get());
  if (!adopted) return is_alive ? parts_.host.refuse_ring(slot) : void();
  // One of the same member's that was there goes: it made another because it lost that one.
  std::erase_if(in_, [slot](const auto& in) { return in->slot == slot; });
  add_reader(slot, incarnation, std::move(*adopted));
  if (is_alive) {
    parts_.host.offer_bell(slot, bell_.get());
  } else {
    has_dead_ = true;
  }
  if (!in_.back()->ring.is_empty()) on_woken();
}

void SharedLink::add_reader(uint8_t slot, uint32_t incarnation, Ring ring) {
  in_.push_back(std::make_unique<In>(std::move(ring), slot, incarnation));
}

void SharedLink::on_bell(uint8_t slot, UniqueFd& bell) {
  if (is_bell(bell.get())) bells_[slot] = {std::move(bell), parts_.host.incarnation(slot)};
}

void SharedLink::on_no_ring(uint8_t slot) {
  if (out_[slot] != nullptr) give_up(slot);
}

void SharedLink::withdraw_late(Time now) {
  take_check_ = kNever;
  for (size_t i = 0; i < kSlots; ++i) {
    Out* const out = out_[i].get();
    if (out == nullptr || out->take_by == kNever) continue;
    if (out->ring.is_taken()) {
      out->take_by = kNever;
    } else if (out->take_by <= now) {
      give_up(static_cast<uint8_t>(i));
    } else {
      take_check_ = std::min(take_check_, out->take_by);
    }
  }
}

void SharedLink::give_up(uint8_t slot) {
  const std::unique_ptr<Out> out = std::move(out_[slot]);
  forget_way();
  out->ring.show();
  no_ring_[slot] = out->incarnation;
  if (parts_.otherwise == nullptr || !out->ring.withdraw()) return;
  RingReader unread(std::move(out->ring));
  send_otherwise(unread);
}

// A ring holds more than a receive buffer: data for which that has no room is lost, as on any
// network; sent all the same, it would take the room of what others send there.
class SharedLink::Otherwise {
 public:
  explicit Otherwise(const Parts& parts) : link_(*parts.otherwise), sent_(parts.sent) {}

  void take_flow(const RingFlow& flow) {
    path_.source = {flow.source};
    path_.destination = {flow.destination};
    path_.traffic_class = flow.traffic_class;
    path_.hop_limit = flow.hop_limit;
    path_.interface_index = flow.interface_index;
  }
  void send(std::span<const uint8_t> headers, std::span<const uint8_t> payload) {
    const wire::Bth bth = wire::Bth::read(headers.data());
    const auto bytes = static_cast<uint32_t>(payload.size());
    const transport::OutPacket packet{.path = &path_,
                                      .headers = headers,
                                      .payload = {&payload, 1},
                                      .payload_bytes = bytes,
                                      .pad_bytes = bth.pad_bytes,
                                      .copy_first = true};
    if (bth.dest_qp == kGsiQpn) return link_.send_management(packet);
    // Acknowledgements are few.
    if (bytes == 0 || room_for(bth.dest_qp, bytes, 1) != 0) link_.send(packet);
  }
  void send_run(wire::Bth bth, std::span<const uint8_t> payload, uint32_t each, uint32_t packets) {
    const bool asks = bth.ack_request;
    while (packets != 0) {
      const uint32_t some = room_for(bth.dest_qp, each, packets);
      if (some == 0) return;
      const auto part = payload.first(size_t{some} * each);
      bth.ack_request = asks && some == packets;
      link_.send_run({.path = &path_,
                      .first = bth,
                      .payload = {&part, 1},
                      .packet_payload = each,
                      .packets = some,
                      .copy_first = true});
      payload = payload.subspan(part.size());
      packets -= some;
      for (uint32_t i = 0; i < some; ++i) bth.psn = bth.psn.next();
    }
  }

 private:
  // Once there is none, what comes later is not sent either.
  [[nodiscard]] uint32_t room_for(Qpn qpn, uint32_t payload_bytes, uint32_t packets) {
    constexpr uint32_t kAround = wire::Bth::kBytes + wire::kIcrcBytes;
    const uint32_t room = full_ ? 0 : link_.room_for(path_, qpn, payload_bytes + kAround, packets);
    full_ = room == 0;
    if (full_) sent_.to_unresponsive += packets;
    return room;
  }

  Link& link_;
  TransmitCounters& sent_;
  transport::Path path_;
  bool full_ = false;
};

// Nobody else has read it, but another process may have written to it.
void SharedLink::send_otherwise(RingReader& ring) {
  Otherwise otherwise(parts_);
  while (const auto record = ring.next()) {
    const RecordHead& head = record->head;
    std::array<uint8_t, Ring::kMaxHeaderBytes> copy;
    std::memcpy(copy.data(), record->headers.data(), record->headers.size());
    const auto headers = std::span<const uint8_t>(copy).first(record->headers.size());
    ring.advance(*record);
    if (head.kind == RecordKind::kFlow && headers.size() == sizeof(RingFlow)) {
      RingFlow flow;
      std::memcpy(&flow, headers.data(), sizeof flow);
      otherwise.take_flow(flow);
      continue;
    }
    if (headers.size() < wire::Bth::kBytes) continue;
    const uint32_t each = payload_of_each(head);
    if (head.kind == RecordKind::kRun && each != 0) {
      otherwise.send_run(wire::Bth::read(headers.data()), record->payload, each, head.packets);
    } else if (head.kind == RecordKind::kPacket && head.payload_bytes <= wire::kMaxMtu) {
      otherwise.send(headers, record->payload);
    }
  }
  parts_.otherwise->cut();  // while the ring is there
}

}  // namespace verbena::link
