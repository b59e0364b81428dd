// SPDX-License-Identifier: Apache-2.0
// The completer: takes what a responder sends back (ACK, NAK, read responses, atomic
// acknowledgements), moves `una` on and completes send queue entries, each once and in order.
#pragma once

#include "base/time.h"
#include "transport/core.h"
#include "wire/run.h"

namespace verbena::transport::completer {

void on_response(Core& core, QueuePair& qp, const InPacket& packet, Time now);

// Completes entries at the head that never wait for the wire: local operations that were carried
// out, and entries that failed before they were sent.
void retire_local(Core& core, QueuePair& qp, Time now);

// The head is complete: reports it if it is signaled, and drops it.
void complete_head(Core& core, QueuePair& qp);
// The head failed: reports it, then the queue pair goes to ERR (SQE for UC and UD) and the rest is
// flushed.
void fail_head(Core& core, QueuePair& qp, WcStatus status);
// Whether nothing that was started is still under way, sent or not.
[[nodiscard]] bool is_drained(const QueuePair& qp);
// Raises SQ_DRAINED if the queue pair is in SQD, it was asked for, and nothing is under way any
// more.
void notify_if_drained(Core& core, QueuePair& qp);

// A run (wire/run.h): where the payload of its first packets goes, none if it cannot be taken as
// one; the payload of its packet `index`, where they do not lie side by side (false: it is not
// placed); and so many packets of it are there.
[[nodiscard]] RunPlace place_of_run(const Core& core, QueuePair& qp, const wire::Run& run);
[[nodiscard]] bool place(const Core& core, QueuePair& qp, uint32_t index,
                         std::span<const uint8_t> payload);
void on_run(Core& core, QueuePair& qp, uint32_t packets, Time now);

}  // namespace verbena::transport::completer
