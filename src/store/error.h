// SPDX-License-Identifier: Apache-2.0
// Why an operation on a store failed: the reason, the object and the place.
#pragma once

#include <cstdint>
#include <string>

#include "base/object_id.h"
#include "base/result.h"

namespace verbena::store {

enum class Code : uint8_t {
  kNotFound,     // no such object
  kExists,       // the id or name is in use
  kInvalid,      // invalid arguments
  kFull,         // no space; works again when space is freed
  kNoMemory,     // of the process
  kDamaged,      // a checksum or a birth does not match: see `damage`
  kConflict,     // another client has registered the range
  kReadOnly,     // opened read-only, or a sync has failed
  kInUse,        // another process owns the store
  kVersion,      // a format version that this program does not support
  kNoStore,      // there is no store
  kIo,           // the medium failed
  kUnsupported,  // this kind of store does not offer it
  kUnreachable,  // the server cannot be reached, or did not answer in time
  kLogFull,      // only within the engine: a checkpoint is needed first
  kBehind,       // of a cache: these parts are not here, but behind it; see `behind`
};

using verbena::ObjectId;
using verbena::text_of;

// The place of a damage, the expected and the actual value.
struct Damage {
  ObjectId object;      // 0:0 for the log and the superblocks
  uint64_t offset = 0;  // in the object, in bytes
  uint64_t chunk = 0;   // its number in the store
  std::string field;    // "data CRC", "chunk CRC", "transaction", "object", ...
  std::string expected;
  std::string actual;
};

// Of a whole file: `field` is "file PATH".
[[nodiscard]] inline bool is_file(const Damage& damage) {
  return damage.field.starts_with("file ");
}

// Parts of an object, of kDataBytes each.
struct Parts {
  ObjectId object;
  uint64_t first = 0;
  uint64_t count = 0;
};

struct Error {
  Code code = Code::kIo;
  std::string what;  // a sentence for people
  Damage damage{};   // where code is kDamaged
  Parts behind{};    // where code is kBehind
};
template <typename T>
using Result = verbena::Result<T, Error>;

[[nodiscard]] const char* name_of(Code code);  // "full", "read-only", ...: for scripts

}  // namespace verbena::store
