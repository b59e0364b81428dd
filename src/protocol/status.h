// SPDX-License-Identifier: Apache-2.0
// The result of a request, as the response has it: 5 bits.
#pragma once

#include <cstdint>

namespace verbena::protocol {

enum class Status : uint8_t {
  kOk = 0,
  // As the store's codes.
  kNotFound = 1,  // no such object
  kExists = 2,    // the id or name is in use
  kInvalid = 3,   // invalid arguments
  kFull = 4,      // no space
  kNoMemory = 5,  // of the server's process
  kDamaged = 6,   // stored data does not match its checksum: `detail` names the place
  kConflict = 7,  // another client has registered the range
  kReadOnly = 8,  // the store is open read-only, or a sync has failed
  kIo = 9,        // the medium failed
  // Of the server.
  kUnsupported = 10,  // unknown message type
  kTooLarge = 11,     // beyond a limit of the session
  kCorrupted = 12,    // the data that arrived does not match the request's CRC: nothing was stored
  kTransfer = 13,     // RDMA to or from the client's memory failed
  kMismatch = 14,     // the id belongs to another request
  kBusy = 15,         // try again later; nothing was done
  kInternal = 16,     // a server error
};
inline constexpr uint8_t kMaxStatus = 16;
inline constexpr uint8_t kStatusMask = 0x1f;

[[nodiscard]] constexpr bool is_defined(Status status) {
  return static_cast<uint8_t>(status) <= kMaxStatus;
}
[[nodiscard]] const char* name_of(Status status);  // "not-found", ...: for scripts

}  // namespace verbena::protocol
