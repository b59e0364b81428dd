// SPDX-License-Identifier: Apache-2.0
// Why bytes are not a valid message. Each decoder returns the first reason it finds; a server
// counts them.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace verbena::protocol {

enum class Fault : uint8_t {
  kShort,       // ends before its last field
  kLong,        // bytes after its last field
  kType,        // unknown message type
  kUnexpected,  // a known type that this side does not receive
  kTypeByte,  // the type byte of an I/O request does not match the message type, or has other bits
  kReserved,  // a field has a value that has no meaning
  kObject,    // unknown way to name an object
  kName,      // name longer than kMaxNameBytes
  kText,      // text longer than its limit
  kSegments,  // no segments, too many, an empty one, or one beyond 2^64
  kLength,    // lengths that contradict each other, or a range beyond 2^64
  kCount,     // more list entries than bytes
  kHeadCrc,   // the CRC over header and fields is wrong: the message is damaged
  kIdentity,  // fabric client id or session id of another session
  kKey,       // wrong session key or tag
  kRoom,      // does not fit the buffer it is encoded into
  kOrder,     // an id or `oldest` that does not follow from those before
  kWindow,    // more requests in flight, or a higher id, than the session allows
  kMagic,     // not this protocol
  kEnd,       // number of reasons
};
inline constexpr uint8_t kFaults = static_cast<uint8_t>(Fault::kEnd);

[[nodiscard]] const char* text_of(Fault fault);  // a phrase for people

template <typename T>
using Decoded = Result<T, Fault>;

}  // namespace verbena::protocol
