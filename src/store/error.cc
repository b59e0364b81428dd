// SPDX-License-Identifier: Apache-2.0
#include "store/error.h"

namespace verbena::store {

const char* name_of(Code code) {
  switch (code) {
    case Code::kNotFound:    return "not-found";
    case Code::kExists:      return "exists";
    case Code::kInvalid:     return "invalid";
    case Code::kFull:        return "full";
    case Code::kNoMemory:    return "no-memory";
    case Code::kDamaged:     return "damaged";
    case Code::kConflict:    return "conflict";
    case Code::kReadOnly:    return "read-only";
    case Code::kInUse:       return "in-use";
    case Code::kVersion:     return "version";
    case Code::kNoStore:     return "no-store";
    case Code::kIo:          return "io";
    case Code::kUnsupported: return "unsupported";
    case Code::kUnreachable: return "unreachable";
    case Code::kLogFull:     return "log-full";
    case Code::kBehind:      return "behind";
  }
  return "unknown";
}

}  // namespace verbena::store
