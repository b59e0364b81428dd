// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_greeting.h"

#include "base/check.h"
#include "base/endian.h"

namespace verbena::fabric {
namespace {

constexpr uint32_t kGreetingMagic = 0x56524f46;  // "VROF"
constexpr uint8_t kGreetingVersion = 1;
constexpr size_t kHeadBytes = 8;  // up to the length, which does not count them
constexpr size_t kFixedBytes = 12;

void append_text(std::vector<uint8_t>& to, std::span<const uint8_t> text) {
  to.push_back(static_cast<uint8_t>(text.size() >> 8));
  to.push_back(static_cast<uint8_t>(text.size()));
  to.insert(to.end(), text.begin(), text.end());
}

// Nothing: there are fewer bytes than it says.
std::optional<std::span<const uint8_t>> take_text(std::span<const uint8_t>& from) {
  if (from.size() < 2) return std::nullopt;
  const size_t length = load_be16(from.data());
  if (from.size() - 2 < length) return std::nullopt;
  const auto text = from.subspan(2, length);
  from = from.subspan(2 + length);
  return text;
}

}  // namespace

std::vector<uint8_t> encode(const Greeting& greeting) {
  std::vector<uint8_t> bytes(kHeadBytes + kFixedBytes);
  store_be32(bytes.data(), kGreetingMagic);
  bytes[4] = kGreetingVersion;
  bytes[5] = static_cast<uint8_t>(greeting.kind);
  store_be64(bytes.data() + 8, greeting.nonce);
  store_be32(bytes.data() + 16, greeting.format);
  append_text(bytes, {reinterpret_cast<const uint8_t*>(greeting.provider.data()),
                      greeting.provider.size()});
  append_text(bytes, greeting.address);
  append_text(bytes, greeting.data);
  VERBENA_CHECK(bytes.size() <= Greeting::kMaxBytes);
  store_be16(bytes.data() + 6, static_cast<uint16_t>(bytes.size() - kHeadBytes));
  return bytes;
}

Result<std::optional<Greeting>> take_greeting(std::vector<uint8_t>& bytes) {
  if (bytes.size() < kHeadBytes) return std::nullopt;
  const auto not_one = [] { return fail(std::string("the peer does not speak this protocol")); };
  if (load_be32(bytes.data()) != kGreetingMagic) return not_one();
  if (bytes[4] != kGreetingVersion)
    return fail(std::string("the peer has another version of the fabric"));
  const uint8_t kind = bytes[5];
  const size_t length = load_be16(bytes.data() + 6);
  if (kind < 1 || kind > 3 || length < kFixedBytes || kHeadBytes + length > Greeting::kMaxBytes) {
    return not_one();
  }
  if (bytes.size() < kHeadBytes + length) return std::nullopt;
  Greeting greeting{.kind = static_cast<Greeting::Kind>(kind)};
  greeting.nonce = load_be64(bytes.data() + 8);
  greeting.format = load_be32(bytes.data() + 16);
  std::span<const uint8_t> rest =
      std::span(bytes).subspan(kHeadBytes + kFixedBytes, length - kFixedBytes);
  const auto provider = take_text(rest);
  const auto address = provider ? take_text(rest) : std::nullopt;
  const auto data = address ? take_text(rest) : std::nullopt;
  if (!data || !rest.empty()) return not_one();
  greeting.provider.assign(provider->begin(), provider->end());
  greeting.address.assign(address->begin(), address->end());
  greeting.data.assign(data->begin(), data->end());
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(kHeadBytes + length));
  return greeting;
}

}  // namespace verbena::fabric
