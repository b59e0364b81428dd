// SPDX-License-Identifier: Apache-2.0
#include "store_cli/object_name.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "store/drafts.h"
#include "store/record.h"

namespace verbena::store_cli {
namespace {

enum class NumberKind : uint8_t { kNone, kTooLarge, kNumber };
struct Number {
  NumberKind kind = NumberKind::kNone;
  uint64_t value = 0;
};

[[nodiscard]] Number number_in(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  if (hexadecimal) text.remove_prefix(2);
  Number number;
  const auto [after, error] =
      std::from_chars(text.data(), text.data() + text.size(), number.value, hexadecimal ? 16 : 10);
  if (after != text.data() + text.size() || text.empty() || text.front() == '-') return {};
  number.kind = error == std::errc{} ? NumberKind::kNumber : NumberKind::kTooLarge;
  return number;
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr size_t kLongest = 4;  // bytes of a character
  std::string out;
  while (!text.empty()) {
    size_t bytes = 1;
    while (bytes <= kLongest && !store::good_name(text.substr(0, bytes))) ++bytes;
    if (bytes <= kLongest) {
      out += text.substr(0, bytes);
      text.remove_prefix(std::min(bytes, text.size()));
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
      text.remove_prefix(1);
    }
  }
  return out;
}

Result<std::string, std::string> parse_name(std::string_view text) {
  const auto object = parse_object(text);
  if (!object) return fail(object.error());
  if (std::holds_alternative<store::ObjectId>(*object)) {
    return fail(fmt::format("invalid object name '{}': it has the form of an id", text));
  }
  return std::string(text);
}

Result<ObjectName, std::string> parse_object(std::string_view text) {
  if (text.empty()) return fail(std::string("invalid object name: it is empty"));
  const size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    const Number high = number_in(text.substr(0, colon));
    const Number low = number_in(text.substr(colon + 1));
    if (high.kind != NumberKind::kNone && low.kind != NumberKind::kNone) {
      if (high.kind == NumberKind::kTooLarge || low.kind == NumberKind::kTooLarge) {
        return fail(fmt::format("invalid object id '{}': each number has at most 64 bits", text));
      }
      const store::ObjectId id{high.value, low.value};
      if (id == store::ObjectId{}) return fail(std::string("invalid object id 0:0"));
      if (store::is_draft(id)) {
        return fail(fmt::format("invalid object id '{}': reserved for a put in progress", text));
      }
      return id;
    }
  }
  if (text.size() > store::kMaxNameBytes) {
    return fail(fmt::format("invalid object name: it has {} bytes, the maximum is {}", text.size(),
                            store::kMaxNameBytes));
  }
  if (!store::good_name(text)) {
    return fail(fmt::format("invalid object name '{}': not UTF-8, or contains control characters",
                            printable(text)));
  }
  return std::string(text);
}

}  // namespace verbena::store_cli
