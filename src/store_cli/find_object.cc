// SPDX-License-Identifier: Apache-2.0
#include "store_cli/find_object.h"

namespace verbena::store_cli {

store::Result<std::optional<store::ObjectInfo>> look_up(const store::Objects& store,
                                                        const ObjectName& object) {
  store::ObjectId id;
  if (const auto* const name = std::get_if<std::string>(&object)) {
    const auto found = store.find(*name);
    if (!found && found.error().code == store::Code::kNotFound) return std::nullopt;
    if (!found) return fail(found.error());
    id = *found;
  } else {
    id = std::get<store::ObjectId>(object);
  }
  auto info = store.stat(id);
  if (!info && info.error().code == store::Code::kNotFound) return std::nullopt;
  if (!info) return fail(info.error());
  return std::move(*info);
}

std::optional<store::ObjectInfo> find_object(const store::Objects& store, const std::string& text,
                                             Report& report) {
  const auto object = parse_object(text);
  if (!object) {
    report.error(kUsage, "invalid", object.error());
    return std::nullopt;
  }
  auto info = look_up(store, *object);
  if (!info) {
    report.error(info.error(), text);
    return std::nullopt;
  }
  if (!info->has_value()) {
    report.error({store::Code::kNotFound, "no such object", {}}, text);
  }
  return std::move(*info);
}

}  // namespace verbena::store_cli
