// SPDX-License-Identifier: Apache-2.0
// Block signatures as a ConnectX has them: what one is made of, and how it is computed, written
// and compared. Where the blocks lie, and which way the data goes, is signer.h's.
//
//   kind            bytes  in memory order
//   CRC-32              4  big-endian     0x04C11DB7, most significant bit first, final XOR ~0
//   CRC-32C             4  little-endian  0x82F63B78 reflected, final XOR ~0
//   CRC-64 XP10         8  little-endian  0x9a6c9329ac4bc9b5 reflected, final XOR ~0
//   T10-DIF             8  guard 2 (CRC-16 0x8BB7 or Internet checksum), application tag 2,
//                          reference tag 4, each big-endian
//
// A mask has a bit for each byte of a signature, the highest for the first byte.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/block_sums.h"

namespace verbena::memory {

enum class SignatureKind : uint8_t { kNone, kCrc32, kCrc32c, kCrc64, kDifCrc, kDifSum };

[[nodiscard]] constexpr uint32_t signature_bytes(SignatureKind kind) {
  switch (kind) {
    case SignatureKind::kNone:   return 0;
    case SignatureKind::kCrc32:
    case SignatureKind::kCrc32c: return 4;
    case SignatureKind::kCrc64:
    case SignatureKind::kDifCrc:
    case SignatureKind::kDifSum: return 8;
  }
  return 0;
}
[[nodiscard]] constexpr bool is_dif(SignatureKind kind) {
  return kind == SignatureKind::kDifCrc || kind == SignatureKind::kDifSum;
}

// The data of one side of a key: in memory, or on the wire.
struct SignatureDomain {
  SignatureKind kind = SignatureKind::kNone;
  uint32_t block = 0;  // data bytes that one signature covers: 512, 520, 4048, 4096 or 4160
  uint64_t seed = 0;   // 0 or all ones
  // T10-DIF
  uint16_t app_tag = 0;
  uint32_t ref_tag = 0;
  bool ref_counts = false;      // the reference tag of each block is one more (types 1 and 2)
  bool app_escape = false;      // an application tag of all ones: do not check this block
  bool app_ref_escape = false;  // the same if the reference tag is all ones too (type 3)

  [[nodiscard]] bool present() const { return kind != SignatureKind::kNone; }
  [[nodiscard]] uint32_t bytes() const { return signature_bytes(kind); }
  bool operator==(const SignatureDomain&) const = default;
};

struct Signature {
  SignatureDomain memory{};
  SignatureDomain wire{};
  uint8_t check_mask = 0;  // bytes of the arriving signature that are compared
  uint8_t copy_mask = 0;   // bytes that pass from one side to the other as they are
};

// Whether the blocks of both sides are the same, so that a signature can be passed on.
[[nodiscard]] bool same_structure(const SignatureDomain& a, const SignatureDomain& b);
// What is passed on unless the caller says otherwise: what would come out the same anyhow.
[[nodiscard]] uint8_t default_copy_mask(const SignatureDomain& memory, const SignatureDomain& wire);
// Block size and seed are among those there are.
[[nodiscard]] bool is_valid(const SignatureDomain& domain);

enum class SignatureField : uint8_t { kGuard = 1, kRefTag = 2, kAppTag = 3 };

struct SignatureError {
  SignatureField field = SignatureField::kGuard;
  uint64_t actual = 0;    // made from the data
  uint64_t expected = 0;  // found beside it
  uint64_t offset = 0;    // of the block, in the data as it arrived, its signatures included
};

using SignatureBytes = std::array<uint8_t, 8>;

// The running sum of one block.
class BlockSum {
 public:
  BlockSum() = default;
  explicit BlockSum(const SignatureDomain& domain) : kind_(domain.kind), seed_(domain.seed) {
    reset();
  }

  void reset();
  void update(std::span<const uint8_t> bytes);
  // The same in one pass with copying them; the sum is of what then lies at `to`.
  void copy(uint8_t* to, std::span<const uint8_t> bytes);
  // The guard, or the whole signature of a CRC, as a number.
  [[nodiscard]] uint64_t value() const;

 private:
  SignatureKind kind_ = SignatureKind::kNone;
  uint64_t seed_ = 0;
  uint64_t state_ = 0;
  InternetSum sum_;
};

// The signature of block `index` whose sum is `value`.
[[nodiscard]] SignatureBytes make_signature(const SignatureDomain& domain, uint64_t value,
                                            uint64_t index);
// True when `found` is not what it should be in a byte that the mask names; fills `error` but for
// its offset.
[[nodiscard]] bool differs(const SignatureDomain& domain, uint8_t check_mask, uint64_t value,
                           uint64_t index, const SignatureBytes& found, SignatureError& error);

}  // namespace verbena::memory
