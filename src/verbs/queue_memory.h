// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace verbena::verbs {

// Whether the memory that a user demands for queues can be had. rdma-core's provider for a ConnectX
// takes it from huge pages, and nowhere else, when MLX_CQ_ALLOC_TYPE (_QP_, _SRQ_) says HUGE; under
// that identity a host without them refuses here, too.
[[nodiscard]] bool has_memory_for(const char* variable);

}  // namespace verbena::verbs
