// SPDX-License-Identifier: Apache-2.0
// What rdma_cma.h has of newer releases of rdma-core than the one whose headers this is compiled
// with (44). The names are our own, so that it compiles with newer headers too.
#pragma once

#include <cstring>

#include <rdma/rdma_cma.h>

namespace verbena::rdmacm {

// Values of rdma_cm_event_type that are out of its range here.
inline constexpr int kEventAddrinfoResolved = 16;
inline constexpr int kEventAddrinfoError = 17;
inline constexpr int kEventUser = 18;
[[nodiscard]] inline rdma_cm_event_type event_type(int value) {
  rdma_cm_event_type type{};
  static_assert(sizeof type == sizeof value);
  std::memcpy(&type, &value, sizeof type);
  return type;
}

// Of ai_flags: whom to ask for an address. The name service, unless it is said.
inline constexpr int kAskSubnet = 0x10;
inline constexpr int kAskNames = 0x20;

}  // namespace verbena::rdmacm
