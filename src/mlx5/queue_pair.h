// SPDX-License-Identifier: Apache-2.0
// What a queue pair is to users of mlx5dv: its mlx5dv_qp_ex, and the request to configure a key
// that is being put together. It lies in the room that the queue pair has for it.
#pragma once

#include <cstdint>
#include <type_traits>

#include <infiniband/mlx5dv.h>

#include "mlx5/service.h"

namespace verbena::mlx5 {

struct QueuePair : mlx5dv_qp_ex {
  ibv_qp_ex* qp;
  uint32_t setters_wanted;  // how many
  uint32_t setters_seen;    // which, as bits
  uint8_t lag_port;         // 0: none was chosen
};
static_assert(sizeof(QueuePair) <= sizeof(keys::Companion) &&
              std::is_trivially_destructible_v<QueuePair>);

[[nodiscard]] inline QueuePair& of(mlx5dv_qp_ex* qp) { return *static_cast<QueuePair*>(qp); }

// nullptr: it is none.
[[nodiscard]] QueuePair* find(ibv_qp* qp);

// The calls by which keys are configured.
void fill_key_calls(mlx5dv_qp_ex& qp);

}  // namespace verbena::mlx5
