// SPDX-License-Identifier: Apache-2.0
#include "base/block_sums.h"

#include <algorithm>
#include <cstring>

#include "base/checksum_arm64.h"
#include "base/checksum_portable.h"
#include "base/checksum_x86.h"
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

constexpr uint64_t kCrc16T10Polynomial = 0xedd1;  // 0x8bb7 reflected

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
  if (kX86 && has_clmul_x86()) {
    return crc32_msb_update_x86(state, bytes.data(), bytes.size());
  }
  return reverse_bits(
      static_cast<uint32_t>(CrcTables<kCrc32Polynomial>::msb_first(reverse_bits(state), bytes)));
}

uint32_t crc32_msb_copy(uint32_t state, uint8_t* to, Bytes bytes) {
  if (kArm64 && has_crc32_arm64()) {
    return crc32_msb_copy_arm64(state, to, bytes.data(), bytes.size());
  }
  if (kX86 && has_clmul_x86()) {
    return crc32_msb_copy_x86(state, to, bytes.data(), bytes.size());
  }
  return copy_and_sum(state, to, bytes, crc32_msb_update);
}

uint32_t crc32c_update(uint32_t state, Bytes bytes) {
  if (kArm64 && has_crc32_arm64()) {
    return crc32c_update_arm64(state, bytes.data(), bytes.size());
  }
  if (kX86 && has_clmul_x86()) {
    return crc32c_update_x86(state, bytes.data(), bytes.size());
  }
  return static_cast<uint32_t>(CrcTables<kCrc32cPolynomial>::lsb_first(state, bytes));
}

uint32_t crc32c_copy(uint32_t state, uint8_t* to, Bytes bytes) {
  if (kArm64 && has_crc32_arm64()) {
    return crc32c_copy_arm64(state, to, bytes.data(), bytes.size());
  }
  if (kX86 && has_clmul_x86()) {
    return crc32c_copy_x86(state, to, bytes.data(), bytes.size());
  }
  return copy_and_sum(state, to, bytes, crc32c_update);
}

uint64_t crc64_update(uint64_t state, Bytes bytes) {
  if (kArm64 && has_crc32_arm64()) {
    return crc64_update_arm64(state, bytes.data(), bytes.size());
  }
  if (kX86 && has_clmul_x86()) {
    return crc64_update_x86(state, bytes.data(), bytes.size());
  }
  return CrcTables<kCrc64Polynomial>::lsb_first(state, bytes);
}

uint64_t crc64_copy(uint64_t state, uint8_t* to, Bytes bytes) {
  if (kArm64 && has_crc32_arm64()) {
    return crc64_copy_arm64(state, to, bytes.data(), bytes.size());
  }
  if (kX86 && has_clmul_x86()) {
    return crc64_copy_x86(state, to, bytes.data(), bytes.size());
  }
  return copy_and_sum(state, to, bytes, crc64_update);
}

uint16_t crc16_t10_update(uint16_t state, Bytes bytes) {
  if (kArm64 && has_crc32_arm64()) {
    return crc16_t10_update_arm64(state, bytes.data(), bytes.size());
  }
  if (kX86 && has_clmul_x86()) {
    return crc16_t10_update_x86(state, bytes.data(), bytes.size());
  }
  const uint32_t reversed = reverse_bits(state) >> 16;
  const uint64_t after = CrcTables<kCrc16T10Polynomial>::msb_first(reversed, bytes);
  return static_cast<uint16_t>(reverse_bits(static_cast<uint32_t>(after)) >> 16);
}

uint16_t crc16_t10_copy(uint16_t state, uint8_t* to, Bytes bytes) {
  if (kArm64 && has_crc32_arm64()) {
    return crc16_t10_copy_arm64(state, to, bytes.data(), bytes.size());
  }
  if (kX86 && has_clmul_x86()) {
    return crc16_t10_copy_x86(state, to, bytes.data(), bytes.size());
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
