// SPDX-License-Identifier: Apache-2.0
// Any bytes as what a peer says first on its control connection: what decodes encodes to the same.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "fabric/ofi_greeting.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbena::fabric;
  const std::vector<uint8_t> all(data, data + size);
  std::vector<uint8_t> left = all;
  const auto greeting = take_greeting(left);
  if (!greeting) {
    VERBENA_CHECK(!greeting.error().empty());
    return 0;
  }
  if (!*greeting) {
    VERBENA_CHECK(left == all);
    return 0;
  }
  const std::vector<uint8_t> again = encode(**greeting);
  VERBENA_CHECK(again.size() + left.size() == all.size());
  VERBENA_CHECK(std::ranges::equal(again, std::span(all).first(again.size())));
  VERBENA_CHECK(std::ranges::equal(left, std::span(all).subspan(again.size())));
  return 0;
}
