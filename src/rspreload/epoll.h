// SPDX-License-Identifier: Apache-2.0
// Rsockets among the descriptors of an epoll instance.
#pragma once

#include "rspreload/table.h"

namespace verbena::rspreload {

// The descriptors are closed, or are about to be: nothing is known of instances that they were, and
// no instance watches them any more.
void forget_epoll(unsigned first, unsigned last);

// A call has moved data through the rsocket, or tried to: edge-triggered, it is told of anew.
// Leaves errno alone.
void used(Entry& entry);

}  // namespace verbena::rspreload
