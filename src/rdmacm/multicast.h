// SPDX-License-Identifier: Apache-2.0
// Multicast groups of an id.
#pragma once

#include "rdmacm/channel.h"
#include "rdmacm/id.h"

namespace verbena::rdmacm {

// What RDMA_CM_EVENT_MULTICAST_JOIN says is made true: the queue pair hears the group.
void finish_join(Event& event);
// The queue pair is about to go, or the id. The memberships stay: events may point to them.
void detach_all(CmId& id);

}  // namespace verbena::rdmacm
