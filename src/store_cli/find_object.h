// SPDX-License-Identifier: Apache-2.0
// An object as the user calls it, looked for in a store.
#pragma once

#include <optional>
#include <string>

#include "store/objects.h"
#include "store_cli/object_name.h"
#include "store_cli/report.h"

namespace verbena::store_cli {

// The object of this name or id; an error goes to `report`.
[[nodiscard]] std::optional<store::ObjectInfo> find_object(const store::Objects& store,
                                                           const std::string& text, Report& report);
// The same without one, for objects that may be missing; nothing and an error are apart.
[[nodiscard]] store::Result<std::optional<store::ObjectInfo>> look_up(const store::Objects& store,
                                                                      const ObjectName& object);

}  // namespace verbena::store_cli
