// SPDX-License-Identifier: Apache-2.0
// One process of the crowd: it opens the device, connects with everybody on the board, and does
// rounds with each of them: a WRITE, a SEND that tells of it, a READ; the peer compares what was
// written and answers. It notices who is gone, sees that such a connection ends with the error the
// standard gives, and connects with whoever takes the seat next.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "device/engine.h"
#include "processes/board.h"
#include "wire/gid.h"

namespace verbena::processes {

struct MemberOptions {
  device::EngineOptions engine;
  std::vector<wire::Gid> addresses;  // by host
  uint8_t timeout = 17;              // 0.5 s: a busy machine is not a dead one
  uint8_t retries = 7;
  Duration pause = 0;  // at least, between the starts of two rounds of a connection
};

// The process's life; returns when told to leave. What goes wrong is written to the board and ends
// the process.
void live(Board& board, uint32_t seat, const MemberOptions& options);

}  // namespace verbena::processes
