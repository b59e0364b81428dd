// SPDX-License-Identifier: Apache-2.0
#include "session/secret.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/check.h"

namespace verbena::session {
namespace {

using Bytes = std::vector<uint8_t>;

[[nodiscard]] protocol::Mac hmac(const Secret& secret, std::string_view label,
                                 std::initializer_list<std::span<const uint8_t>> pieces) {
  Bytes message(label.begin(), label.end());
  message.push_back(0);
  for (const auto& piece : pieces) message.insert(message.end(), piece.begin(), piece.end());
  protocol::Mac mac{};
  unsigned length = 0;
  const uint8_t* made = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                             message.data(), message.size(), mac.data(), &length);
  VERBENA_CHECK(made != nullptr && length == mac.size());
  return mac;
}

// Type and fields, without the MAC.
[[nodiscard]] Bytes signed_part(const protocol::Welcome& welcome) {
  Bytes room(protocol::kMaxFrameBytes);
  protocol::FieldWriter writer(room);
  writer(protocol::Welcome::kType);
  protocol::Welcome::signed_fields(welcome, writer);
  VERBENA_CHECK(writer.ok());
  room.resize(writer.used());
  return room;
}

}  // namespace

protocol::Mac client_mac(const Secret& secret, const Transcript& transcript) {
  return hmac(secret, "verbena 1 client proof", {transcript.hello, transcript.challenge});
}

protocol::Mac server_mac(const Secret& secret, const Transcript& transcript,
                         const protocol::Welcome& welcome) {
  return hmac(secret, "verbena 1 server proof",
              {transcript.hello, transcript.challenge, transcript.proof, signed_part(welcome)});
}

protocol::SipKey session_key(const Secret& secret, const Transcript& transcript,
                             const protocol::Welcome& welcome) {
  const protocol::Mac mac = hmac(secret, "verbena 1 session key",
                                 {transcript.hello, transcript.challenge, signed_part(welcome)});
  protocol::SipKey key;
  std::copy_n(mac.begin(), key.size(), key.begin());
  return key;
}

bool same_mac(const protocol::Mac& one, const protocol::Mac& other) {
  return CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace verbena::session
