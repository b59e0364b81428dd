// SPDX-License-Identifier: Apache-2.0
#include "protocol/siphash.h"

#include <bit>

#include "base/little_endian.h"

namespace verbena::protocol {

SipHash::SipHash(const SipKey& key) {
  const uint64_t k0 = load_le64(key.data());
  const uint64_t k1 = load_le64(key.data() + 8);
  v_ = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
        k1 ^ 0x7465646279746573};
}

void SipHash::rounds(int count) {
  auto& [a, b, c, d] = v_;
  for (; count > 0; --count) {
    a += b, b = std::rotl(b, 13) ^ a, a = std::rotl(a, 32);
    c += d, d = std::rotl(d, 16) ^ c;
    a += d, d = std::rotl(d, 21) ^ a;
    c += b, b = std::rotl(b, 17) ^ c, c = std::rotl(c, 32);
  }
}

void SipHash::word(uint64_t value) {
  v_[3] ^= value;
  rounds(2);
  v_[0] ^= value;
}

void SipHash::update(std::span<const uint8_t> bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    const unsigned held = length_ % 8;
    if (held == 0 && bytes.size() - at >= 8) {
      word(load_le64(bytes.data() + at));
      at += 8;
      length_ += 8;
      continue;
    }
    pending_ |= uint64_t{bytes[at++]} << (8 * held);
    if (++length_ % 8 == 0) {
      word(pending_);
      pending_ = 0;
    }
  }
}

uint64_t SipHash::finish() {
  word(pending_ | length_ << 56);
  v_[2] ^= 0xff;
  rounds(4);
  return v_[0] ^ v_[1] ^ v_[2] ^ v_[3];
}

}  // namespace verbena::protocol
