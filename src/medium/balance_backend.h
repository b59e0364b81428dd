// SPDX-License-Identifier: Apache-2.0
// Several backends as one: blocks are distributed round-robin; position p is block p / n of medium
// p % n. A full medium is skipped, and its positions stay free.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "medium/backend.h"

namespace verbena::medium {

// All with blocks of one size; at least one.
[[nodiscard]] std::unique_ptr<Backend> make_balance_backend(
    std::vector<std::unique_ptr<Backend>> media);

// The NUMA nodes with memory that this process may use; {-1}, anywhere, where there are none.
[[nodiscard]] std::vector<int> numa_nodes();

// One medium for each node, made by `make`, and a balance over them.
struct NodeMedium {
  int node = -1;
  uint32_t medium = 0;
  uint32_t media = 1;
};
[[nodiscard]] Result<std::unique_ptr<Backend>> make_balance_over_nodes(
    const std::vector<int>& nodes,
    const std::function<Result<std::unique_ptr<Backend>>(const NodeMedium&)>& make);

}  // namespace verbena::medium
