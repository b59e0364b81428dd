// SPDX-License-Identifier: Apache-2.0
// Keys: made, destroyed, asked whether a signature was wrong. How they are configured is
// key_calls.cc's.
#include <algorithm>
#include <cstring>

#include <infiniband/mlx5dv.h>

#include "base/c_interface.h"
#include "mlx5/service.h"

namespace {

using verbena::keys::Key;
using verbena::memory::SignatureError;
using verbena::memory::SignatureField;

// A mlx5dv_mkey is a Key.
static_assert(sizeof(mlx5dv_mkey) == sizeof(Key) &&
              offsetof(mlx5dv_mkey, rkey) == offsetof(Key, rkey));
static_assert(static_cast<int>(SignatureField::kGuard) == MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD &&
              static_cast<int>(SignatureField::kRefTag) == MLX5DV_MKEY_SIG_BLOCK_BAD_REFTAG &&
              static_cast<int>(SignatureField::kAppTag) == MLX5DV_MKEY_SIG_BLOCK_BAD_APPTAG);

[[nodiscard]] Key* of(mlx5dv_mkey* mkey) { return reinterpret_cast<Key*>(mkey); }

}  // namespace

using namespace verbena::mlx5;

VERBENA_EXPORT mlx5dv_mkey* mlx5dv_create_mkey(mlx5dv_mkey_init_attr* init) {
  constexpr uint32_t kKnown = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT |
                              MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE |
                              MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE;
  if (init == nullptr) return none(EINVAL);
  const uint32_t flags = init->create_flags;
  if ((flags & ~kKnown) != 0 || (flags & MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT) == 0) {
    return none(EOPNOTSUPP);
  }
  const uint32_t entries = (init->max_entries + 3u) & ~3u;
  if (entries > UINT16_MAX) return none(EINVAL);  // could not be told back
  Key* const key = service().create(
      init->pd,
      {.max_entries = entries,
       .signature = (flags & MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE) != 0,
       .remote_invalidate = (flags & MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE) != 0});
  if (key != nullptr) init->max_entries = static_cast<uint16_t>(entries);
  return reinterpret_cast<mlx5dv_mkey*>(key);
}

VERBENA_EXPORT int mlx5dv_destroy_mkey(mlx5dv_mkey* mkey) { return service().destroy(of(mkey)); }

VERBENA_EXPORT int _mlx5dv_mkey_check(mlx5dv_mkey* mkey, mlx5dv_mkey_err* info, size_t size) {
  if (info == nullptr || size < sizeof info->err_type) return verbena::with_errno(EINVAL);
  std::optional<SignatureError> error;
  if (const int failed = service().take_error(of(mkey), error); failed != 0) return failed;
  mlx5dv_mkey_err whole{};
  whole.err_type = MLX5DV_MKEY_NO_ERR;
  if (error) {
    whole.err_type = static_cast<mlx5dv_mkey_err_type>(error->field);
    whole.err.sig = {
        .actual_value = error->actual, .expected_value = error->expected, .offset = error->offset};
  }
  std::memset(info, 0, size);
  std::memcpy(info, &whole, std::min(size, sizeof whole));
  return 0;
}
