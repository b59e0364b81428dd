// SPDX-License-Identifier: Apache-2.0
#include "fabric/part_keys.h"

#include <array>

namespace verbena::fabric {
namespace {

constexpr uint16_t kEntries = 4;  // of a layout: its header, the parts, their CRCs
constexpr uint32_t kMaxStride = 65535;
constexpr uint32_t kCrcBytes = 4;
// A configuration goes along in the request; on a NIC it needs room as inline data does.
constexpr uint32_t kInlineBytes = 128;

}  // namespace

std::unique_ptr<PartKeys> PartKeys::open(const KeyLibrary& library, ibv_pd* domain, size_t most) {
  if (!library.is_supported(domain->context->device)) return nullptr;
  std::unique_ptr<PartKeys> keys(new PartKeys(library, domain, most));
  // A device may know of keys and not make any.
  Handle const first = keys->take();
  if (first == nullptr) return nullptr;
  keys->give(first);
  return keys;
}

PartKeys::~PartKeys() {
  for (Handle const key : all_) static_cast<void>(library_.destroy_mkey(key));
}

ibv_qp* PartKeys::create_queue_pair(const ibv_qp_init_attr& init) const {
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = init.send_cq;
  attr.recv_cq = init.recv_cq;
  attr.srq = init.srq;
  attr.cap = init.cap;
  attr.cap.max_inline_data = kInlineBytes;
  attr.qp_type = init.qp_type;
  attr.sq_sig_all = init.sq_sig_all;
  attr.pd = domain_;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
  mlx5dv_qp_init_attr own{};
  own.comp_mask =
      MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS | MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
  own.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE;
  own.send_ops_flags = MLX5DV_QP_EX_WITH_MKEY_CONFIGURE;
  return library_.create_qp(domain_->context, &attr, &own);
}

bool PartKeys::makes_crcs_of(uint32_t bytes) { return bytes == 4048; }

bool PartKeys::fits(const Local& local) {
  if (local.stride < local.bytes || local.stride > kMaxStride ||
      uint64_t{local.bytes} * local.count > UINT32_MAX) {
    return false;
  }
  return local.crc_at == 0 || (makes_crcs_of(local.bytes) && local.crc_at >= local.bytes &&
                               local.crc_at + kCrcBytes <= local.stride);
}

PartKeys::Handle PartKeys::take() {
  if (!free_.empty()) {
    Handle const key = free_.back();
    free_.pop_back();
    return key;
  }
  if (all_.size() >= most_) return nullptr;
  mlx5dv_mkey_init_attr attr{};
  attr.pd = domain_;
  attr.create_flags =
      MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE;
  attr.max_entries = kEntries;
  Handle const key = library_.create_mkey(&attr);
  if (key != nullptr) all_.push_back(key);
  return key;
}

bool PartKeys::configure(ibv_qp* qp, Handle key, const Local& local, uint32_t lkey,
                         uint64_t work_id) const {
  ibv_qp_ex* const requests = library_.qp_to_qp_ex(qp);
  mlx5dv_qp_ex* const keys = library_.qp_ex_from_ibv_qp_ex(requests);
  const auto base = reinterpret_cast<uint64_t>(local.memory);
  const std::array<mlx5dv_mr_interleaved, 2> parts{{
      {base, local.bytes, local.stride - local.bytes, lkey},
      {base + local.crc_at, kCrcBytes, local.stride - kCrcBytes, lkey},
  }};
  const bool has_crcs = local.crc_at != 0;
  const mlx5dv_sig_crc crc{MLX5DV_SIG_CRC_TYPE_CRC32, 0xffffffff};
  mlx5dv_sig_block_domain in_memory{};
  in_memory.sig_type = MLX5DV_SIG_TYPE_CRC;
  in_memory.sig.crc = &crc;
  in_memory.block_size = MLX5DV_BLOCK_SIZE_4048;
  mlx5dv_sig_block_attr signature{};
  signature.mem = &in_memory;  // and none on the wire
  signature.check_mask = MLX5DV_SIG_MASK_CRC32;
  mlx5dv_mkey_conf_attr attr{};
  // What the key had before is forgotten.
  attr.conf_flags = MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR;

  ibv_wr_start(requests);
  requests->wr_id = work_id;
  requests->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  mlx5dv_wr_mkey_configure(keys, key, has_crcs ? 3 : 2, &attr);
  mlx5dv_wr_set_mkey_access_flags(keys, IBV_ACCESS_LOCAL_WRITE);
  mlx5dv_wr_set_mkey_layout_interleaved(keys, local.count, has_crcs ? 2 : 1, parts.data());
  if (has_crcs) mlx5dv_wr_set_mkey_sig_block(keys, &signature);
  return ibv_wr_complete(requests) == 0;
}

bool PartKeys::crcs_were_right(Handle key) const {
  mlx5dv_mkey_err error{};
  return library_.mkey_check(key, &error, sizeof error) == 0 &&
         error.err_type == MLX5DV_MKEY_NO_ERR;
}

}  // namespace verbena::fabric
