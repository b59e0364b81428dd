// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/unique_fd.h"

namespace verbena::link {

// What other members have to say of rings in shared memory. Descriptors that are kept are moved
// from.
class RingEvents {
 public:
  virtual ~RingEvents() = default;
  // `incarnation`: of the member, which may be gone by now; nobody else has its slot yet.
  virtual void on_ring(uint8_t slot, uint32_t incarnation, UniqueFd& ring, UniqueFd& bell) = 0;
  virtual void on_bell(uint8_t slot, UniqueFd& bell) = 0;
  virtual void on_no_ring(uint8_t slot) = 0;
  virtual void on_woken() = 0;
};

}  // namespace verbena::link
