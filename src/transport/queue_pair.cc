// SPDX-License-Identifier: Apache-2.0
#include "transport/queue_pair.h"

#include <cstdlib>

#include "base/full_fence.h"

namespace verbena::transport {

wire::Service QueuePair::service() const {
  switch (type) {
    case QpType::kRc:      break;
    case QpType::kUc:      return wire::Service::kUc;
    case QpType::kUd:      return wire::Service::kUd;
    case QpType::kXrcSend:
    case QpType::kXrcRecv: return wire::Service::kXrc;
  }
  return wire::Service::kRc;
}

void QueuePair::set_state(QpState state) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  attr.state = state;
  rules.receives.store(state != QpState::kReset, kRelaxed);
  rules.sends.store(state != QpState::kReset && state != QpState::kInit && state != QpState::kRtr,
                    kRelaxed);
  rules.max_rd_atomic.store(attr.max_rd_atomic, kRelaxed);
  flushes.store(state == QpState::kErr, kRelaxed);
  if (state == QpState::kErr) full_fence();
}

void RoundTrip::add(Duration sample) {
  if (smoothed == 0) {
    smoothed = sample;
    variation = sample / 2;
    return;
  }
  variation += (std::abs(smoothed - sample) - variation) / 4;
  smoothed += (sample - smoothed) / 8;
}

wire::Psn QueuePair::cursor_psn() const {
  if (send.cursor < sq.tail() && sq.at(send.cursor).started) {
    return sq.at(send.cursor).first_psn + send.cursor_packet;
  }
  return send.assign;
}

}  // namespace verbena::transport
