// SPDX-License-Identifier: Apache-2.0
// SharedLink: what is sent, and who is woken. How rings come: shared_link_offers.cc. What is
// received: shared_link_in.cc.
#include "link/shared_link.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/full_fence.h"
#include "link/bell.h"
#include "link/clock.h"
#include "link/shared_link_ends.h"
#include "link/whole_packet.h"
#include "memory/move.h"

namespace verbena::link {
namespace {

// What data leaves of a ring to acknowledgements.
constexpr uint32_t kReserve = 8 * 1024;
// A packet of any size, and the flow before it.
constexpr uint32_t kAnyPacket = 2 * Ring::kLine + wire::kMaxMtu + Ring::kLine;
constexpr Duration kIdleAfter = 2 * kSecond;
// Small records are shown together, at the latest by flush().
constexpr uint32_t kShownTogether = 2048;

[[nodiscard]] RingFlow flow_of(const transport::Path& path) {
  return {path.source.bytes, path.destination.bytes, path.traffic_class, path.hops(),
          path.interface_index};
}

}  // namespace

std::unique_ptr<SharedLink> SharedLink::make(const Parts& parts) {
  UniqueFd bell = make_bell();
  if (!bell.valid()) return nullptr;
  return std::unique_ptr<SharedLink>(new SharedLink(parts, std::move(bell)));
}

SharedLink::SharedLink(const Parts& parts, UniqueFd bell)
    : parts_(parts),
      table_(parts.host.table()),
      self_(parts.host.slot()),
      bell_(std::move(bell)),
      whole_(wire::kMaxPacketBytes) {
  touched_.reserve(kSlots);
  refused_.reserve(kSlots);
  before_.reserve(kSlots);
  parts_.host.set_ring_events(this);
}

SharedLink::~SharedLink() { parts_.host.set_ring_events(nullptr); }

void SharedLink::abandon_in_child() {
  forget_way();
  for (auto& out : out_) out.reset();
  in_.clear();
  for (auto& bell : bells_) bell.fd.reset();
  bell_.reset();
  touched_.clear();
  refused_.clear();
  before_.clear();
  idle_check_ = take_check_ = kNever;
  // Nothing is sent any more, least of all through a new ring.
  no_ring_.fill(~uint32_t{0});
  abandoned_ = true;
}

// --- rings

// By word of mouth, which the helper heard: it may be another thread that sleeps.
void SharedLink::on_woken() { ring(bell_.get()); }

void SharedLink::forget_the_dead() {
  seen_generation_ = parts_.host.generation();
  forget_way();
  for (size_t i = 0; i < kSlots; ++i) {
    const auto slot = static_cast<uint8_t>(i);
    const uint32_t incarnation = parts_.host.incarnation(slot);
    if (out_[i] != nullptr && out_[i]->incarnation != incarnation) out_[i].reset();
    if (bells_[i].incarnation != incarnation) bells_[i].fd.reset();
  }
  has_dead_ = true;
  // Whoever sends while it receives comes here as well.
  if (!receiving_) drop_dead_rings();
}

// What a member sent before it died has been sent: it is read first.
void SharedLink::drop_dead_rings() {
  has_dead_ = false;
  std::erase_if(in_, [this](const auto& in) {
    if (in->incarnation == parts_.host.incarnation(in->slot)) return false;
    const bool done = in->ring.is_broken() || in->ring.is_empty();
    if (!done) has_dead_ = true;
    return done;
  });
}

SharedLink::Out* SharedLink::find_way(const wire::Gid& destination, Qpn qpn) {
  const uint8_t slot = parts_.host.ring_reader(destination, qpn);
  Out* const out = slot == 0 ? nullptr : way_to(slot);
  if (out != nullptr) last_way_ = {destination, slot, seen_generation_, out};
  return out;
}

// --- room

// The receiver tells us when there is some.
bool SharedLink::refuse(Out& out) {
  out.ring.ask_for_room();
  full_fence();
  if (out.ring.free_for(kAnyPacket + kReserve) != 0) return true;
  if (!out.refused) {
    out.refused = out.was_refused = true;
    out.unresponsive = parts_.host.refused(out.slot);
    refused_.push_back(out.slot);
  }
  return false;
}

bool SharedLink::has_room(Out& out) {
  if (out.refused) return out.unresponsive;
  if (out.ring.free_for(kAnyPacket + kReserve) == 0 && !refuse(out)) return out.unresponsive;
  if (out.was_refused) {
    out.was_refused = false;
    parts_.host.has_room_again(out.slot);
  }
  return true;
}

uint32_t SharedLink::room_for(Out& out, uint32_t packet_bytes, uint32_t wanted) {
  if (!has_room(out)) return 0;
  constexpr uint32_t kAround = 3 * Ring::kLine + kReserve;
  const uint32_t most = std::min(wanted, Ring::kMaxPayloadBytes / packet_bytes);
  const uint32_t free = out.ring.free_for(kAround + most * packet_bytes);
  if (free != 0) return most;
  const uint32_t left = out.ring.free_for(kAnyPacket + kReserve);
  return std::max<uint32_t>(left == 0 ? 0 : (left - kAround) / packet_bytes, 1);
}

bool SharedLink::is_unread(Out& out) { return !out.ring.is_read(); }

bool SharedLink::room_again() {
  return std::ranges::any_of(before_, [this](uint8_t slot) {
    Out* const out = out_[slot].get();
    return out == nullptr || out->ring.free_for(kAnyPacket + kReserve) != 0 ||
           out->incarnation != parts_.host.incarnation(slot);
  });
}

// --- sending

void SharedLink::touch(Out& out) {
  if (out.touched) return;
  out.touched = true;
  touched_.push_back(out.slot);
  if (out.clean) {
    out.clean = false;
    if (idle_check_ == kNever) idle_check_ = monotonic_now() + kIdleAfter;
  }
}

bool SharedLink::prepare(Out& out, const transport::Path& path, uint32_t payload_bytes,
                         bool may_use_reserve, uint32_t packets) {
  // Before the record one for the flow.
  const uint32_t spare = Ring::kLine + (may_use_reserve ? 0 : kReserve);
  if (!out.ring.has_room(payload_bytes, spare)) {
    parts_.sent.to_unresponsive += packets;
    return false;
  }
  touch(out);
  if (out.has_flow && out.flow.is_of(path)) return true;
  out.flow = {path.source, path.destination, path.traffic_class, path.hops(), path.interface_index};
  out.has_flow = true;
  const RingFlow flow = flow_of(path);
  const RecordHead head{.header_bytes = sizeof flow, .kind = RecordKind::kFlow};
  std::memcpy(out.ring.begin(head).headers, &flow, sizeof flow);
  out.ring.append(head);
  return true;
}

void SharedLink::send(Out& out, const transport::OutPacket& packet) {
  if (!prepare(out, *packet.path, packet.payload_bytes, packet.payload_bytes == 0, 1)) return;
  const RecordHead head{.payload_bytes = packet.payload_bytes,
                        .packets = 1,
                        .header_bytes = static_cast<uint8_t>(packet.headers.size()),
                        .kind = RecordKind::kPacket};
  const RingWriter::Room room = out.ring.begin(head);
  std::memcpy(room.headers, packet.headers.data(), packet.headers.size());
  uint8_t* to = room.payload;
  for (const auto piece : packet.payload) {
    memory::load(piece.data(), {to, piece.size()});
    to += piece.size();
  }
  if (tap_ != nullptr) {
    const std::span<const uint8_t> payload{room.payload, packet.payload_bytes};
    show(*packet.path, packet.headers, payload);
  }
  out.ring.append(head);
  if (out.ring.hidden_bytes() >= kShownTogether) out.ring.show();
  ++parts_.sent.packets;
  parts_.sent.bytes +=
      packet.headers.size() + packet.payload_bytes + packet.pad_bytes + size_t{wire::kIcrcBytes};
}

void SharedLink::send_run(Out& out, const transport::OutRun& run) {
  const uint32_t payload_bytes = run.packets * run.packet_payload;
  if (!prepare(out, *run.path, payload_bytes, false, run.packets)) return;
  const RecordHead head{.payload_bytes = payload_bytes,
                        .packets = static_cast<uint16_t>(run.packets),
                        .header_bytes = wire::Bth::kBytes,
                        .kind = RecordKind::kRun};
  const RingWriter::Room room = out.ring.begin(head);
  run.first.write(room.headers);
  uint8_t* to = room.payload;
  for (const auto piece : run.payload) {
    const size_t left = payload_bytes - static_cast<size_t>(to - room.payload);
    const auto part = piece.first(std::min(piece.size(), left));
    memory::load(part.data(), {to, part.size()});
    to += part.size();
  }
  if (tap_ != nullptr) show_run(run, room.payload);
  out.ring.publish(head);
  parts_.sent.packets += run.packets;
  parts_.sent.bytes += payload_bytes + size_t{run.packets} * (wire::Bth::kBytes + wire::kIcrcBytes);
}

// As it would be on the wire.
void SharedLink::show(const transport::Path& path, std::span<const uint8_t> headers,
                      std::span<const uint8_t> payload) {
  const UdpSockets* const sockets =
      path.destination.is_ipv4() ? parts_.host.ipv4() : parts_.host.ipv6();
  const wire::IcrcFlow flow{.source = path.source,
                            .destination = path.destination,
                            .source_port = sockets == nullptr ? uint16_t{0} : sockets->source_port,
                            .destination_port = parts_.host.port()};
  tap_->on_transmit(flow, path, whole_packet(whole_, flow, headers, payload));
}

void SharedLink::show_run(const transport::OutRun& run, const uint8_t* payload) {
  wire::Bth bth = run.first;
  std::array<uint8_t, wire::Bth::kBytes> headers;
  for (uint32_t i = 0; i < run.packets; ++i) {
    bth.ack_request = run.first.ack_request && i + 1 == run.packets;
    bth.write(headers.data());
    show(*run.path, headers, {payload + size_t{i} * run.packet_payload, run.packet_payload});
    bth.psn = bth.psn.next();
  }
}

// --- waking

void SharedLink::show() {
  for (const uint8_t slot : touched_) {
    if (out_[slot] != nullptr) out_[slot]->ring.show();
  }
}

void SharedLink::flush() {
  if (!touched_.empty()) {
    show();
    // Pairs with prepare_sleep(): either it sees what was put in its ring, or we see that it
    // sleeps.
    full_fence();
    for (const uint8_t slot : touched_) {
      if (out_[slot] != nullptr) out_[slot]->touched = false;
      std::atomic<uint32_t>& asleep = table_.doorbells[slot].asleep;
      if (asleep.load(std::memory_order_relaxed) != 0 &&
          asleep.exchange(0, std::memory_order_relaxed) != 0) {
        // It sleeps on: the next that is sent tries again.
        if (!wake(slot)) asleep.store(1, std::memory_order_relaxed);
      }
    }
    touched_.clear();
  }
  if (refused_.empty() && before_.empty()) return;
  before_.swap(refused_);
  for (const uint8_t slot : before_) {
    if (out_[slot] != nullptr) out_[slot]->refused = false;
  }
  refused_.clear();
}

bool SharedLink::wake(uint8_t slot) {
  const int bell = slot == self_ ? bell_.get() : bells_[slot].fd.get();
  if (bell < 0) return parts_.host.wake(slot);
  ring(bell);
  return true;
}

bool SharedLink::prepare_sleep() {
  table_.doorbells[self_].asleep.store(1, std::memory_order_relaxed);
  full_fence();
  look();
  return is_quiet();
}

bool SharedLink::is_quiet() const {
  return std::ranges::all_of(
      in_, [](const auto& in) { return in->ring.is_broken() || in->ring.is_empty(); });
}

void SharedLink::woke() { silence(bell_.get()); }

void SharedLink::on_timer(Time now) {
  look();  // what a dead member did not read would keep the timer going for ever
  if (now >= idle_check_) give_back_idle(now);
  if (now >= take_check_) withdraw_late(now);
}

void SharedLink::give_back_idle(Time now) {
  idle_check_ = kNever;
  for (const auto& out : out_) {
    if (out == nullptr || out->clean) continue;
    const bool busy = std::exchange(out->written, out->ring.written()) != out->ring.written();
    out->clean = !busy && out->ring.give_back();
    if (!out->clean) idle_check_ = now + kIdleAfter;
  }
}

}  // namespace verbena::link
