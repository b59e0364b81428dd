// SPDX-License-Identifier: Apache-2.0
// Posting: the checks of a work request, and its place in the queue. The caller may append to this
// queue (poster.h); it need not have the endpoint, which then is told by a doorbell (doorbells.h).
// What is done about it, with the endpoint, is Endpoint::on_posted().
//
// A thread may be about to post when another destroys the queue: what is left of it is kept for a
// while (Endpoint::destroy_qp()), in a state in which every request is refused before its ring is
// touched.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "transport/queue_pair.h"

namespace verbena::transport::posting {

// `port_mtu` bounds datagrams. Without the endpoint: not what SendQueue::is_rare() names.
// All of them, or none.
[[nodiscard]] Result<void, Error> append_all(QueuePair& qp, std::span<const SendRequest> requests,
                                             uint32_t port_mtu);
[[nodiscard]] Result<void, Error> append(QueuePair& qp, const SendRequest& request,
                                         uint32_t port_mtu);
[[nodiscard]] Result<void, Error> append(QueuePair& qp, const RecvRequest& request);
[[nodiscard]] Result<void, Error> append(SharedRecvQueue& srq, const RecvRequest& request);

// After receives were appended without the endpoint: whether it must be told. Otherwise it finds
// them when a message comes.
[[nodiscard]] bool must_ring(const QueuePair& qp);

}  // namespace verbena::transport::posting
