// SPDX-License-Identifier: Apache-2.0
// Any bytes as a message, first as they are, then with the head CRC put right wherever it may be.
// What decodes encodes to the same bytes, under a key and under a secret; under a secret, no byte
// outside the user data can be changed.
#include <algorithm>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/endian.h"
#include "protocol/messages.h"
#include "protocol/testing.h"

namespace verbena::protocol {
namespace {

constexpr size_t kMaxRepairBytes = 600;  // it tries every place

[[nodiscard]] Seal seal_of(std::span<const uint8_t> message) {
  return Seal::with_key(message.size() < kHeaderBytes ? 0
                                                      : load_be64(message.data() + kWordOffset));
}

void under_secret(const auto& any, const Address& address, size_t size, const auto& decode_again) {
  std::vector<uint8_t> message(size);
  const Seal seal = Seal::with_secret(testing::kSecret);
  VERBENA_CHECK(encode(any, address, seal, message) == size);
  VERBENA_CHECK(decode_again(message, seal).has_value());
  message[size % kHeaderBytes] ^= 1;
  VERBENA_CHECK(!decode_again(message, seal).has_value());
}

// Whether the head CRC is what was wrong.
bool take(std::span<const uint8_t> message, const auto& decode_any) {
  const Seal seal = seal_of(message);
  const auto decoded = decode_any(message, seal);
  if (!decoded) {
    VERBENA_CHECK(text_of(decoded.error()) != std::string_view("unknown"));
    return decoded.error() == Fault::kHeadCrc;
  }
  const auto header = decode_header(message);
  const Address address{.fabric = header->fabric, .session = header->session};
  std::vector<uint8_t> again(message.size());
  VERBENA_CHECK(encode(*decoded, address, seal, again) == message.size());
  VERBENA_CHECK(std::ranges::equal(again, message));
  under_secret(*decoded, address, message.size(), decode_any);
  return false;
}

void take_repaired(std::span<const uint8_t> bytes, const auto& decode_any) {
  if (!take(bytes, decode_any) || bytes.size() > kMaxRepairBytes) return;
  for (size_t at = kHeaderBytes; at + kCrcBytes <= bytes.size(); ++at) {
    std::vector<uint8_t> message(bytes.begin(), bytes.end());
    store_be32(message.data() + at, head_crc_of({.message = message, .head_end = at}));
    if (!take(message, decode_any)) return;
  }
}

}  // namespace
}  // namespace verbena::protocol

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbena::protocol;
  const std::span<const uint8_t> bytes(data, size);
  take_repaired(bytes,
                [](auto message, const Seal& seal) { return decode_request(message, seal); });
  take_repaired(bytes,
                [](auto message, const Seal& seal) { return decode_response(message, seal); });
  (void)decode_unknown(bytes, Seal::with_key(0));
  (void)decode<ConnectInit>(bytes, Seal::with_key(0));
  return 0;
}
