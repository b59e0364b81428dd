// SPDX-License-Identifier: Apache-2.0
// Signatures bit by bit, from their definitions, as bytes in memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <infiniband/mlx5dv.h>

namespace verbena::keys_test {

// A signature as the API has it, without pointers.
struct Kind {
  std::string name;
  mlx5dv_sig_type type = MLX5DV_SIG_TYPE_CRC;
  mlx5dv_sig_crc crc{};
  mlx5dv_sig_t10dif dif{};
  uint8_t mask = 0;  // all bytes

  [[nodiscard]] uint32_t bytes() const;
};

// Every kind and seed.
[[nodiscard]] std::vector<Kind> all_kinds();

struct BlockSize {
  mlx5dv_block_size value;
  uint32_t bytes;
};
inline constexpr BlockSize kBlockSizes[] = {{MLX5DV_BLOCK_SIZE_512, 512},
                                            {MLX5DV_BLOCK_SIZE_520, 520},
                                            {MLX5DV_BLOCK_SIZE_4048, 4048},
                                            {MLX5DV_BLOCK_SIZE_4096, 4096},
                                            {MLX5DV_BLOCK_SIZE_4160, 4160}};

[[nodiscard]] std::vector<uint8_t> signature(const Kind& kind, std::span<const uint8_t> block,
                                             uint32_t index);
// Data with its signatures; what is left at the end has none.
[[nodiscard]] std::vector<uint8_t> with_signatures(const Kind& kind, uint32_t block,
                                                   std::span<const uint8_t> data);

}  // namespace verbena::keys_test
