// SPDX-License-Identifier: Apache-2.0
// How the bytes of an on-demand region are reached. Ordinary regions are populated at registration
// and touched directly; the pages of an on-demand region may not exist, so its owner (src/device)
// supplies an accessor for which a bad address is a Fault and never a signal.
#pragma once

#include <cstdint>
#include <span>

#include "memory/access.h"

namespace verbena::memory {

class Accessor {
 public:
  virtual ~Accessor() = default;
  [[nodiscard]] virtual Fault read(const uint8_t* from, std::span<uint8_t> to) = 0;
  [[nodiscard]] virtual Fault write(uint8_t* to, std::span<const uint8_t> from) = 0;
};

}  // namespace verbena::memory
