// SPDX-License-Identifier: Apache-2.0
// Values as adapters have shown them.
#include "memory/signature.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace verbena::memory {
namespace {

std::vector<uint8_t> signature_of(const SignatureDomain& domain, uint8_t fill, uint64_t index = 0) {
  BlockSum sum(domain);
  sum.update(std::vector<uint8_t>(domain.block, fill));
  const SignatureBytes bytes = make_signature(domain, sum.value(), index);
  return {bytes.begin(), bytes.begin() + domain.bytes()};
}

using Bytes = std::vector<uint8_t>;
constexpr uint64_t kOnes32 = 0xffffffff;

TEST(Signature, Crc32IsBigEndian) {
  EXPECT_EQ(signature_of({.kind = SignatureKind::kCrc32, .block = 4096, .seed = kOnes32}, 'a'),
            (Bytes{0xb7, 0x2f, 0xb9, 0xaf}));
  EXPECT_EQ(signature_of({.kind = SignatureKind::kCrc32, .block = 512, .seed = kOnes32}, 'a'),
            (Bytes{0xbc, 0x16, 0xa9, 0xa0}));
  EXPECT_EQ(signature_of({.kind = SignatureKind::kCrc32, .block = 512, .seed = 0}, 0xa5),
            (Bytes{0x69, 0x9a, 0xca, 0x21}));
}

TEST(Signature, Crc32cIsLittleEndian) {
  EXPECT_EQ(signature_of({.kind = SignatureKind::kCrc32c, .block = 4096, .seed = kOnes32}, 'a'),
            (Bytes{0xa2, 0x4c, 0xc7, 0x26}));
  EXPECT_EQ(signature_of({.kind = SignatureKind::kCrc32c, .block = 512, .seed = 0}, 0xa5),
            (Bytes{0x42, 0x07, 0xe6, 0xb4}));
}

TEST(Signature, Crc64IsLittleEndian) {
  EXPECT_EQ(signature_of({.kind = SignatureKind::kCrc64, .block = 512, .seed = 0}, 0xa5),
            (Bytes{0x8c, 0x8a, 0xdb, 0x45, 0x0c, 0xce, 0x85, 0xaa}));
}

TEST(Signature, DifHasGuardAndTags) {
  SignatureDomain dif{.kind = SignatureKind::kDifCrc,
                      .block = 512,
                      .seed = 0xffff,
                      .app_tag = 0x5678,
                      .ref_tag = 0xf0debc9a,
                      .ref_counts = true};
  EXPECT_EQ(signature_of(dif, 0xa5, 3), (Bytes{0xec, 0x7d, 0x56, 0x78, 0xf0, 0xde, 0xbc, 0x9d}));
  dif.seed = 0;
  dif.ref_counts = false;
  EXPECT_EQ(signature_of(dif, 0xa5, 3), (Bytes{0x9e, 0xc6, 0x56, 0x78, 0xf0, 0xde, 0xbc, 0x9a}));
  // 256 words of 0xa5a5 sum to 0xa5a5 * 256 = 0xa5a500 -> 0xa500 + 0xa5.
  dif.kind = SignatureKind::kDifSum;
  EXPECT_EQ(signature_of(dif, 0xa5)[0], static_cast<uint8_t>(~0xa5));
  EXPECT_EQ(signature_of(dif, 0xa5)[1], static_cast<uint8_t>(~0xa5));
}

TEST(Signature, OnlySomeBlocksAndSeeds) {
  for (const uint32_t block : {512u, 520u, 4048u, 4096u, 4160u}) {
    EXPECT_TRUE(is_valid({.kind = SignatureKind::kCrc32, .block = block, .seed = kOnes32}));
  }
  EXPECT_FALSE(is_valid({.kind = SignatureKind::kCrc32, .block = 4092, .seed = 0}));
  EXPECT_FALSE(is_valid({.kind = SignatureKind::kCrc32, .block = 512, .seed = 1}));
  EXPECT_FALSE(is_valid({.kind = SignatureKind::kDifCrc, .block = 512, .seed = kOnes32}));
  EXPECT_FALSE(is_valid({.kind = SignatureKind::kCrc64, .block = 512, .seed = kOnes32}));
  EXPECT_TRUE(is_valid({}));
}

// The first field that differs where the mask looks is the one that is named.
TEST(Signature, SaysWhichFieldIsWrong) {
  const SignatureDomain dif{.kind = SignatureKind::kDifCrc,
                            .block = 512,
                            .seed = 0,
                            .app_tag = 0x1122,
                            .ref_tag = 7,
                            .ref_counts = true};
  const SignatureBytes right = make_signature(dif, 0xabcd, 2);
  SignatureError error;
  EXPECT_FALSE(differs(dif, 0xff, 0xabcd, 2, right, error));
  SignatureBytes wrong = right;
  wrong[0] ^= 1;
  wrong[7] ^= 1;
  EXPECT_TRUE(differs(dif, 0xff, 0xabcd, 2, wrong, error));
  EXPECT_EQ(error.field, SignatureField::kGuard);
  EXPECT_EQ(error.actual, 0xabcdu);
  EXPECT_EQ(error.expected, 0xaacdu);
  EXPECT_TRUE(differs(dif, 0x3f, 0xabcd, 2, wrong, error));
  EXPECT_EQ(error.field, SignatureField::kRefTag);
  EXPECT_EQ(error.actual, 9u);
  EXPECT_EQ(error.expected, 8u);
  EXPECT_FALSE(differs(dif, 0x30, 0xabcd, 2, wrong, error));
  wrong = right;
  wrong[3] ^= 0x80;
  EXPECT_TRUE(differs(dif, 0xff, 0xabcd, 2, wrong, error));
  EXPECT_EQ(error.field, SignatureField::kAppTag);
  EXPECT_FALSE(differs(dif, 0xef, 0xabcd, 2, wrong, error)) << "that byte is not looked at";
  // Both tags: the application's is told, which mlx5dv_mkey_check(3) has first.
  wrong[7] ^= 1;
  EXPECT_TRUE(differs(dif, 0xff, 0xabcd, 2, wrong, error));
  EXPECT_EQ(error.field, SignatureField::kAppTag);
  EXPECT_EQ(error.actual, 0x1122u);
  EXPECT_EQ(error.expected, 0x11a2u);
}

TEST(Signature, Escapes) {
  SignatureDomain dif{.kind = SignatureKind::kDifCrc, .block = 512, .app_escape = true};
  SignatureBytes found{0xde, 0xad, 0xff, 0xff, 1, 2, 3, 4};
  SignatureError error;
  EXPECT_FALSE(differs(dif, 0xff, 0, 0, found, error));
  dif.app_escape = false;
  dif.app_ref_escape = true;
  EXPECT_TRUE(differs(dif, 0xff, 0, 0, found, error));
  found = {0xde, 0xad, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  EXPECT_FALSE(differs(dif, 0xff, 0, 0, found, error));
}

TEST(Signature, WhatIsPassedOnIsWhatIsTheSame) {
  SignatureDomain a{.kind = SignatureKind::kDifCrc, .block = 512, .app_tag = 1, .ref_tag = 2};
  SignatureDomain b = a;
  EXPECT_EQ(default_copy_mask(a, b), 0xff);
  b.seed = 0xffff;
  EXPECT_EQ(default_copy_mask(a, b), 0x3f);
  b.app_tag = 3;
  EXPECT_EQ(default_copy_mask(a, b), 0x0f);
  b.ref_counts = true;
  EXPECT_EQ(default_copy_mask(a, b), 0);
  b = a;
  b.block = 4096;
  EXPECT_EQ(default_copy_mask(a, b), 0);
  a = {.kind = SignatureKind::kCrc32, .block = 512};
  b = {.kind = SignatureKind::kCrc32c, .block = 512};
  EXPECT_EQ(default_copy_mask(a, b), 0);
  EXPECT_FALSE(same_structure(a, b));
}

}  // namespace
}  // namespace verbena::memory
