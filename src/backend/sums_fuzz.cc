// SPDX-License-Identifier: Apache-2.0
// Any 4096 bytes as the first page of sums, with their own check or, if the first byte of the input
// says so, with the right one. What decodes encodes to the same bytes. Then any text as a path:
// what has a name is the path of this name, and no path leads out of the directory.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "backend/object_path.h"
#include "backend/sums.h"
#include "base/check.h"
#include "store/record.h"

namespace verbena::backend {
namespace {

void take_page(const uint8_t* data, size_t size, bool sealed) {
  SumsPage page{};
  std::memcpy(page.data(), data, std::min(size, page.size()));
  if (sealed) seal(page, 0);
  const auto head = decode_sums_head(page);
  if (!head) {
    VERBENA_CHECK(name_of(head.error()) != std::string_view("unknown"));
    VERBENA_CHECK((head.error() == SumsFault::kCheck) == !is_sealed(page, 0));
    return;
  }
  SumsPage again = page;
  encode(*head, again);
  seal(again, 0);
  VERBENA_CHECK(again == page);
}

void check_inside(std::string_view path) {
  while (true) {
    const size_t end = path.find('/');
    const std::string_view part = path.substr(0, end);
    VERBENA_CHECK(!part.empty() && part != "." && part != ".." && part.size() <= 255);
    if (end == std::string_view::npos) return;
    path.remove_prefix(end + 1);
  }
}

void take_name(std::string_view text) {
  if (const auto name = name_of_escaped(text)) VERBENA_CHECK(escaped_path(*name) == text);
  if (const auto id = id_of_path(text)) VERBENA_CHECK(id_path(*id) == text);
  if (text.empty() || !store::good_name(text)) return;
  if (const auto plain = plain_path(text)) {
    VERBENA_CHECK(*plain == text && !text.starts_with(kReserved));
    check_inside(*plain);
  }
  const std::string escaped = escaped_path(text);
  check_inside(escaped);
  VERBENA_CHECK(name_of_escaped(escaped) == text);
}

}  // namespace
}  // namespace verbena::backend

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  verbena::backend::take_page(data + 1, size - 1, data[0] % 2 == 1);
  verbena::backend::take_name({reinterpret_cast<const char*>(data + 1), size - 1});
  return 0;
}
