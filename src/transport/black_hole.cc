// SPDX-License-Identifier: Apache-2.0
#include "transport/black_hole.h"

#include <algorithm>
#include <utility>

#include "transport/flow.h"
#include "transport/recovery.h"

namespace verbena::transport::black_hole {
namespace {

// There is no smaller path MTU than this.
constexpr uint32_t kSmallBytes = mtu_bytes(Mtu::k256);
constexpr uint8_t kEnough = 2;

// Payload of the oldest packet that is out, or of the oldest response that was asked for.
[[nodiscard]] uint32_t oldest_payload(const QueuePair& qp) {
  if (qp.sq.empty()) return 0;
  const SendWqe& wqe = qp.sq.at(qp.sq.head());
  if (!wqe.started || wqe.is_local()) return 0;
  const uint64_t before = uint64_t{(qp.send.una - wqe.first_psn.value()).value()} * qp.mtu;
  return static_cast<uint32_t>(
      std::min<uint64_t>(qp.mtu, wqe.length - std::min(before, wqe.length)));
}

}  // namespace

void on_silence(Core& core, QueuePair& qp, bool last) {
  BlackHole& hole = qp.send.black_hole;
  const bool answered = std::exchange(hole.answered, false);
  // Within a host nothing has an MTU. Responses that are held are large, and did arrive.
  if (!flow::applies(qp) || !qp.send.hold.empty()) return;
  const uint32_t payload = oldest_payload(qp);
  if (payload <= kSmallBytes) return;
  const bool counts = answered && hole.silences < kEnough;  // else it was said
  if (counts) ++hole.silences;
  if (counts && (last || hole.silences == kEnough)) {
    core.events.large_packets_lost({.peer = qp.attr.path.destination,
                                    .payload_bytes = payload,
                                    .incoming = qp.sq.at(qp.sq.head()).op == SendOp::kRead});
  }
  if (!last) recovery::ping(core, qp);
}

void on_arrival(QueuePair& qp) { qp.send.black_hole = {}; }

}  // namespace verbena::transport::black_hole
