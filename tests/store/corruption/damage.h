// SPDX-License-Identifier: Apache-2.0
// One damage to a store, drawn: what kind is by turns, where and how by the seed.
#pragma once

#include <string>

#include "base/random.h"
#include "sample.h"

namespace verbena::store::trial {

struct DamagedStore {
  FilesImage image;
  std::string what;  // for people
};

[[nodiscard]] size_t damage_kinds();
[[nodiscard]] DamagedStore destroy(const Sample& sample, size_t kind, RandomSource& random);

}  // namespace verbena::store::trial
