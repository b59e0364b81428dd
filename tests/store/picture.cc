// SPDX-License-Identifier: Apache-2.0
#include "picture.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "model.h"

namespace verbena::store::trial {

std::expected<Picture, std::string> picture_of(const Store& store) {
  Picture picture;
  std::vector<uint8_t> bytes;
  const auto listed = store.list({}, SIZE_MAX);
  for (const ObjectInfo& info : *listed) {
    bytes.resize(info.size);
    const auto got = store.read(info.id, 0, bytes);
    if (!got.has_value()) {
      return std::unexpected("object " + text(info.id) + ": " + got.error().what);
    }
    if (*got != info.size) {
      return std::unexpected("object " + text(info.id) + " of " + std::to_string(info.size) +
                             " bytes gives only " + std::to_string(*got));
    }
    const auto hash =
        std::hash<std::string_view>{}({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    picture.push_back({.id = info.id,
                       .name = info.name,
                       .number = info.number,
                       .size = info.size,
                       .chunks = info.chunks,
                       .created_ns = info.created_ns,
                       .modified_ns = info.modified_ns,
                       .hash = hash});
  }
  return picture;
}

std::string difference(const Picture& expected, const Picture& actual) {
  for (size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
    const Seen& e = expected[i];
    const Seen& a = actual[i];
    if (e == a) continue;
    if (e.id != a.id) return "object " + text(a.id) + " where " + text(e.id) + " should be";
    const std::string head = "object " + text(e.id) + " has another ";
    if (e.name != a.name) return head + "name: '" + a.name + "', not '" + e.name + "'";
    const auto number = [&head](const char* what, uint64_t is, uint64_t should) {
      return head + what + ": " + std::to_string(is) + ", not " + std::to_string(should);
    };
    if (e.size != a.size) return number("size", a.size, e.size);
    if (e.hash != a.hash) return head + "content";
    if (e.chunks != a.chunks) return number("number of chunks", a.chunks, e.chunks);
    if (e.number != a.number) return number("internal number", a.number, e.number);
    if (e.created_ns != a.created_ns) return number("birthday", a.created_ns, e.created_ns);
    return number("time of change", a.modified_ns, e.modified_ns);
  }
  if (expected.size() == actual.size()) return {};
  return expected.size() > actual.size()
             ? "object " + text(expected[actual.size()].id) + " is missing"
             : "object " + text(actual[expected.size()].id) + " should not be there";
}

}  // namespace verbena::store::trial
