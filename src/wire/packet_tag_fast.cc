// SPDX-License-Identifier: Apache-2.0
// Compiled with the instructions it is about; nothing in here runs before has_fast_tags() said yes.
//
// Eight blocks are multiplied by eight powers of the key and their products added before they are
// reduced once.
#include "wire/packet_tag_fast.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace verbena::wire {
namespace {

using Lane = __m128i;

[[nodiscard]] inline Lane load(const uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const Lane*>(p));
}
inline void store(uint8_t* p, Lane lane) { _mm_storeu_si128(reinterpret_cast<Lane*>(p), lane); }
[[nodiscard]] inline Lane add(Lane a, Lane b) { return _mm_xor_si128(a, b); }
[[nodiscard]] inline Lane low_by_low(Lane a, Lane b) { return _mm_clmulepi64_si128(a, b, 0x00); }
[[nodiscard]] inline Lane high_by_high(Lane a, Lane b) { return _mm_clmulepi64_si128(a, b, 0x11); }
[[nodiscard]] inline Lane crossed(Lane a, Lane b) {
  return add(_mm_clmulepi64_si128(a, b, 0x01), _mm_clmulepi64_si128(a, b, 0x10));
}
[[nodiscard]] inline Lane up(Lane lane) { return _mm_slli_si128(lane, 8); }
[[nodiscard]] inline Lane down(Lane lane) { return _mm_srli_si128(lane, 8); }
[[nodiscard]] inline Lane swapped(Lane lane) { return _mm_shuffle_epi32(lane, 0x4e); }
[[nodiscard]] inline Lane zero() { return _mm_setzero_si128(); }
[[nodiscard]] inline Lane polynomial() {
  return _mm_set_epi64x(static_cast<int64_t>(0xc200'0000'0000'0000), 1);
}
[[nodiscard]] inline Lane low_by_polynomial(Lane lane) {
  return _mm_clmulepi64_si128(lane, polynomial(), 0x10);
}

}  // namespace

bool has_fast_tags() { return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("aes"); }

void encrypt_fast(const TagTables& tables, Block& block) {
  Lane lane = add(load(block.data()), load(tables.round_keys[0].data()));
  for (size_t round = 1; round < TagTables::kRounds; ++round) {
    lane = _mm_aesenc_si128(lane, load(tables.round_keys[round].data()));
  }
  store(block.data(),
        _mm_aesenclast_si128(lane, load(tables.round_keys[TagTables::kRounds].data())));
}

}  // namespace verbena::wire

#elif defined(__aarch64__)

#include <arm_neon.h>
#include <sys/auxv.h>

namespace verbena::wire {
namespace {

using Lane = uint64x2_t;

[[nodiscard]] inline Lane load(const uint8_t* p) { return vreinterpretq_u64_u8(vld1q_u8(p)); }
inline void store(uint8_t* p, Lane lane) { vst1q_u8(p, vreinterpretq_u8_u64(lane)); }
[[nodiscard]] inline Lane add(Lane a, Lane b) { return veorq_u64(a, b); }
[[nodiscard]] inline Lane product(uint64_t a, uint64_t b) {
  return vreinterpretq_u64_p128(vmull_p64(static_cast<poly64_t>(a), static_cast<poly64_t>(b)));
}
[[nodiscard]] inline Lane low_by_low(Lane a, Lane b) {
  return product(vgetq_lane_u64(a, 0), vgetq_lane_u64(b, 0));
}
[[nodiscard]] inline Lane high_by_high(Lane a, Lane b) {
  return product(vgetq_lane_u64(a, 1), vgetq_lane_u64(b, 1));
}
[[nodiscard]] inline Lane crossed(Lane a, Lane b) {
  return add(product(vgetq_lane_u64(a, 0), vgetq_lane_u64(b, 1)),
             product(vgetq_lane_u64(a, 1), vgetq_lane_u64(b, 0)));
}
[[nodiscard]] inline Lane zero() { return vdupq_n_u64(0); }
[[nodiscard]] inline Lane up(Lane lane) { return vextq_u64(zero(), lane, 1); }
[[nodiscard]] inline Lane down(Lane lane) { return vextq_u64(lane, zero(), 1); }
[[nodiscard]] inline Lane swapped(Lane lane) { return vextq_u64(lane, lane, 1); }
[[nodiscard]] inline Lane low_by_polynomial(Lane lane) {
  return product(vgetq_lane_u64(lane, 0), 0xc200'0000'0000'0000);
}

}  // namespace

bool has_fast_tags() {
  constexpr unsigned long kWanted = HWCAP_AES | HWCAP_PMULL;
  return (::getauxval(AT_HWCAP) & kWanted) == kWanted;
}

void encrypt_fast(const TagTables& tables, Block& block) {
  uint8x16_t lane = vld1q_u8(block.data());
  for (size_t round = 0; round + 1 < TagTables::kRounds; ++round) {
    lane = vaesmcq_u8(vaeseq_u8(lane, vld1q_u8(tables.round_keys[round].data())));
  }
  lane = vaeseq_u8(lane, vld1q_u8(tables.round_keys[TagTables::kRounds - 1].data()));
  vst1q_u8(block.data(), veorq_u8(lane, vld1q_u8(tables.round_keys[TagTables::kRounds].data())));
}

}  // namespace verbena::wire

#endif

#if defined(__x86_64__) || defined(__aarch64__)

namespace verbena::wire {
namespace {

// A product of up to 255 bits, not reduced yet.
struct Product {
  Lane low = zero();
  Lane middle = zero();
  Lane high = zero();

  void add_product(Lane a, Lane b) {
    low = add(low, low_by_low(a, b));
    middle = add(middle, crossed(a, b));
    high = add(high, high_by_high(a, b));
  }
  // Divided by x^128, modulo the polynomial.
  [[nodiscard]] Lane reduced() const {
    Lane rest = add(low, up(middle));
    rest = add(swapped(rest), low_by_polynomial(rest));
    rest = add(swapped(rest), low_by_polynomial(rest));
    return add(rest, add(high, down(middle)));
  }
};

}  // namespace

void hash_fast(const TagTables& tables, Block& sum, const uint8_t* blocks, size_t count) {
  constexpr size_t kBlock = sizeof(Block);
  constexpr size_t kTogether = TagTables::kPowers;
  Lane state = load(sum.data());
  while (count > 0) {
    const size_t now = count < kTogether ? count : kTogether;
    Product product;
    for (size_t i = 0; i < now; ++i) {
      Lane block = load(blocks + i * kBlock);
      if (i == 0) block = add(block, state);
      product.add_product(block, load(tables.powers[now - 1 - i].data()));
    }
    state = product.reduced();
    blocks += now * kBlock;
    count -= now;
  }
  store(sum.data(), state);
}

}  // namespace verbena::wire

#else

namespace verbena::wire {

bool has_fast_tags() { return false; }
void encrypt_fast(const TagTables&, Block&) {}
void hash_fast(const TagTables&, Block&, const uint8_t*, size_t) {}

}  // namespace verbena::wire

#endif
