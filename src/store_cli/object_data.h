// SPDX-License-Identifier: Apache-2.0
// Where an object has data and where it has holes, and the CRC of all of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "store/objects.h"

namespace verbena::store_cli {

// Calls take(object) for all objects whose names have this prefix, in order of their names; with ""
// also those without a name, first. Unfinished puts are left out. Ends when it answers false. Where
// parts of the index are lost, the others are taken, and then it fails with what may be missing.
[[nodiscard]] store::Result<void> each_object(
    const store::Objects& store, const std::string& prefix,
    const std::function<bool(const store::ObjectInfo&)>& take);
// The same from behind `after` on.
[[nodiscard]] store::Result<void> each_object(
    const store::Objects& store, const std::string& prefix, std::optional<store::Cursor> after,
    const std::function<bool(const store::ObjectInfo&)>& take);

struct DataRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};
// The first data at `at` or behind, up to the next hole or `end`; empty, at `end`, if there is
// none. All of it is data where a store does not tell.
[[nodiscard]] store::Result<DataRange> next_data(const store::Objects& store,
                                                 const store::ObjectInfo& object, uint64_t at,
                                                 uint64_t end);

// CRC-32/BZIP2 of an object's bytes, combined from the stored CRCs of its chunks; holes are zeros.
// It does not read the data, and says what was written; unless the store does not tell: then it
// reads and verifies them. `go_on` is called with the bytes
// that are done; false stops with kInvalid.
[[nodiscard]] store::Result<uint32_t> object_crc(const store::Objects& store,
                                                 const store::ObjectInfo& object,
                                                 const std::function<bool(uint64_t)>& go_on);

}  // namespace verbena::store_cli
