// SPDX-License-Identifier: Apache-2.0
// Between a store and a load of something else, where the other side does the same crosswise: at
// least one of the two sees the other's store.
#pragma once

#include <atomic>

namespace verbena {

inline void full_fence() {
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"  // it does not model fences; what they order is atomic
#endif
  std::atomic_thread_fence(std::memory_order_seq_cst);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}

}  // namespace verbena
