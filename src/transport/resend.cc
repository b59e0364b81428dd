// SPDX-License-Identifier: Apache-2.0
// The requester: packets that go once more, beside the cursor.
#include <algorithm>

#include "transport/completer.h"
#include "transport/flow.h"
#include "transport/request_packets.h"
#include "transport/requester.h"
#include "transport/selective.h"

namespace verbena::transport::requester {
namespace {

using wire::Psn;

// There is no room: what is left of a repair goes before anything new. Of two, all from the first's
// beginning to the second's end.
void put_off_resend(QueuePair& qp, Resend what, Psn from, Psn end) {
  SendSide& send = qp.send;
  const bool responses = what == Resend::kResponses;
  const bool other = send.resend_waits && send.resend_responses == responses;
  send.resend_from = other && send.resend_from.is_before(from) ? send.resend_from : from;
  send.resend_end = other && send.resend_end.is_after(end) ? send.resend_end : end;
  send.resend_waits = true;
  send.resend_responses = responses;
}

// The last entry that begins at this PSN or before it. Those under way are in the order of their
// PSNs.
[[nodiscard]] uint64_t entry_of(const QueuePair& qp, Psn psn) {
  uint64_t low = qp.sq.head();
  uint64_t high = std::min(qp.send.cursor + 1, qp.sq.tail());
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    const SendWqe& wqe = qp.sq.at(middle);
    if (wqe.started && !psn.is_before(wqe.first_psn)) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace

void note_resent(SendSide& send, Psn end, Core& core, uint32_t packets) {
  core.count(Counter::kRetransmittedPackets, packets);
  if (end.is_after(send.resent_end)) send.resent_end = end;
}

bool go_on_with_resend(Core& core, QueuePair& qp, Time now) {
  SendSide& send = qp.send;
  if (!send.resend_waits) return true;
  send.resend_waits = false;
  const Psn from = send.resend_from.is_before(send.una) ? send.una : send.resend_from;
  if (!from.is_before(send.resend_end)) return true;
  resend(core, qp, send.resend_responses ? Resend::kResponses : Resend::kRequests, from,
         static_cast<uint32_t>(distance(from, send.resend_end)), now);
  return !send.resend_waits && qp.can_send();
}

void resend(Core& core, QueuePair& qp, Resend what, Psn from, uint32_t packets, Time now) {
  const Psn end = from + packets;
  uint64_t number = entry_of(qp, from);
  while (from.is_before(end) && number < qp.sq.tail()) {
    SendWqe& wqe = qp.sq.at(number);
    if (!wqe.started) return;
    const uint32_t packet = (from - wqe.first_psn.value()).value();
    if (packet >= wqe.packets) {
      ++number;
      continue;
    }
    if (what == Resend::kResponses && !wqe.wants_response()) {
      from = wqe.first_psn + wqe.packets;
      continue;
    }
    if (!core.link.has_room_towards(qp.attr.path, qp.attr.dest_qpn)) {
      core.make_runnable(qp);
      return put_off_resend(qp, what, from, end);
    }
    const Direction direction = flow::direction_of(wqe);
    // One packet, which may be a probe, always goes; and what was admitted before.
    if (flow::applies(qp) && packets > 1 && !selective::decides(qp, direction) &&
        !flow::admits_resend(core, qp, direction, now)) {
      return put_off_resend(qp, what, from, end);
    }
    uint32_t sent = 1;
    if (wqe.op == SendOp::kRead) {
      sent = segment_end(wqe, packet) - packet;
      if (what == Resend::kResponses) {
        sent = std::min(sent, static_cast<uint32_t>(distance(from, end)));
      }
      request_packets::send_read_request(core, qp, wqe, packet, packet + sent);
    } else if (wqe.is_atomic() && wqe.op != SendOp::kAtomicWrite) {
      request_packets::send_atomic(core, qp, wqe);
    } else if (request_packets::send_data(core, qp, number, packet, from.next() == end)) {
      if (from.next() == end && end.is_after(qp.send.requested_end)) qp.send.requested_end = end;
    } else {
      wqe.local_status = WcStatus::kLocalProtection;
      if (number == qp.sq.head()) completer::fail_head(core, qp, wqe.local_status);
      return;
    }
    if (flow::applies(qp)) {
      flow::on_resent(qp, direction, cost(qp, wqe, packet, packet + sent), now);
      selective::on_resent(qp, wqe, what, packet, packet + sent, now);
    }
    from = from + sent;
    note_resent(qp.send, from, core, 1);
  }
}

}  // namespace verbena::transport::requester
