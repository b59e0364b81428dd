// SPDX-License-Identifier: Apache-2.0
// Access rights, and why a use of a key was refused. The values of Access are those of
// ibv_access_flags, so that the verbs boundary passes them through (and asserts that they agree).
#pragma once

#include <cstdint>

namespace verbena::memory {

enum Access : uint32_t {
  kLocalWrite = 1u << 0,
  kRemoteWrite = 1u << 1,
  kRemoteRead = 1u << 2,
  kRemoteAtomic = 1u << 3,
  kMwBind = 1u << 4,
  kZeroBased = 1u << 5,
  kOnDemand = 1u << 6,
  kFlushGlobal = 1u << 8,
  kFlushPersistent = 1u << 9,
};
inline constexpr uint32_t kAnyRemote =
    kRemoteWrite | kRemoteRead | kRemoteAtomic | kFlushGlobal | kFlushPersistent;

// The first check that failed, in the order they are made.
enum class Fault : uint8_t {
  kNone,
  kNoSuchKey,    // no region or window has this key (never had, or is gone)
  kWrongState,   // the key exists but is not usable: window not bound, invalidated
  kWrongPd,      // belongs to another protection domain
  kWrongQp,      // type 2 window bound to another queue pair
  kNoAccess,     // region or window does not grant this
  kOutOfBounds,  // range leaves the region, or wraps
  kMisaligned,   // atomic not on an 8-byte boundary
  kPage,         // the memory is not there (on-demand region)
};
[[nodiscard]] const char* to_string(Fault fault);

}  // namespace verbena::memory
