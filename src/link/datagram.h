// SPDX-License-Identifier: Apache-2.0
// A transport packet with its addresses, as a socket gives it; nothing of it is judged yet.
#pragma once

#include <cstdint>
#include <span>

#include "wire/gid.h"

namespace verbena::link {

struct Datagram {
  std::span<const uint8_t> bytes;  // BTH to ICRC
  wire::Gid source;
  wire::Gid destination;
  uint16_t source_port = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint16_t index = 0;  // among those the kernel had joined
};

class DatagramHandler {
 public:
  virtual ~DatagramHandler() = default;
  // Some were taken out of the socket just now, and follow.
  virtual void on_batch() {}
  virtual void on_datagram(const Datagram& datagram) = 0;
  // `rest` is several that the kernel had joined: each is the next `segment` bytes, the last may be
  // shorter. Takes as many of the first as it can take at once and gives their number; what is left
  // comes again, by on_datagram() if it is 0.
  [[nodiscard]] virtual uint32_t on_joined(const Datagram& /*rest*/, uint32_t /*segment*/) {
    return 0;
  }
  // A datagram of this cost (datagram_cost), of one packet or several, has left the socket's
  // buffer.
  virtual void on_consumed(const Datagram& datagram, uint32_t cost) = 0;
};

}  // namespace verbena::link
