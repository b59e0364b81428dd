// SPDX-License-Identifier: Apache-2.0
#include "transport/marks.h"

#include <array>

#include "transport/flow.h"
#include "transport/packet_writer.h"
#include "wire/extended_ack.h"

namespace verbena::transport::marks {
namespace {

// DCQCN's: more often than that a sender does not react either.
constexpr Duration kNotifyEvery = 50 * kMicrosecond;

[[nodiscard]] bool is_of_our_kind(const InPacket& packet) {
  const wire::PacketView& view = packet.view;
  if (view.info->operation == wire::Operation::kAcknowledge) {
    return wire::ExtendedAck::read(view.payload).has_value();
  }
  return !view.info->is_response() && (view.bth.reserved7 & wire::kUnderstandsExtendedAck) != 0;
}

void notify(Core& core, QueuePair& qp, Time now) {
  if (now < qp.notified_at + kNotifyEvery) return;
  qp.notified_at = now;
  core.count(Counter::kCongestionNoticeSent);
  static constexpr std::array<uint8_t, 16> kReserved{};
  static constexpr std::span<const uint8_t> kPayload(kReserved);
  // Not to be marked itself.
  Path path = qp.attr.path;
  path.may_be_marked = false;
  path.traffic_class &= 0xfc;
  PacketWriter writer(qp, wire::Service::kCnp, wire::kCnpOp, wire::Psn(0));
  writer.bth().becn = true;
  writer.send(core, path, {&kPayload, 1}, static_cast<uint32_t>(kReserved.size()));
}

}  // namespace

void learn(QueuePair& qp, const InPacket& packet) {
  if (!flow::applies(qp) || qp.attr.path.may_be_marked) return;
  qp.attr.path.may_be_marked = is_of_our_kind(packet);
}

bool believes(const QueuePair& qp, const InPacket& notice) {
  if (!flow::applies(qp) || !qp.attr.path.has_ect() || qp.send.una == qp.send.sent_end) {
    return false;
  }
  return !qp.attr.path.may_be_marked || notice.source_port == qp.send.acked_from ||
         qp.recv.hold.is_from_port(notice);
}

void on_marked(Core& core, QueuePair& qp, const wire::OpcodeInfo& info, uint32_t packets,
               Time now) {
  core.count(Counter::kMarkedReceived, packets);
  if (!info.is_response()) return notify(core, qp, now);
  // Acknowledgements are few: what they meet is not of their making.
  if (info.operation != wire::Operation::kReadResponse || !flow::applies(qp)) return;
  flow::on_mark(qp, Direction::kIn, now);
}

}  // namespace verbena::transport::marks
