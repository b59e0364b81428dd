// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

namespace verbena::mlx5 {

// Whether the user wants the device to look like a ConnectX (`--identity connectx`). Then wishes
// that can change nothing here are taken note of and told back; otherwise they are refused.
[[nodiscard]] inline bool looks_like_connectx(ibv_context* context) {
  constexpr uint32_t kMellanox = 0x02c9;
  ibv_device_attr attr{};
  return context != nullptr && ibv_query_device(context, &attr) == 0 && attr.vendor_id == kMellanox;
}

}  // namespace verbena::mlx5
