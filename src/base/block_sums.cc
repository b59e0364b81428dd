// SPDX-License-Identifier: Apache-2.0
#include "base/block_sums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <isa-l/crc.h>

#include "base/checksum_arm64.h"
#include "base/endian.h"

namespace verbena {
namespace {

using Bytes = std::span<const uint8_t>;

// Copies in pieces and sums each copy while it is in the first-level cache.
template <typename State, typename Update>
State copy_and_sum(State state, uint8_t* to, Bytes bytes, Update update) {
  constexpr size_t kPiece = 2048;
  while (!bytes.empty()) {
    const size_t length = std::min(bytes.size(), kPiece);
    std::memcpy(to, bytes.data(), length);
    state = update(state, Bytes(to, length));
    to += length;
    bytes = bytes.subspan(length);
  }
  return state;
}

// kCrc64Tables[i][b]: what byte b, followed by i zero bytes, does to the state.
constexpr auto kCrc64Tables = [] {
  std::array<std::array<uint64_t, 256>, 8> tables{};
  for (size_t byte = 0; byte < 256; ++byte) {
    uint64_t state = byte;
    for (auto& table : tables) {
      for (int bit = 0; bit < 8; ++bit) state = CrcAlgebra<kCrc64Polynomial>::times_x(state);
      table[byte] = state;
    }
  }
  return tables;
}();

// In words of 32 bits, as good as of 16: the upper half is folded onto the lower in the end.
uint64_t sum_words(Bytes bytes) {
  uint64_t sum = 0;
  const auto add = [&](const uint8_t* p) {
    const uint64_t words = load_be64(p);
    sum += (words >> 32) + (words & 0xffffffff);
  };
  const uint8_t* p = bytes.data();
  size_t left = bytes.size();
#pragma GCC unroll 4
  for (; left >= 8; left -= 8, p += 8) add(p);
  uint8_t last[8] = {};
  if (left > 0) std::memcpy(last, p, left);
  add(last);
  return sum;
}

uint32_t fold16(uint64_t sum) {
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint32_t>(sum);
}

}  // namespace

uint32_t crc32_msb_update(uint32_t state, Bytes bytes) {
  if (kArm64 && has_crc32_arm64()) {
    return crc32_msb_update_arm64(state, bytes.data(), bytes.size());
  }
  if (bytes.empty()) return state;  // ISA-L may be handed no null pointer
  return ~crc32_ieee(~state, bytes.data(), bytes.size());
}

uint32_t crc32_msb_copy(uint32_t state, uint8_t* to, Bytes bytes) {
  if (kArm64 && has_crc32_arm64()) {
    return crc32_msb_copy_arm64(state, to, bytes.data(), bytes.size());
  }
  return copy_and_sum(state, to, bytes, crc32_msb_update);
}

uint32_t crc32c_update(uint32_t state, Bytes bytes) {
  if (kArm64 && has_crc32_arm64()) {
    return crc32c_update_arm64(state, bytes.data(), bytes.size());
  }
  constexpr size_t kMost = size_t{1} << 30;  // ISA-L takes an int
  while (!bytes.empty()) {
    const Bytes piece = bytes.first(std::min(bytes.size(), kMost));
    state = crc32_iscsi(const_cast<uint8_t*>(piece.data()), static_cast<int>(piece.size()), state);
    bytes = bytes.subspan(piece.size());
  }
  return state;
}

uint32_t crc32c_copy(uint32_t state, uint8_t* to, Bytes bytes) {
  if (kArm64 && has_crc32_arm64()) {
    return crc32c_copy_arm64(state, to, bytes.data(), bytes.size());
  }
  return copy_and_sum(state, to, bytes, crc32c_update);
}

uint64_t crc64_update(uint64_t state, Bytes bytes) {
  if (kArm64 && has_crc32_arm64()) {
    return crc64_update_arm64(state, bytes.data(), bytes.size());
  }
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    const uint64_t word = std::byteswap(load_be64(bytes.data())) ^ state;  // little-endian
    state = 0;
    for (size_t i = 0; i < 8; ++i) state ^= kCrc64Tables[7 - i][(word >> (8 * i)) & 0xff];
  }
  for (const uint8_t byte : bytes) {
    state = (state >> 8) ^ kCrc64Tables[0][(state ^ byte) & 0xff];
  }
  return state;
}

uint64_t crc64_copy(uint64_t state, uint8_t* to, Bytes bytes) {
  if (kArm64 && has_crc32_arm64()) {
    return crc64_copy_arm64(state, to, bytes.data(), bytes.size());
  }
  return copy_and_sum(state, to, bytes, crc64_update);
}

uint16_t crc16_t10_update(uint16_t state, Bytes bytes) {
  if (kArm64 && has_crc32_arm64()) {
    return crc16_t10_update_arm64(state, bytes.data(), bytes.size());
  }
  if (bytes.empty()) return state;
  return crc16_t10dif(state, bytes.data(), bytes.size());
}

uint16_t crc16_t10_copy(uint16_t state, uint8_t* to, Bytes bytes) {
  if (kArm64 && has_crc32_arm64()) {
    return crc16_t10_copy_arm64(state, to, bytes.data(), bytes.size());
  }
  return copy_and_sum(state, to, bytes, crc16_t10_update);
}

InternetSum internet_sum_update(InternetSum state, Bytes bytes) {
  if (bytes.empty()) return state;
  uint64_t sum = state.sum;
  if (state.odd) {
    sum += bytes.front();
    bytes = bytes.subspan(1);
  }
  return {fold16(sum + sum_words(bytes)), bytes.size() % 2 != 0};
}

InternetSum internet_sum_copy(InternetSum state, uint8_t* to, Bytes bytes) {
  return copy_and_sum(state, to, bytes, internet_sum_update);
}

}  // namespace verbena
