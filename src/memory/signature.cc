// SPDX-License-Identifier: Apache-2.0
#include "memory/signature.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/endian.h"
#include "memory/move.h"

namespace verbena::memory {
namespace {

constexpr uint8_t kGuardMask = 0xc0;
constexpr uint8_t kAppMask = 0x30;
constexpr uint8_t kRefMask = 0x0f;

[[nodiscard]] uint32_t ref_tag_of(const SignatureDomain& domain, uint64_t index) {
  return domain.ref_counts ? domain.ref_tag + static_cast<uint32_t>(index) : domain.ref_tag;
}

// Whether bytes [from, to) differ where the mask looks.
[[nodiscard]] bool differ(const SignatureBytes& a, const SignatureBytes& b, uint32_t from,
                          uint32_t to, uint8_t mask) {
  for (uint32_t i = from; i < to; ++i) {
    if ((mask & (0x80 >> i)) != 0 && a[i] != b[i]) return true;
  }
  return false;
}

[[nodiscard]] uint64_t crc_of(SignatureKind kind, const SignatureBytes& bytes) {
  switch (kind) {
    case SignatureKind::kCrc32:  return load_be32(bytes.data());
    case SignatureKind::kCrc32c: return __builtin_bswap32(load_be32(bytes.data()));
    default:                     return __builtin_bswap64(load_be64(bytes.data()));
  }
}

}  // namespace

bool same_structure(const SignatureDomain& a, const SignatureDomain& b) {
  return a.present() && b.present() && a.block == b.block && is_dif(a.kind) == is_dif(b.kind) &&
         (is_dif(a.kind) || a.kind == b.kind);
}

uint8_t default_copy_mask(const SignatureDomain& memory, const SignatureDomain& wire) {
  if (!same_structure(memory, wire)) return 0;
  const bool same_sum = memory.kind == wire.kind && memory.seed == wire.seed;
  if (!is_dif(memory.kind)) return same_sum ? 0xff : 0;
  uint8_t mask = 0;
  if (same_sum) mask |= kGuardMask;
  if (memory.app_tag == wire.app_tag) mask |= kAppMask;
  if (memory.ref_tag == wire.ref_tag && memory.ref_counts == wire.ref_counts) mask |= kRefMask;
  return mask;
}

bool is_valid(const SignatureDomain& domain) {
  if (!domain.present()) return true;
  constexpr std::array<uint32_t, 5> kBlocks{512, 520, 4048, 4096, 4160};
  if (std::ranges::find(kBlocks, domain.block) == kBlocks.end()) return false;
  switch (domain.kind) {
    case SignatureKind::kDifCrc:
    case SignatureKind::kDifSum: return domain.seed == 0 || domain.seed == 0xffff;
    case SignatureKind::kCrc64:  return domain.seed == 0 || domain.seed == ~uint64_t{0};
    default:                     return domain.seed == 0 || domain.seed == 0xffffffff;
  }
}

void BlockSum::reset() {
  state_ = seed_;
  sum_ = {.sum = static_cast<uint32_t>(seed_), .odd = false};
}

void BlockSum::update(std::span<const uint8_t> bytes) {
  switch (kind_) {
    case SignatureKind::kNone: return;
    case SignatureKind::kCrc32:
      state_ = crc32_msb_update(static_cast<uint32_t>(state_), bytes);
      return;
    case SignatureKind::kCrc32c:
      state_ = crc32c_update(static_cast<uint32_t>(state_), bytes);
      return;
    case SignatureKind::kCrc64: state_ = crc64_update(state_, bytes); return;
    case SignatureKind::kDifCrc:
      state_ = crc16_t10_update(static_cast<uint16_t>(state_), bytes);
      return;
    case SignatureKind::kDifSum: sum_ = internet_sum_update(sum_, bytes); return;
  }
}

void BlockSum::copy(uint8_t* to, std::span<const uint8_t> bytes) {
  switch (kind_) {
    case SignatureKind::kNone: store(to, bytes, false); return;
    case SignatureKind::kCrc32:
      state_ = crc32_msb_copy(static_cast<uint32_t>(state_), to, bytes);
      return;
    case SignatureKind::kCrc32c:
      state_ = crc32c_copy(static_cast<uint32_t>(state_), to, bytes);
      return;
    case SignatureKind::kCrc64: state_ = crc64_copy(state_, to, bytes); return;
    case SignatureKind::kDifCrc:
      state_ = crc16_t10_copy(static_cast<uint16_t>(state_), to, bytes);
      return;
    case SignatureKind::kDifSum: sum_ = internet_sum_copy(sum_, to, bytes); return;
  }
}

uint64_t BlockSum::value() const {
  switch (kind_) {
    case SignatureKind::kNone:   return 0;
    case SignatureKind::kCrc32:
    case SignatureKind::kCrc32c: return ~static_cast<uint32_t>(state_) & 0xffffffff;
    case SignatureKind::kCrc64:  return ~state_;
    case SignatureKind::kDifCrc: return state_;
    case SignatureKind::kDifSum: return static_cast<uint16_t>(~sum_.sum);
  }
  return 0;
}

SignatureBytes make_signature(const SignatureDomain& domain, uint64_t value, uint64_t index) {
  SignatureBytes bytes{};
  switch (domain.kind) {
    case SignatureKind::kNone:  break;
    case SignatureKind::kCrc32: store_be32(bytes.data(), static_cast<uint32_t>(value)); break;
    case SignatureKind::kCrc32c:
      store_be32(bytes.data(), __builtin_bswap32(static_cast<uint32_t>(value)));
      break;
    case SignatureKind::kCrc64: store_be64(bytes.data(), __builtin_bswap64(value)); break;
    case SignatureKind::kDifCrc:
    case SignatureKind::kDifSum:
      store_be16(bytes.data(), static_cast<uint16_t>(value));
      store_be16(bytes.data() + 2, domain.app_tag);
      store_be32(bytes.data() + 4, ref_tag_of(domain, index));
      break;
  }
  return bytes;
}

// Of several fields the first is told, in the order of mlx5dv_mkey_check(3): guard, application
// tag, reference tag.
bool differs(const SignatureDomain& domain, uint8_t check_mask, uint64_t value, uint64_t index,
             const SignatureBytes& found, SignatureError& error) {
  const SignatureBytes right = make_signature(domain, value, index);
  if (!is_dif(domain.kind)) {
    if (!differ(right, found, 0, domain.bytes(), check_mask)) return false;
    error = {
        .field = SignatureField::kGuard, .actual = value, .expected = crc_of(domain.kind, found)};
    return true;
  }
  const uint16_t app = load_be16(found.data() + 2);
  const uint32_t ref = load_be32(found.data() + 4);
  if (app == 0xffff && (domain.app_escape || (domain.app_ref_escape && ref == 0xffffffff))) {
    return false;
  }
  if (differ(right, found, 0, 2, check_mask)) {
    error = {.field = SignatureField::kGuard, .actual = value, .expected = load_be16(found.data())};
    return true;
  }
  if (differ(right, found, 2, 4, check_mask)) {
    error = {.field = SignatureField::kAppTag, .actual = domain.app_tag, .expected = app};
    return true;
  }
  if (differ(right, found, 4, 8, check_mask)) {
    error = {
        .field = SignatureField::kRefTag, .actual = ref_tag_of(domain, index), .expected = ref};
    return true;
  }
  return false;
}

}  // namespace verbena::memory
