// SPDX-License-Identifier: Apache-2.0
// What a REQ or a REP says of its sender's queue pair, as the receiver's program is told it.
#pragma once

#include "cm/types.h"

namespace verbena::cm {

// What the peer wants to have out is what we should answer, and the other way round.
template <typename Message>
[[nodiscard]] QpFacts peer_facts(const Message& m, Qpn qpn) {
  return {.qpn = qpn,
          .psn = m.psn,
          .qkey = m.qkey,
          .responder_resources = m.initiator_depth,
          .initiator_depth = m.responder_resources,
          .rnr_retry_count = m.rnr_retry_count,
          .flow_control = m.flow_control,
          .srq = m.srq};
}

}  // namespace verbena::cm
