// SPDX-License-Identifier: Apache-2.0
#include "transport/queue_pair.h"

namespace verbena::transport {

wire::Psn QueuePair::cursor_psn() const {
  if (send.cursor < sq.tail() && sq.at(send.cursor).started) {
    return sq.at(send.cursor).first_psn + send.cursor_packet;
  }
  return send.assign;
}

}  // namespace verbena::transport
