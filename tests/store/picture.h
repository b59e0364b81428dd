// SPDX-License-Identifier: Apache-2.0
// All that a user sees of a store at one moment, short enough to be kept for each moment of a run.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "store/store.h"

namespace verbena::store::trial {

struct Seen {
  ObjectId id;
  std::string name;
  uint64_t number = 0;
  uint64_t size = 0;
  uint64_t chunks = 0;
  uint64_t created_ns = 0;
  uint64_t modified_ns = 0;
  uint64_t hash = 0;  // of the bytes
  bool operator==(const Seen&) const = default;
};
using Picture = std::vector<Seen>;  // in the order of list()

// Reads everything. The reason if something cannot be read.
[[nodiscard]] std::expected<Picture, std::string> picture_of(const Store& store);
// The first difference, in words.
[[nodiscard]] std::string difference(const Picture& expected, const Picture& actual);

}  // namespace verbena::store::trial
