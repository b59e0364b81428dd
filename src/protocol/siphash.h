// SPDX-License-Identifier: Apache-2.0
// SipHash-2-4 (Aumasson, Bernstein): a keyed hash of short messages, 64 bits. Whoever does not have
// the key cannot make the hash of a new message.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::protocol {

using SipKey = std::array<uint8_t, 16>;

// Fed in pieces of any lengths.
class SipHash {
 public:
  explicit SipHash(const SipKey& key);
  void update(std::span<const uint8_t> bytes);
  [[nodiscard]] uint64_t finish();

 private:
  void rounds(int count);
  void word(uint64_t value);

  std::array<uint64_t, 4> v_;
  uint64_t pending_ = 0;  // the last length_ % 8 bytes, the first of them lowest
  uint64_t length_ = 0;
};

}  // namespace verbena::protocol
