// SPDX-License-Identifier: Apache-2.0
#include "store_cli/exit_status.h"

namespace verbena::store_cli {

ExitStatus exit_status_of(store::Code code) {
  using store::Code;
  switch (code) {
    case Code::kNotFound:    return ExitStatus::kNoObject;
    case Code::kExists:      return ExitStatus::kExists;
    case Code::kInvalid:     return ExitStatus::kUsage;
    case Code::kFull:        return ExitStatus::kFull;
    case Code::kDamaged:     return ExitStatus::kDamaged;
    case Code::kInUse:       return ExitStatus::kInUse;
    case Code::kVersion:     return ExitStatus::kForeign;
    case Code::kNoStore:     return ExitStatus::kNoStore;
    case Code::kUnreachable: return ExitStatus::kUnreachable;
    case Code::kNoMemory:
    case Code::kUnsupported:
    case Code::kConflict:
    case Code::kReadOnly:
    case Code::kIo:
    case Code::kLogFull:
    case Code::kBehind:      break;
  }
  return ExitStatus::kNotDone;
}

}  // namespace verbena::store_cli
