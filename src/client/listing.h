// SPDX-License-Identifier: Apache-2.0
// What takes several requests one after the other: long lists, and CRCs of long ranges. The client
// outlives them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/client.h"

namespace verbena::client {

struct ListOptions {
  std::string prefix{};               // only names that begin with it
  std::optional<ObjectInfo> after{};  // name and id: only what is behind
  uint64_t limit = 0;                 // objects; 0: all
};
// In order of name, then id. Objects of puts that are under way are left out. Page::more: the limit
// was reached, and there may be more.
void list_objects(Client& client, ListOptions options, Then<Page> done);
[[nodiscard]] Result<Page> list_objects(Client& client, const ListOptions& options);

// Of a range, which may end behind the object (length 0: at its end); of how many bytes it is.
void range_crc(Client& client, const ObjectRef& object, uint64_t offset, uint64_t length,
               Then<StoredCrc> done);
[[nodiscard]] Result<StoredCrc> range_crc(Client& client, const ObjectRef& object, uint64_t offset,
                                          uint64_t length);

}  // namespace verbena::client
