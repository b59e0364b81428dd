// SPDX-License-Identifier: Apache-2.0
#include "base/checksum.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/bitwise_crc.h"
#include "base/checksum_arm64.h"
#include "base/checksum_x86.h"
#include "base/random.h"

namespace verbena {
namespace {

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::vector<uint8_t> random_text(RandomSource& random, size_t length) {
  std::vector<uint8_t> bytes(length);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next());
  return bytes;
}

// One bit at a time, from the definition.
uint32_t naive_crc(uint32_t polynomial, std::span<const uint8_t> bytes) {
  return ~bitwise_crc_lsb(polynomial, 0xffffffffu, bytes);
}

// Where it must be so, as in the emulator of `./dev cross`, it is required.
TEST(Crc32, UsesTheInstructionsOfTheProcessor) {
#if defined(__x86_64__)
  const char* const instructions = "PCLMULQDQ";
  const bool has = has_clmul_x86();
#elif defined(__aarch64__)
  const char* const instructions = "PMULL";
  const bool has = has_crc32_arm64();
#else
  const char* const instructions = "none";
  const bool has = false;
#endif
  std::printf("CRC by %s\n", has ? instructions : "tables");
  const bool required = std::getenv("VERBENA_TEST_FAST_PATHS") != nullptr;
  EXPECT_TRUE(has || !required) << instructions;
}

TEST(Crc32, CheckValueOfTheCatalogue) {
  EXPECT_EQ(crc32(bytes_of("123456789")), 0xcbf43926u);
  EXPECT_EQ(crc32({}), 0u);
}

TEST(Crc32, AgreesWithTheDefinitionAtEveryLengthAndAlignment) {
  SeededRandom random(1);
  const std::vector<uint8_t> bytes = random_text(random, 600);
  for (size_t offset = 0; offset < 16; ++offset) {
    for (size_t length = 0; length < 300; ++length) {
      const auto piece = std::span(bytes).subspan(offset, length);
      ASSERT_EQ(crc32(piece), naive_crc(kCrc32Polynomial, piece)) << offset << "+" << length;
    }
  }
}

// Long enough for every way an implementation has of taking many bytes at once.
TEST(Crc32, AgreesWithTheDefinitionWhenLong) {
  SeededRandom random(3);
  const std::vector<uint8_t> bytes = random_text(random, 40'000);
  for (size_t length = 300; length < bytes.size(); length += 1 + random.below(500)) {
    const auto piece = std::span(bytes).subspan(random.below(bytes.size() - length), length);
    ASSERT_EQ(crc32(piece), naive_crc(kCrc32Polynomial, piece)) << length;
  }
}

TEST(Crc32, PiecesFeedTheSameState) {
  SeededRandom random(2);
  for (int round = 0; round < 500; ++round) {
    const std::vector<uint8_t> bytes = random_text(random, random.below(5000));
    uint32_t state = kCrc32Start;
    for (size_t done = 0; done < bytes.size();) {
      const size_t piece = random.below(bytes.size() - done + 1);
      state = crc32_update(state, std::span(bytes).subspan(done, piece));
      done += piece;
    }
    ASSERT_EQ(crc32_finish(state), crc32(bytes));
  }
}

TEST(Crc32, CopiesWhatItCounts) {
  SeededRandom random(4);
  const std::vector<uint8_t> bytes = random_text(random, 20'000);
  std::vector<uint8_t> copy(bytes.size() + 16);
  for (size_t length = 0; length < 12'000; length += 1 + random.below(length / 16 + 1)) {
    const size_t from = random.below(16);
    const size_t to = random.below(16);
    std::ranges::fill(copy, 0xee);
    const auto piece = std::span(bytes).subspan(from, length);
    ASSERT_EQ(crc32_copy(kCrc32Start, copy.data() + to, piece), crc32_update(kCrc32Start, piece))
        << length;
    ASSERT_TRUE(std::ranges::equal(piece, std::span(copy).subspan(to, length))) << length;
    ASSERT_EQ(copy[to + length], 0xee) << length;
  }
}

TEST(CrcAlgebra, PowersAndProducts) {
  using A = Crc32Algebra;
  EXPECT_EQ(A::power(0), A::kOne);
  EXPECT_EQ(A::power(1), A::kOne >> 1);
  EXPECT_EQ(A::power(31), 1u);
  EXPECT_EQ(A::power(32), kCrc32Polynomial);  // x^32 mod P is P without its leading term
  SeededRandom random(3);
  for (int round = 0; round < 1000; ++round) {
    const auto a = static_cast<uint32_t>(random.next());
    const auto b = static_cast<uint32_t>(random.next());
    const auto c = static_cast<uint32_t>(random.next());
    ASSERT_EQ(A::multiply(a, A::kOne), a);
    ASSERT_EQ(A::multiply(a, A::kOne >> 1), A::times_x(a));
    ASSERT_EQ(A::multiply(a, b), A::multiply(b, a));
    ASSERT_EQ(A::multiply(a, b ^ c), A::multiply(a, b) ^ A::multiply(a, c));
    ASSERT_EQ(A::multiply(A::power(a), A::power(b)), A::power(uint64_t{a} + b));
  }
}

TEST(CrcAlgebra, TheEthernetPolynomialIsPrimitive) {
  // So x has an inverse: x^-n is x^(2^32 - 1 - n). icrc_solve stands on it.
  EXPECT_EQ(Crc32Algebra::power(0xffffffff), Crc32Algebra::kOne);
  for (const uint32_t factor : {3u, 5u, 17u, 257u, 65537u}) {
    EXPECT_NE(Crc32Algebra::power(0xffffffffu / factor), Crc32Algebra::kOne) << factor;
  }
}

TEST(Crc32, CombineIsTheCrcOfTheConcatenation) {
  SeededRandom random(4);
  for (int round = 0; round < 500; ++round) {
    const std::vector<uint8_t> all = random_text(random, random.below(10'000));
    const size_t cut = random.below(all.size() + 1);
    const auto a = std::span(all).first(cut);
    const auto b = std::span(all).subspan(cut);
    ASSERT_EQ(crc32_combine(crc32(a), crc32(b), b.size()), crc32(all));
  }
}

TEST(CrcAlgebra, CombinesOtherCrcs) {
  SeededRandom random(5);
  const std::vector<uint8_t> all = random_text(random, 1000);
  const auto a = std::span(all).first(300);
  const auto b = std::span(all).subspan(300);

  constexpr uint32_t kCastagnoli = 0x82f63b78;
  EXPECT_EQ(CrcAlgebra<kCastagnoli>::combine(naive_crc(kCastagnoli, a), naive_crc(kCastagnoli, b),
                                             b.size()),
            naive_crc(kCastagnoli, all));

  // CRC-32/BZIP2, the store's: the same polynomial without reflection.
  const auto reverse = [](uint32_t v) {
    uint32_t r = 0;
    for (int i = 0; i < 32; ++i) r |= ((v >> i) & 1) << (31 - i);
    return r;
  };
  const auto bzip2 = [](std::span<const uint8_t> bytes) {
    return ~bitwise_crc_msb(0x04c11db7u, 0xffffffffu, bytes);
  };
  EXPECT_EQ(bzip2(bytes_of("123456789")), 0xfc891918u);
  EXPECT_EQ(reverse(crc32_combine(reverse(bzip2(a)), reverse(bzip2(b)), b.size())), bzip2(all));
}

}  // namespace
}  // namespace verbena
