// SPDX-License-Identifier: Apache-2.0
// The queue pair of an id: what its attributes are to be, by what both ends have said.
#pragma once

#include <infiniband/verbs.h>

#include "rdmacm/id.h"

namespace verbena::rdmacm {

// All give 0 or an error number.

// The attributes for going to attr.qp_state.
[[nodiscard]] int describe_qp(const CmId& id, ibv_qp_attr& attr, int& mask);
// Both do nothing for an id without a queue pair.
[[nodiscard]] int make_ready_to_send(CmId& id);
int flush_qp(CmId& id);
// To the peer of a datagram id, or to a group.
[[nodiscard]] ibv_ah_attr describe_way(const CmId& id, const ibv_gid& to);
[[nodiscard]] int create_qp(CmId& id, ibv_pd* pd, ibv_qp_init_attr& init);
void destroy_qp(CmId& id);
// Completion queues that the program did not bring, with channels of their own.
[[nodiscard]] int make_queues(CmId& id, uint32_t send_entries, uint32_t receive_entries);
void destroy_queues(CmId& id);

}  // namespace verbena::rdmacm
