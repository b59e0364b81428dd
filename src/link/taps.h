// SPDX-License-Identifier: Apache-2.0
// What looks on, or meddles: captures and faults. None is there unless asked for. Called under the
// engine's lock.
#pragma once

#include <cstdint>
#include <span>

#include "base/time.h"
#include "link/datagram.h"
#include "transport/work.h"
#include "wire/icrc.h"

namespace verbena::link {

// Sees every packet as it leaves, ICRC included. While there is one, payloads are copied.
class TransmitTap {
 public:
  virtual ~TransmitTap() = default;
  virtual void on_transmit(const wire::IcrcFlow& flow, const transport::Path& path,
                           std::span<const uint8_t> packet) = 0;
};

// Stands between the link and the device: passes each datagram on zero or more times, now or later.
class ReceiveFilter {
 public:
  virtual ~ReceiveFilter() = default;
  virtual void pass(const Datagram& datagram, Time now, DatagramHandler& next) = 0;
  // Lets go of what has waited long enough; gives when it wants to be asked again.
  [[nodiscard]] virtual Time release(Time now, DatagramHandler& next) = 0;
};

}  // namespace verbena::link
