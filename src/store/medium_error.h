// SPDX-License-Identifier: Apache-2.0
// Converts an error of the medium into an error of the store.
#pragma once

#include "medium/backend.h"
#include "store/error.h"

namespace verbena::store {

[[nodiscard]] inline Error from_medium(const medium::Error& error) {
  switch (error.code) {
    case medium::Code::kFull:     return {Code::kFull, error.what, {}};
    case medium::Code::kNoMemory: return {Code::kNoMemory, error.what, {}};
    case medium::Code::kBad:      return {Code::kDamaged, error.what, {}};
    case medium::Code::kIo:       break;
  }
  return {Code::kIo, error.what, {}};
}

}  // namespace verbena::store
