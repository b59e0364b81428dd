// SPDX-License-Identifier: Apache-2.0
// Block signatures as programs describe them.
#include "mlx5/signature.h"

#include <array>
#include <cerrno>

#include "mlx5/service.h"

namespace verbena::mlx5 {
namespace {

using memory::SignatureDomain;
using memory::SignatureKind;

static_assert(MLX5DV_BLOCK_SIZE_512 == 0 && MLX5DV_BLOCK_SIZE_4160 == 4);
constexpr std::array<uint32_t, 5> kBlockBytes{512, 520, 4048, 4096, 4160};

[[nodiscard]] int translate(const mlx5dv_sig_t10dif* dif, SignatureDomain& to) {
  constexpr uint16_t kKnown = MLX5DV_SIG_T10DIF_FLAG_REF_REMAP | MLX5DV_SIG_T10DIF_FLAG_APP_ESCAPE |
                              MLX5DV_SIG_T10DIF_FLAG_APP_REF_ESCAPE;
  if (dif == nullptr || (dif->flags & ~kKnown) != 0) return EINVAL;
  switch (dif->bg_type) {
    case MLX5DV_SIG_T10DIF_CRC:  to.kind = SignatureKind::kDifCrc; break;
    case MLX5DV_SIG_T10DIF_CSUM: to.kind = SignatureKind::kDifSum; break;
    default:                     return EINVAL;
  }
  to.seed = dif->bg;
  to.app_tag = dif->app_tag;
  to.ref_tag = dif->ref_tag;
  to.ref_counts = (dif->flags & MLX5DV_SIG_T10DIF_FLAG_REF_REMAP) != 0;
  to.app_escape = (dif->flags & MLX5DV_SIG_T10DIF_FLAG_APP_ESCAPE) != 0;
  to.app_ref_escape = (dif->flags & MLX5DV_SIG_T10DIF_FLAG_APP_REF_ESCAPE) != 0;
  return 0;
}

[[nodiscard]] int translate(const mlx5dv_sig_crc* crc, SignatureDomain& to) {
  if (crc == nullptr) return EINVAL;
  to.seed = crc->seed & 0xffffffff;  // "bits not relevant to the CRC type are ignored"
  switch (crc->type) {
    case MLX5DV_SIG_CRC_TYPE_CRC32:  to.kind = SignatureKind::kCrc32; return 0;
    case MLX5DV_SIG_CRC_TYPE_CRC32C: to.kind = SignatureKind::kCrc32c; return 0;
    case MLX5DV_SIG_CRC_TYPE_CRC64_XP10:
      to.kind = SignatureKind::kCrc64;
      to.seed = crc->seed;
      return 0;
  }
  return EINVAL;
}

[[nodiscard]] int translate(const mlx5dv_sig_block_domain* from, SignatureDomain& to) {
  if (from == nullptr) return 0;  // no signature on this side
  const auto size = static_cast<size_t>(from->block_size);
  if (from->comp_mask != 0 || size >= kBlockBytes.size()) return EINVAL;
  to.block = kBlockBytes[size];
  switch (from->sig_type) {
    case MLX5DV_SIG_TYPE_T10DIF: return translate(from->sig.dif, to);
    case MLX5DV_SIG_TYPE_CRC:    return translate(from->sig.crc, to);
  }
  return EINVAL;
}

}  // namespace

int translate(const mlx5dv_sig_block_attr* attr, memory::KeyConfig& config) {
  constexpr uint32_t kKnown = MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK;
  if (attr == nullptr || attr->comp_mask != 0 || (attr->flags & ~kKnown) != 0) return EINVAL;
  memory::Signature signature;
  signature.check_mask = attr->check_mask;
  signature.copy_mask = attr->copy_mask;
  if (translate(attr->mem, signature.memory) != 0) return EINVAL;
  if (translate(attr->wire, signature.wire) != 0) return EINVAL;
  return service().set_signature(config, signature,
                                 (attr->flags & MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK) != 0);
}

}  // namespace verbena::mlx5
