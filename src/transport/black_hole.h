// SPDX-License-Identifier: Apache-2.0
// Large packets that never arrive while small ones do: a link on the way carries less than the
// path MTU, and who drops them does not say so (RFC 2923). Nothing can be done about it here, for
// all packets of a message but the last have the size of the path MTU; but it can be told from a
// peer that is gone, and said.
//
// While a large packet is the oldest that is out and a timeout passes, a small one goes beside it.
// If that is answered and the large one is not, twice or until retries run out, it is one.
#pragma once

#include "transport/core.h"

namespace verbena::transport::black_hole {

// The oldest packet was sent again and again, and not answered. `last`: it will not be sent again.
void on_silence(Core& core, QueuePair& qp, bool last);
// The oldest packet arrived, or what was asked for with it.
void on_arrival(QueuePair& qp);

}  // namespace verbena::transport::black_hole
