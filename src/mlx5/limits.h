// SPDX-License-Identifier: Apache-2.0
// What mlx5dv_query_device says, and the calls hold to.
#pragma once

#include <cstddef>
#include <cstdint>

#include <infiniband/mlx5dv.h>

namespace verbena::mlx5 {

inline constexpr size_t kMaxMemcpyBytes = size_t{1} << 20;
// How completions are kept is seen by nobody, for they are read through the library alone: any way
// of keeping them can be asked for.
inline constexpr uint32_t kCompressions =
    MLX5DV_CQE_RES_FORMAT_HASH | MLX5DV_CQE_RES_FORMAT_CSUM | MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX;
// Of a bond, for who asks under the ConnectX identity.
inline constexpr uint8_t kLagPorts = 2;
// The clocks drift apart; the host's is set, too.
inline constexpr uint64_t kClockInfoGoodForNs = 1'000'000'000;

}  // namespace verbena::mlx5
