// SPDX-License-Identifier: Apache-2.0
// Which process of a host a number belongs to. Its slot stands in the top byte of queue pair
// numbers (24 bits), by which packets are steered, and of communication ids (32 bits).
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace verbena::link {

inline constexpr int kQpnBitsOfProcess = 16;

[[nodiscard]] constexpr uint8_t slot_of(Qpn qpn) {
  return static_cast<uint8_t>(qpn.value >> kQpnBitsOfProcess);
}
// The first of the numbers of the process with this slot; stands for any of them.
[[nodiscard]] constexpr Qpn first_qpn_of(uint8_t slot) {
  return Qpn(uint32_t{slot} << kQpnBitsOfProcess);
}
// The same of the process that drew this communication id.
[[nodiscard]] constexpr Qpn first_qpn_beside(uint32_t comm_id) {
  constexpr int kSlotAt = 24;
  return first_qpn_of(static_cast<uint8_t>(comm_id >> kSlotAt));
}

}  // namespace verbena::link
