// SPDX-License-Identifier: Apache-2.0
#include "transfer/announcement.h"

#include <array>
#include <string_view>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/check.h"

namespace verbena::transfer {
namespace {

constexpr uint64_t kGreetingMagic = 0x56524246494c4531;  // "VRBFILE1"
constexpr uint64_t kWelcomeMagic = 0x56524246494c4532;

template <typename T>
std::vector<uint8_t> encode_with(uint64_t magic, const T& value) {
  std::vector<uint8_t> bytes(128);
  protocol::FieldWriter writer(bytes);
  writer(magic);
  T::fields(value, writer);
  VERBENA_CHECK(writer.ok());
  bytes.resize(writer.used());
  return bytes;
}

template <typename T>
std::optional<T> decode_with(uint64_t magic, std::span<const uint8_t> data) {
  protocol::FieldReader reader(data);
  uint64_t found = 0;
  T value;
  reader(found);
  T::fields(value, reader);
  if (!reader.ok() || found != magic) return std::nullopt;
  return value;
}

protocol::Mac mac_of(const std::string& secret, std::string_view label, const Greeting& greeting,
                     Welcome welcome) {
  welcome.mac = {};
  std::vector<uint8_t> message(label.begin(), label.end());
  message.push_back(0);
  for (const auto& part : {encode(greeting), encode(welcome)}) {
    message.insert(message.end(), part.begin(), part.end());
  }
  protocol::Mac mac{};
  unsigned length = 0;
  const uint8_t* const made = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                                   message.data(), message.size(), mac.data(), &length);
  VERBENA_CHECK(made != nullptr && length == mac.size());
  return mac;
}

}  // namespace

std::vector<uint8_t> encode(const Greeting& greeting) {
  return encode_with(kGreetingMagic, greeting);
}
std::vector<uint8_t> encode(const Welcome& welcome) { return encode_with(kWelcomeMagic, welcome); }

std::optional<Greeting> decode_greeting(std::span<const uint8_t> data) {
  auto greeting = decode_with<Greeting>(kGreetingMagic, data);
  if (greeting && greeting->min_version > greeting->max_version) return std::nullopt;
  return greeting;
}
std::optional<Welcome> decode_welcome(std::span<const uint8_t> data) {
  return decode_with<Welcome>(kWelcomeMagic, data);
}

protocol::Mac receiver_mac(const std::string& secret, const Greeting& greeting,
                           const Welcome& welcome) {
  return mac_of(secret, "verbena file transfer 1 receiver", greeting, welcome);
}
protocol::Mac sender_mac(const std::string& secret, const Greeting& greeting,
                         const Welcome& welcome) {
  return mac_of(secret, "verbena file transfer 1 sender", greeting, welcome);
}

}  // namespace verbena::transfer
