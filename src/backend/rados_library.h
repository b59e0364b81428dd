// SPDX-License-Identifier: Apache-2.0
// librados, loaded when a pool is used: programs that use none need not have it.
#pragma once

#include <rados/librados.h>

#include "backend/tier.h"

// Those that are used, without their prefix.
#define VERBENA_RADOS_FUNCTIONS(FUNCTION)  \
  FUNCTION(create)                         \
  FUNCTION(conf_read_file)                 \
  FUNCTION(conf_set)                       \
  FUNCTION(connect)                        \
  FUNCTION(shutdown)                       \
  FUNCTION(ioctx_create)                   \
  FUNCTION(ioctx_destroy)                  \
  FUNCTION(ioctx_set_namespace)            \
  FUNCTION(set_pool_full_try)              \
  FUNCTION(getxattr)                       \
  FUNCTION(remove)                         \
  FUNCTION(lock_exclusive)                 \
  FUNCTION(unlock)                         \
  FUNCTION(list_lockers)                   \
  FUNCTION(create_write_op)                \
  FUNCTION(release_write_op)               \
  FUNCTION(write_op_create)                \
  FUNCTION(write_op_write_full)            \
  FUNCTION(write_op_cmpxattr)              \
  FUNCTION(write_op_setxattr)              \
  FUNCTION(write_op_omap_cmp2)             \
  FUNCTION(write_op_omap_set2)             \
  FUNCTION(write_op_omap_rm_keys2)         \
  FUNCTION(write_op_operate)               \
  FUNCTION(aio_write_op_operate)           \
  FUNCTION(create_read_op)                 \
  FUNCTION(release_read_op)                \
  FUNCTION(read_op_read)                   \
  FUNCTION(read_op_omap_get_vals2)         \
  FUNCTION(read_op_omap_get_vals_by_keys2) \
  FUNCTION(read_op_operate)                \
  FUNCTION(aio_read_op_operate)            \
  FUNCTION(omap_get_next2)                 \
  FUNCTION(omap_get_end)                   \
  FUNCTION(aio_create_completion2)         \
  FUNCTION(aio_wait_for_complete)          \
  FUNCTION(aio_get_return_value)           \
  FUNCTION(aio_release)                    \
  FUNCTION(aio_remove)                     \
  FUNCTION(nobjects_list_open)             \
  FUNCTION(nobjects_list_next2)            \
  FUNCTION(nobjects_list_close)

namespace verbena::backend {

struct RadosLibrary {
// A name of a member has no parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses)
#define VERBENA_RADOS_MEMBER(name) decltype(&::rados_##name) name = nullptr;
  VERBENA_RADOS_FUNCTIONS(VERBENA_RADOS_MEMBER)
#undef VERBENA_RADOS_MEMBER

  // Once; whoever asks again gets the same one. It stays loaded, for it has threads. The error says
  // how to get it.
  [[nodiscard]] static Result<const RadosLibrary*> load();
};

}  // namespace verbena::backend
