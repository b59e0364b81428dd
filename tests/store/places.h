// SPDX-License-Identifier: Apache-2.0
// Where a store of a test may be: each memory backend, and stacks of them, in folders that are gone
// when the test is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "medium/backend.h"

namespace verbena::store::trial {

struct PlaceShape {
  uint32_t chunks_per_block = 64;
  uint32_t blocks = 40;
  [[nodiscard]] size_t block_bytes() const { return size_t{chunks_per_block} * 4096; }
};

class Place {
 public:
  virtual ~Place() = default;
  // What is there, or what is made there if there is nothing. One at a time.
  [[nodiscard]] virtual medium::Result<std::unique_ptr<medium::Backend>> backend() = 0;
};

// "malloc", "nvdimm", ...
[[nodiscard]] const std::vector<std::string>& place_names();
// Null if there is none of this name.
[[nodiscard]] std::unique_ptr<Place> make_place(const std::string& name, const PlaceShape& shape);

}  // namespace verbena::store::trial
