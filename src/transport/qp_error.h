// SPDX-License-Identifier: Apache-2.0
// A queue pair's way out: to ERR (everything flushed), to SQE (the send queue flushed), to RESET.
#pragma once

#include "transport/core.h"

namespace verbena::transport {

void enter_error(Core& core, QueuePair& qp);
void enter_send_error(Core& core, QueuePair& qp);  // UC and UD
// An XRC target whose shared receive queue goes away, in the middle of a message or not.
void forget_srq(QueuePair& qp);
// As newly made: queues empty, nothing reported.
void reset(Core& core, QueuePair& qp);

// Reports everything posted as flushed.
void flush_send_queue(QueuePair& qp);
void flush_recv_queue(Core& core, QueuePair& qp);

}  // namespace verbena::transport
