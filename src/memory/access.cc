// SPDX-License-Identifier: Apache-2.0
#include "memory/access.h"

namespace verbena::memory {

const char* to_string(Fault fault) {
  switch (fault) {
    case Fault::kNone:        return "none";
    case Fault::kNoSuchKey:   return "no such key";
    case Fault::kWrongState:  return "key not usable in its state";
    case Fault::kWrongPd:     return "key of another protection domain";
    case Fault::kWrongQp:     return "window bound to another queue pair";
    case Fault::kNoAccess:    return "access not granted";
    case Fault::kOutOfBounds: return "out of bounds";
    case Fault::kMisaligned:  return "atomic not aligned";
    case Fault::kPage:        return "memory not present";
  }
  return "unknown fault";
}

}  // namespace verbena::memory
