// SPDX-License-Identifier: Apache-2.0
// The device: that it has a ConnectX's calls, and which.
#include <algorithm>
#include <cstring>
#include <ctime>

#include <infiniband/mlx5dv.h>

#include "base/c_interface.h"
#include "mlx5/identity.h"
#include "mlx5/limits.h"
#include "mlx5/service.h"

using namespace verbena::mlx5;

VERBENA_EXPORT bool mlx5dv_is_supported(ibv_device* device) { return device != nullptr; }

VERBENA_EXPORT ibv_context* mlx5dv_open_device(ibv_device* device, mlx5dv_context_attr* attr) {
  if (device == nullptr || attr == nullptr) return none(EINVAL);
  // DEVX is what mlx5dv_mkey_check(3) tells programs to open the device with. Commands to the
  // hardware are refused one by one (devx.cc); nothing else can be asked for.
  constexpr uint32_t kKnownFlags = MLX5DV_CONTEXT_FLAGS_DEVX;
  if ((attr->flags & ~kKnownFlags) != 0 || attr->comp_mask != 0) return none(EOPNOTSUPP);
  return ibv_open_device(device);
}

VERBENA_EXPORT int mlx5dv_query_device(ibv_context* context, mlx5dv_context* attr) {
  constexpr uint64_t kKnown =
      MLX5DV_CONTEXT_MASK_CQE_COMPRESION | MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE |
      MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS | MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD |
      MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH;
  if (context == nullptr || attr == nullptr) return verbena::with_errno(EINVAL);
  const uint64_t wanted = attr->comp_mask;
  // What is behind comp_mask belongs to who asks for it: a program of an older header has no room.
  attr->version = 0;
  // No word of queues that a program could read by itself.
  attr->flags = MLX5DV_CONTEXT_FLAGS_CQE_128B_COMP | MLX5DV_CONTEXT_FLAGS_CQE_128B_PAD;
  attr->comp_mask = wanted & kKnown;
  if ((wanted & MLX5DV_CONTEXT_MASK_CQE_COMPRESION) != 0) {
    attr->cqe_comp_caps = {.max_num = 1, .supported_format = kCompressions};
  }
  if ((wanted & MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE) != 0) {
    attr->max_clock_info_update_nsec = kClockInfoGoodForNs;
  }
  if ((wanted & MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS) != 0) {
    attr->num_lag_ports = looks_like_connectx(context) ? kLagPorts : 0;
  }
  if ((wanted & MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD) != 0) {
    attr->sig_caps = {.block_size = MLX5DV_BLOCK_SIZE_CAP_512 | MLX5DV_BLOCK_SIZE_CAP_520 |
                                    MLX5DV_BLOCK_SIZE_CAP_4048 | MLX5DV_BLOCK_SIZE_CAP_4096 |
                                    MLX5DV_BLOCK_SIZE_CAP_4160,
                      .block_prot = MLX5DV_SIG_PROT_CAP_T10DIF | MLX5DV_SIG_PROT_CAP_CRC,
                      .t10dif_bg = MLX5DV_SIG_T10DIF_BG_CAP_CRC | MLX5DV_SIG_T10DIF_BG_CAP_CSUM,
                      .crc_type = MLX5DV_SIG_CRC_TYPE_CAP_CRC32 | MLX5DV_SIG_CRC_TYPE_CAP_CRC32C |
                                  MLX5DV_SIG_CRC_TYPE_CAP_CRC64_XP10};
  }
  if ((wanted & MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH) != 0) {
    attr->max_wr_memcpy_length = kMaxMemcpyBytes;
  }
  return 0;
}

VERBENA_EXPORT int mlx5dv_get_clock_info(ibv_context* context, mlx5dv_clock_info* info) {
  if (context == nullptr || info == nullptr) return verbena::with_errno(EINVAL);
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  if (const int error = ibv_query_rt_values_ex(context, &values); error != 0) return error;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  // The device's ticks are nanoseconds.
  *info = {.nsec = static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 +
                   static_cast<uint64_t>(now.tv_nsec),
           .last_cycles = static_cast<uint64_t>(values.raw_clock.tv_nsec),
           .frac = 0,
           .mult = 1,
           .shift = 0,
           .mask = UINT64_MAX};
  return 0;
}

// Nothing of what can be asked about a port is here: it is no port of an embedded switch.
VERBENA_EXPORT int _mlx5dv_query_port(ibv_context* context, uint32_t port, mlx5dv_port* info,
                                      size_t size) {
  ibv_port_attr attr{};
  if (context == nullptr || info == nullptr || port > UINT8_MAX) return verbena::with_errno(EINVAL);
  const int error = ibv_query_port(context, static_cast<uint8_t>(port), &attr);
  if (error == 0) std::memset(info, 0, size);
  return error;
}

VERBENA_EXPORT int mlx5dv_reserved_qpn_alloc(ibv_context* context, uint32_t* qpn) {
  return qpn != nullptr ? service().reserve_qpn(context, *qpn) : verbena::with_errno(EINVAL);
}
VERBENA_EXPORT int mlx5dv_reserved_qpn_dealloc(ibv_context* context, uint32_t qpn) {
  return service().release_qpn(context, qpn);
}

VERBENA_EXPORT ibv_dm* mlx5dv_alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr,
                                       mlx5dv_alloc_dm_attr* own) {
  if (context == nullptr || attr == nullptr || own == nullptr) return none(EINVAL);
  // Memory for steering and header rewriting is not there.
  if (own->comp_mask != 0 || own->type != MLX5DV_DM_TYPE_MEMIC) return none(EOPNOTSUPP);
  return ibv_alloc_dm(context, attr);
}
