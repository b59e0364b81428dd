// SPDX-License-Identifier: Apache-2.0
// Whether a store is what its model says. Each answers with a sentence about the first difference,
// or with nothing.
#pragma once

#include <string>

#include "base/random.h"
#include "model.h"
#include "store/store.h"

namespace verbena::store::trial {

// Every byte of an object; of long holes a few. `crcs`: also those that are derived from the
// store's.
[[nodiscard]] std::string compare_object(const Store& store, const Model& model, ObjectId id);
// Names, sizes, chunks, in pages of some length; find() by name.
[[nodiscard]] std::string compare_listing(const Store& store, const Model& model,
                                          RandomSource& random);
// Chunks in use. Prepared writes must be gone.
[[nodiscard]] std::string compare_space(const Store& store, const Model& model,
                                        std::span<const CellRef> pinned = {});
// All of it.
[[nodiscard]] std::string compare(const Store& store, const Model& model, RandomSource& random,
                                  std::span<const CellRef> pinned = {});

}  // namespace verbena::store::trial
