// SPDX-License-Identifier: Apache-2.0
#include "protocol/status.h"

namespace verbena::protocol {

const char* name_of(Status status) {
  switch (status) {
    case Status::kOk:          return "ok";
    case Status::kNotFound:    return "not-found";
    case Status::kExists:      return "exists";
    case Status::kInvalid:     return "invalid";
    case Status::kFull:        return "full";
    case Status::kNoMemory:    return "no-memory";
    case Status::kDamaged:     return "damaged";
    case Status::kConflict:    return "conflict";
    case Status::kReadOnly:    return "read-only";
    case Status::kIo:          return "io";
    case Status::kUnsupported: return "unsupported";
    case Status::kTooLarge:    return "too-large";
    case Status::kCorrupted:   return "corrupted";
    case Status::kTransfer:    return "transfer";
    case Status::kMismatch:    return "mismatch";
    case Status::kBusy:        return "busy";
    case Status::kInternal:    return "internal";
  }
  return "unknown";
}

}  // namespace verbena::protocol
