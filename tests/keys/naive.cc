// SPDX-License-Identifier: Apache-2.0
#include "naive.h"

#include <algorithm>

#include "base/bitwise_crc.h"

namespace verbena::keys_test {
namespace {

using Bytes = std::vector<uint8_t>;

[[nodiscard]] Bytes big_endian(uint64_t value, int bytes) {
  Bytes out;
  for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<uint8_t>(value >> (8 * i)));
  return out;
}

[[nodiscard]] uint64_t guard(const mlx5dv_sig_t10dif& dif, std::span<const uint8_t> block) {
  if (dif.bg_type == MLX5DV_SIG_T10DIF_CRC) return bitwise_crc_msb<uint16_t>(0x8bb7, dif.bg, block);
  uint64_t sum = dif.bg;
  for (size_t i = 0; i + 1 < block.size(); i += 2) sum += uint64_t{block[i]} << 8 | block[i + 1];
  while ((sum >> 16) != 0) sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}

}  // namespace

uint32_t Kind::bytes() const {
  return type == MLX5DV_SIG_TYPE_T10DIF || crc.type == MLX5DV_SIG_CRC_TYPE_CRC64_XP10 ? 8 : 4;
}

std::vector<Kind> all_kinds() {
  std::vector<Kind> kinds;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{0xffffffff}}) {
    kinds.push_back(
        {.name = "CRC32", .crc = {MLX5DV_SIG_CRC_TYPE_CRC32, seed}, .mask = MLX5DV_SIG_MASK_CRC32});
    kinds.push_back({.name = "CRC32C",
                     .crc = {MLX5DV_SIG_CRC_TYPE_CRC32C, seed},
                     .mask = MLX5DV_SIG_MASK_CRC32C});
    kinds.push_back({.name = "CRC64",
                     .crc = {MLX5DV_SIG_CRC_TYPE_CRC64_XP10, seed == 0 ? 0 : ~uint64_t{0}},
                     .mask = MLX5DV_SIG_MASK_CRC64_XP10});
    for (const auto type : {MLX5DV_SIG_T10DIF_CRC, MLX5DV_SIG_T10DIF_CSUM}) {
      const auto bg = static_cast<uint16_t>(seed);
      kinds.push_back(
          {.name = type == MLX5DV_SIG_T10DIF_CRC ? "T10DIF CRC, type 1" : "T10DIF sum",
           .type = MLX5DV_SIG_TYPE_T10DIF,
           .dif = {type, bg, 0x5678, 0xf0debc9a,
                   MLX5DV_SIG_T10DIF_FLAG_REF_REMAP | MLX5DV_SIG_T10DIF_FLAG_APP_ESCAPE},
           .mask = 0xff});
      kinds.push_back({.name = "T10DIF, type 3",
                       .type = MLX5DV_SIG_TYPE_T10DIF,
                       .dif = {type, bg, 0x1234, 7, MLX5DV_SIG_T10DIF_FLAG_APP_REF_ESCAPE},
                       .mask = 0xff});
    }
  }
  return kinds;
}

std::vector<uint8_t> signature(const Kind& kind, std::span<const uint8_t> block, uint32_t index) {
  if (kind.type == MLX5DV_SIG_TYPE_T10DIF) {
    Bytes out = big_endian(guard(kind.dif, block), 2);
    const bool counts = (kind.dif.flags & MLX5DV_SIG_T10DIF_FLAG_REF_REMAP) != 0;
    for (const uint8_t byte : big_endian(kind.dif.app_tag, 2)) out.push_back(byte);
    for (const uint8_t byte : big_endian(kind.dif.ref_tag + (counts ? index : 0), 4)) {
      out.push_back(byte);
    }
    return out;
  }
  const auto seed32 = static_cast<uint32_t>(kind.crc.seed);
  switch (kind.crc.type) {
    case MLX5DV_SIG_CRC_TYPE_CRC32:
      return big_endian(~bitwise_crc_msb<uint32_t>(0x04c11db7, seed32, block), 4);
    case MLX5DV_SIG_CRC_TYPE_CRC32C: {
      Bytes out = big_endian(~bitwise_crc_lsb<uint32_t>(0x82f63b78, seed32, block), 4);
      std::ranges::reverse(out);
      return out;
    }
    default: break;
  }
  Bytes out = big_endian(~bitwise_crc_lsb<uint64_t>(0x9a6c9329ac4bc9b5, kind.crc.seed, block), 8);
  std::ranges::reverse(out);
  return out;
}

std::vector<uint8_t> with_signatures(const Kind& kind, uint32_t block,
                                     std::span<const uint8_t> data) {
  Bytes out;
  for (uint32_t index = 0; !data.empty(); ++index) {
    const auto part = data.first(std::min<size_t>(block, data.size()));
    data = data.subspan(part.size());
    out.insert(out.end(), part.begin(), part.end());
    if (part.size() < block) break;
    const Bytes bytes = signature(kind, part, index);
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

}  // namespace verbena::keys_test
