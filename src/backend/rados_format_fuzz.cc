// SPDX-License-Identifier: Apache-2.0
// Any bytes as a head, with their own CRC or with the right one, as a table of a stripe, and as the
// name of one. What decodes encodes to the same bytes.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "backend/rados_format.h"
#include "base/check.h"
#include "base/endian.h"
#include "store/crc_parts.h"

namespace verbena::backend {
namespace {

void take_head(std::string value, bool right) {
  if (right && value.size() >= 4) {
    auto* const p = reinterpret_cast<uint8_t*>(value.data());
    store_be32(p + value.size() - 4, store::crc_of({p, value.size() - 4}));
  }
  const auto head = decode_rados_head(value);
  if (head) VERBENA_CHECK(encode(*head) == value);
}

void take_table(const uint8_t* data, size_t size, bool right) {
  std::array<uint8_t, kStripeTableBytes> bytes{};
  std::memcpy(bytes.data(), data, std::min(size, bytes.size()));
  if (right) {
    store_be32(bytes.data() + bytes.size() - 4,
               store::crc_of(std::span(bytes).first(bytes.size() - 4)));
  }
  const StripeName name{std::string(32, '0'), load_be64(bytes.data() + 24),
                        load_be64(bytes.data() + 32)};
  const auto table = decode_stripe_table(bytes, name);
  if (!table) return;
  std::array<uint8_t, kStripeTableBytes> again{};
  encode(*table, name, again);
  VERBENA_CHECK(again == bytes);
}

}  // namespace
}  // namespace verbena::backend

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool right = data[0] % 2 == 1;
  const std::string text(data + 1, data + size);
  verbena::backend::take_head(text, right);
  verbena::backend::take_table(data + 1, size - 1, right);
  if (const auto name = verbena::backend::parse_stripe_name(text)) {
    VERBENA_CHECK(verbena::backend::text_of(*name) == text);
  }
  return 0;
}
