// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/mlx5dv.h>

#include "memory/indirect_key.h"

namespace verbena::mlx5 {

// Sets the signature that the program describes. 0 or EINVAL.
[[nodiscard]] int translate(const mlx5dv_sig_block_attr* attr, memory::KeyConfig& config);

}  // namespace verbena::mlx5
