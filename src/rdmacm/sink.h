// SPDX-License-Identifier: Apache-2.0
// What the connection service tells, put into the channels of the ids it is for. Called with the
// device's lock held, by any thread: it copies, and that is all.
#pragma once

#include "cm/manager.h"

namespace verbena::rdmacm {

struct CmId;

[[nodiscard]] cm::EventSink& sink();

// The id of a request is known to the service by its number alone; this one is no longer.
void forget_request(cm::CommId comm, const CmId& id);

}  // namespace verbena::rdmacm
