// SPDX-License-Identifier: Apache-2.0
// Manager::send, for the files that implement the manager.
#pragma once

#include "cm/manager.h"

namespace verbena::cm {

template <typename M>
void Manager::send(Connection& c, const M& message) {
  encode({.transaction = c.transaction}, message, c.last);
  send_last(c);
}

}  // namespace verbena::cm
