// SPDX-License-Identifier: Apache-2.0
#include "link/intake.h"

#include <algorithm>

#include "link/steering.h"
#include "link/whole_packet.h"

namespace verbena::link {
namespace {

// What packets that came through a ring are said to come from: any will do, for who looks on.
constexpr uint16_t kRingPort = 0xc000;

class IcrcCheck final : public PacketCheck {
 public:
  IcrcCheck(wire::IcrcSeries& icrcs, uint16_t first) : icrcs_(icrcs), first_(first) {}
  [[nodiscard]] bool is_right(uint32_t index, std::span<const uint8_t> packet) override {
    return icrcs_.solve(packet, static_cast<uint16_t>(first_ + index)).has_value();
  }

 private:
  wire::IcrcSeries& icrcs_;
  uint16_t first_;
};

}  // namespace

Intake::Intake(Membership& host, Arrivals& arrivals)
    : host_(host),
      arrivals_(arrivals),
      port_(host.port()),
      this_host_only_(!host.this_host_only().empty()),
      whole_(wire::kMaxPacketBytes),
      message_(wire::kMaxMtu) {}

void Intake::set_filter(ReceiveFilter* filter) {
  filter_ = filter;
  filter_due_ = kNever;
}

void Intake::release(Time now) {
  if (filter_ == nullptr) return;
  now_ = now;
  filter_due_ = filter_->release(now, inner_);
}

void Intake::on_consumed(const Datagram& datagram, uint32_t cost) {
  host_.consumed(datagram, cost);
}

void Intake::on_datagram(const Datagram& datagram) {
  if (this_host_only_ && !host_.is_local(datagram.source)) {
    ++counters_.not_this_host;
    return;
  }
  if (!host_.admits(datagram)) {
    ++counters_.not_a_member;
    return;
  }
  if (!host_.route(datagram)) return;  // another member's
  Datagram opened = datagram;
  if (is_sealed(datagram)) {
    const auto packet = seal_->open(datagram);
    if (!packet) {
      ++counters_.bad_tag;
      return;
    }
    opened.bytes = *packet;
    opened.index = 0;  // as it was made (UdpTransmitter)
  }
  if (filter_ == nullptr) return accept(opened);
  pass(opened, now_);
}

// It may keep some of it, and says with release() until when.
void Intake::pass(const Datagram& datagram, Time now) {
  filter_->pass(datagram, now, inner_);
  filter_due_ = 0;
}

uint32_t Intake::on_joined(const Datagram& rest, uint32_t segment) {
  if (this_host_only_ && !host_.is_local(rest.source)) return 0;
  if (rest.bytes.size() < wire::Bth::kBytes) return 0;
  if (!host_.is_sender(rest.source, rest.source_port)) return 0;
  if (rest.bytes[kSlotByte] != host_.slot()) return host_.route_joined(rest, segment);
  if (filter_ != nullptr || is_sealed(rest)) return 0;
  icrcs_.aim(flow_of(rest), segment);
  IcrcCheck check(icrcs_, rest.index);
  return arrivals_.on_joined(
      {rest.bytes, segment, rest.source, rest.destination, rest.traffic_class}, check, now_);
}

wire::IcrcFlow Intake::flow_of(const Datagram& datagram) const {
  return {.source = datagram.source,
          .destination = datagram.destination,
          .source_port = datagram.source_port,
          .destination_port = port_};
}

// The ICRC of what is in front of a tag is right: few other packets have one there.
bool Intake::is_tagged(const Datagram& datagram) {
  if (seal_ != nullptr || datagram.bytes.size() <= Seal::kBytes) return false;
  const auto packet = datagram.bytes.first(datagram.bytes.size() - Seal::kBytes);
  if (!wire::parse(packet) || !wire::icrc_solve(flow_of(datagram), packet)) return false;
  ++counters_.tagged;
  counters_.tagged_from = datagram.source;
  return true;
}

void Intake::accept(const Datagram& datagram) {
  transport::InPacket packet{.view = {},
                             .source = datagram.source,
                             .destination = datagram.destination,
                             .traffic_class = datagram.traffic_class,
                             .hop_limit = datagram.hop_limit,
                             .source_port = datagram.source_port};
  if (const auto parsed = wire::parse(datagram.bytes, packet.view); !parsed) {
    if (is_tagged(datagram)) return;
    ++counters_.parse_errors[static_cast<size_t>(parsed.error())];
    return;
  }
  icrcs_.aim(flow_of(datagram), static_cast<uint32_t>(datagram.bytes.size()));
  if (!icrcs_.solve(datagram.bytes, datagram.index)) {
    if (is_tagged(datagram)) return;
    ++counters_.bad_icrc;
    return;
  }
  arrivals_.on_packet(packet, now_);
}

void Intake::on_ring_packet(const RingPacket& packet, Time now) {
  transport::InPacket arrived{.view = {},
                              .source = packet.source,
                              .destination = packet.destination,
                              .traffic_class = packet.traffic_class,
                              .hop_limit = packet.hop_limit};
  if (const auto parsed = wire::parse(packet.headers, packet.payload, arrived.view); !parsed) {
    ++counters_.parse_errors[static_cast<size_t>(parsed.error())];
    return;
  }
  const Qpn target = arrived.view.bth.dest_qp;
  if (!is_ours(target)) return count_bad_record();
  if (filter_ != nullptr) return filter_ring_packet(packet, now);
  if (target == kGsiQpn) {
    std::ranges::copy(packet.payload, message_.begin());
    arrived.view.payload = std::span(message_).first(packet.payload.size());
  }
  arrivals_.on_packet(arrived, now);
}

void Intake::filter_ring_packet(const RingPacket& packet, Time now) {
  Datagram datagram{.bytes = {},
                    .source = packet.source,
                    .destination = packet.destination,
                    .source_port = kRingPort,
                    .traffic_class = packet.traffic_class,
                    .hop_limit = packet.hop_limit};
  datagram.bytes = whole_packet(whole_, flow_of(datagram), packet.headers, packet.payload);
  pass(datagram, now);
}

uint32_t Intake::on_ring_run(std::span<const uint8_t> headers, std::span<const uint8_t> payload,
                             uint32_t packets, const wire::Gid& source,
                             const wire::Gid& destination, bool ack_request, Time now) {
  if (filter_ != nullptr) return 0;
  const auto view = wire::parse(headers, payload.first(payload.size() / packets));
  if (!view || view->info->position != wire::Position::kMiddle || view->bth.pad_bytes != 0 ||
      !is_ours(view->bth.dest_qp)) {
    return 0;
  }
  return arrivals_.on_run({.first = *view, .packets = packets}, payload, source, destination,
                          ack_request, now);
}

}  // namespace verbena::link
