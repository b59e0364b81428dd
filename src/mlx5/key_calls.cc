// SPDX-License-Identifier: Apache-2.0
// Requests that configure a key. They are put together between ibv_wr_start and ibv_wr_complete,
// which tells the first error.
#include <bit>

#include "mlx5/queue_pair.h"
#include "mlx5/signature.h"

namespace verbena::mlx5 {
namespace {

using memory::KeyConfig;

enum Setter : uint32_t { kAccess = 1, kLayout = 2, kSignature = 4 };

// rdma-core's optional flags may be passed over by who does not know them.
constexpr uint32_t kAccessFlags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

[[nodiscard]] int set_access(KeyConfig& config, uint32_t flags) {
  if ((flags & ~(kAccessFlags | IBV_ACCESS_OPTIONAL_RANGE)) != 0) return EINVAL;
  config.access = flags & kAccessFlags;
  return 0;
}

[[nodiscard]] int set_list(KeyConfig& config, uint16_t count, const ibv_sge* list) {
  if (list == nullptr) return EINVAL;
  config.has_layout = true;
  config.blocks.reserve(count);
  for (uint16_t i = 0; i < count; ++i) {
    const ibv_sge& entry = list[i];
    config.blocks.push_back(
        {.addr = entry.addr, .bytes = entry.length, .skip = 0, .key = LKey(entry.lkey)});
  }
  return 0;
}

[[nodiscard]] int set_interleaved(KeyConfig& config, uint32_t repeat, uint16_t count,
                                  const mlx5dv_mr_interleaved* data) {
  if (data == nullptr) return EINVAL;
  config.has_layout = true;
  config.interleaved = true;
  config.repeat = repeat;
  config.blocks.reserve(count);
  for (uint16_t i = 0; i < count; ++i) {
    const mlx5dv_mr_interleaved& entry = data[i];
    config.blocks.push_back({.addr = entry.addr,
                             .bytes = entry.bytes_count,
                             .skip = entry.bytes_skip,
                             .key = LKey(entry.lkey)});
  }
  return 0;
}

template <typename Set>
[[nodiscard]] int guarded(Set&& set, KeyConfig& config) {
  try {
    return set(config);
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

// nullptr: it failed, or something before it.
[[nodiscard]] KeyConfig* begin(QueuePair& qp, mlx5dv_mkey* mkey) {
  // As a ConnectX, which takes a configuration along in the request alone.
  if ((qp.qp->wr_flags & IBV_SEND_INLINE) == 0) {
    service().fail(qp.qp, EOPNOTSUPP);
    return nullptr;
  }
  return service().begin_configure(qp.qp, reinterpret_cast<keys::Key*>(mkey));
}

// One that is whole at once.
template <typename Set>
void configure(mlx5dv_qp_ex* mqp, mlx5dv_mkey* mkey, uint32_t access, Set&& set) {
  QueuePair& qp = of(mqp);
  KeyConfig* const config = begin(qp, mkey);
  if (config == nullptr) return;
  int error = set_access(*config, access);
  if (error == 0) error = guarded(set, *config);
  if (error != 0) return service().fail(qp.qp, error);
  service().end_configure(qp.qp);
}

void wr_mr_list(mlx5dv_qp_ex* qp, mlx5dv_mkey* mkey, uint32_t access, uint16_t count,
                ibv_sge* list) {
  configure(qp, mkey, access, [=](KeyConfig& config) { return set_list(config, count, list); });
}

void wr_mr_interleaved(mlx5dv_qp_ex* qp, mlx5dv_mkey* mkey, uint32_t access, uint32_t repeat,
                       uint16_t count, mlx5dv_mr_interleaved* data) {
  configure(qp, mkey, access,
            [=](KeyConfig& config) { return set_interleaved(config, repeat, count, data); });
}

void wr_mkey_configure(mlx5dv_qp_ex* mqp, mlx5dv_mkey* mkey, uint8_t setters,
                       mlx5dv_mkey_conf_attr* attr) {
  QueuePair& qp = of(mqp);
  constexpr uint32_t kKnown = MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR;
  if (attr == nullptr || attr->comp_mask != 0) return service().fail(qp.qp, EINVAL);
  if ((attr->conf_flags & ~kKnown) != 0) return service().fail(qp.qp, EOPNOTSUPP);
  KeyConfig* const config = begin(qp, mkey);
  if (config == nullptr) return;
  config->reset_signature = (attr->conf_flags & MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR) != 0;
  qp.setters_wanted = setters;
  qp.setters_seen = 0;
  if (setters == 0) service().end_configure(qp.qp);
}

// What was announced and comes, each once; the last of them ends the request.
template <typename Set>
void add(mlx5dv_qp_ex* mqp, Setter which, Set&& set) {
  QueuePair& qp = of(mqp);
  KeyConfig* const config = service().configuration(qp.qp);
  if (config == nullptr || (qp.setters_seen & which) != 0) return service().fail(qp.qp, EINVAL);
  if (const int error = guarded(set, *config); error != 0) return service().fail(qp.qp, error);
  qp.setters_seen |= which;
  const auto seen = static_cast<uint32_t>(std::popcount(qp.setters_seen));
  if (seen == qp.setters_wanted) service().end_configure(qp.qp);
}

void wr_set_mkey_access_flags(mlx5dv_qp_ex* qp, uint32_t flags) {
  add(qp, kAccess, [=](KeyConfig& config) { return set_access(config, flags); });
}

void wr_set_mkey_layout_list(mlx5dv_qp_ex* qp, uint16_t count, const ibv_sge* list) {
  add(qp, kLayout, [=](KeyConfig& config) { return set_list(config, count, list); });
}

void wr_set_mkey_layout_interleaved(mlx5dv_qp_ex* qp, uint32_t repeat, uint16_t count,
                                    const mlx5dv_mr_interleaved* data) {
  add(qp, kLayout, [=](KeyConfig& config) { return set_interleaved(config, repeat, count, data); });
}

void wr_set_mkey_sig_block(mlx5dv_qp_ex* qp, const mlx5dv_sig_block_attr* attr) {
  add(qp, kSignature, [=](KeyConfig& config) { return translate(attr, config); });
}

void wr_set_mkey_crypto(mlx5dv_qp_ex* qp, const mlx5dv_crypto_attr*) {
  service().fail(of(qp).qp, EOPNOTSUPP);
}

}  // namespace

void fill_key_calls(mlx5dv_qp_ex& qp) {
  qp.wr_mr_list = wr_mr_list;
  qp.wr_mr_interleaved = wr_mr_interleaved;
  qp.wr_mkey_configure = wr_mkey_configure;
  qp.wr_set_mkey_access_flags = wr_set_mkey_access_flags;
  qp.wr_set_mkey_layout_list = wr_set_mkey_layout_list;
  qp.wr_set_mkey_layout_interleaved = wr_set_mkey_layout_interleaved;
  qp.wr_set_mkey_sig_block = wr_set_mkey_sig_block;
  qp.wr_set_mkey_crypto = wr_set_mkey_crypto;
}

}  // namespace verbena::mlx5
