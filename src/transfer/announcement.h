// SPDX-License-Identifier: Apache-2.0
// What our ends put into the private data of the connection, so that each knows that the other is
// one of ours. Other programs put nothing there, or something else: they get plain mode. Private
// data arrives padded with zeros, so its length says nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "protocol/side_channel.h"

namespace verbena::transfer {

inline constexpr uint16_t kVersion = 1;

// Of the sender, in its request to connect: 46 of the 56 bytes that there are.
struct Greeting {
  uint16_t min_version = kVersion;
  uint16_t max_version = kVersion;
  bool has_secret = false;
  protocol::Nonce nonce{};
  bool operator==(const Greeting&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.min_version, self.max_version, self.has_secret, self.nonce);
  }
};
// Of the receiver, when it accepts.
struct Welcome {
  uint16_t version = kVersion;
  bool has_secret = false;
  protocol::Nonce nonce{};
  protocol::Mac mac{};  // with a shared secret: over both
  bool operator==(const Welcome&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.version, self.has_secret, self.nonce, self.mac);
  }
};

[[nodiscard]] std::vector<uint8_t> encode(const Greeting& greeting);
[[nodiscard]] std::vector<uint8_t> encode(const Welcome& welcome);
// nullopt: not one of ours.
[[nodiscard]] std::optional<Greeting> decode_greeting(std::span<const uint8_t> data);
[[nodiscard]] std::optional<Welcome> decode_welcome(std::span<const uint8_t> data);

// Each proves to the other that it has the secret, over the nonces of both.
[[nodiscard]] protocol::Mac receiver_mac(const std::string& secret, const Greeting& greeting,
                                         const Welcome& welcome);
[[nodiscard]] protocol::Mac sender_mac(const std::string& secret, const Greeting& greeting,
                                       const Welcome& welcome);

}  // namespace verbena::transfer
