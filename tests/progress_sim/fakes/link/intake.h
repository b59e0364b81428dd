// SPDX-License-Identifier: Apache-2.0
// In place of src/link/intake.h: what comes out of a ring goes to the simulated process.
#pragma once

#include <cstdint>
#include <span>

#include "base/time.h"
#include "link/link.h"
#include "link/link_counters.h"
#include "link/membership.h"
#include "link/ring_packet.h"
#include "link/taps.h"
#include "wire/gid.h"

namespace verbena::link {

class Intake {
 public:
  virtual ~Intake() = default;
  virtual void on_ring_packet(const RingPacket& packet, Time now) = 0;
  [[nodiscard]] virtual uint32_t on_ring_run(std::span<const uint8_t> headers,
                                             std::span<const uint8_t> payload, uint32_t packets,
                                             const wire::Gid& source, const wire::Gid& destination,
                                             bool ack_request, Time now) = 0;
  virtual void count_bad_record() = 0;
};

}  // namespace verbena::link
