// SPDX-License-Identifier: Apache-2.0
// Compiled with PCLMULQDQ and SSSE3; nothing in here runs before has_clmul_x86() said yes.
//
// All of it is for reflected CRCs of 64 bits. A shorter one is such a one times a power of x:
// polynomial and state lie in the low bits. One that takes the most significant bit first is the
// reflected one of the message with the bits of every byte reversed, its state reversed too.
//
// A message is folded into eight 128-bit lanes, those into one, and the last lane is divided by
// multiplication (Barrett). With the most significant bit first, lanes are folded as they are and
// the bits of the last alone are reversed.
#include "base/checksum_x86.h"

#if defined(__x86_64__)

#include <cstring>

#include <immintrin.h>

#include "base/block_sums.h"
#include "base/checksum.h"

namespace verbena {
namespace {

constexpr size_t kLanes = 8;
constexpr size_t kLane = 16;
constexpr size_t kStep = kLanes * kLane;

[[nodiscard]] constexpr uint64_t reverse64(uint64_t word) {
  return uint64_t{reverse_bits(static_cast<uint32_t>(word))} << 32 |
         reverse_bits(static_cast<uint32_t>(word >> 32));
}
[[nodiscard]] inline __m128i lane_of(uint64_t low, uint64_t high) {
  return _mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low));
}
[[nodiscard]] inline uint64_t low_half(__m128i lane) {
  return static_cast<uint64_t>(_mm_cvtsi128_si64(lane));
}
[[nodiscard]] inline uint64_t high_half(__m128i lane) {
  return low_half(_mm_unpackhi_epi64(lane, lane));
}

// How a message's bits lie in a lane, in the order in which a reflected CRC takes them or in the
// other. What multiplies the halves of a lane to move it forward by so many bytes; and a lane's
// first and second word as a reflected CRC has them.
struct LsbFirst {
  [[nodiscard]] static __m128i order(__m128i lane) { return lane; }
  [[nodiscard]] static uint64_t order(uint64_t word) { return word; }
  // x^(8 n + 64) and x^(8 n); the carry-less product of reflected values has one x too many.
  template <typename Algebra>
  struct FoldBy {
    explicit constexpr FoldBy(size_t bytes)
        : low(Algebra::power(8 * bytes + 63)), high(Algebra::power(8 * bytes - 1)) {}
    uint64_t low;
    uint64_t high;
  };
  [[nodiscard]] static __m128i of_state(uint64_t state) { return lane_of(state, 0); }
  [[nodiscard]] static uint64_t first(__m128i lane) { return low_half(lane); }
  [[nodiscard]] static uint64_t second(__m128i lane) { return high_half(lane); }
};
struct MsbFirst {
  // The first byte goes to the top.
  [[nodiscard]] static __m128i order(__m128i lane) {
    return _mm_shuffle_epi8(lane,
                            _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
  }
  // Reflected at once: the bits of each byte reversed.
  [[nodiscard]] static uint64_t order(uint64_t word) { return __builtin_bswap64(reverse64(word)); }
  template <typename Algebra>
  struct FoldBy {
    explicit constexpr FoldBy(size_t bytes)
        : low(reverse64(Algebra::power(8 * bytes))),
          high(reverse64(Algebra::power(8 * bytes + 64))) {}
    uint64_t low;
    uint64_t high;
  };
  [[nodiscard]] static __m128i of_state(uint64_t state) { return lane_of(0, reverse64(state)); }
  [[nodiscard]] static uint64_t first(__m128i lane) { return reverse64(high_half(lane)); }
  [[nodiscard]] static uint64_t second(__m128i lane) { return reverse64(low_half(lane)); }
};

// What is read of [from, ...) is stored at [to, ...) on the way, if kCopy.
template <typename Order, bool kCopy>
class Reader {
 public:
  using Bits = Order;
  Reader(const uint8_t* from, uint8_t* to) : from_(from), to_(to) {}
  // All lanes are read before the first is stored, which the compiler, not knowing that they do not
  // overlap, would not dare.
  template <size_t kCount>
  void lanes(const uint8_t* p, __m128i (&values)[kCount]) const {
#pragma GCC unroll 8
    for (size_t i = 0; i < kCount; ++i) {
      values[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i * kLane));
    }
    if constexpr (kCopy) {
      auto* const to = reinterpret_cast<__m128i*>(to_ + (p - from_));
#pragma GCC unroll 8
      for (size_t i = 0; i < kCount; ++i) _mm_storeu_si128(to + i, values[i]);
    }
#pragma GCC unroll 8
    for (__m128i& value : values) value = Order::order(value);
  }
  [[nodiscard]] __m128i lane(const uint8_t* p) const {
    __m128i value[1];
    lanes(p, value);
    return value[0];
  }
  template <typename Word>
  [[nodiscard]] uint64_t word(const uint8_t* p) const {
    Word value;
    std::memcpy(&value, p, sizeof value);
    if constexpr (kCopy) std::memcpy(to_ + (p - from_), &value, sizeof value);
    return Order::order(uint64_t{value});
  }

 private:
  const uint8_t* from_;
  uint8_t* to_;
};

[[nodiscard]] inline __m128i times(uint64_t a, uint64_t b) {
  return _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<int64_t>(a)),
                              _mm_cvtsi64_si128(static_cast<int64_t>(b)), 0);
}
[[nodiscard]] inline __m128i fold(__m128i lane, __m128i by, __m128i onto) {
  const __m128i low = _mm_clmulepi64_si128(lane, by, 0x00);
  const __m128i high = _mm_clmulepi64_si128(lane, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), onto);
}

// x^128 divided by the polynomial, without the leading term.
template <uint64_t kPolynomial>
constexpr uint64_t kInverse = [] {
  uint64_t quotient = 0;
  uint64_t rest = kPolynomial;
  for (int i = 0; i < 64; ++i, rest = CrcAlgebra<kPolynomial>::times_x(rest)) {
    quotient |= (rest & 1) << i;
  }
  return quotient;
}();

// v times x^64, reduced: the state after a word, given the XOR of the state before and the word.
template <uint64_t kPolynomial>
[[nodiscard]] inline uint64_t times_x64(uint64_t v) {
  const uint64_t quotient = v ^ (low_half(times(v, kInverse<kPolynomial>)) << 1);
  const __m128i product = times(quotient, kPolynomial);
  return (high_half(product) << 1) | (low_half(product) >> 63);
}

// The first eight lanes at p and all that follow of as many, folded into one.
template <uint64_t kPolynomial, typename Read>
[[nodiscard]] inline __m128i fold_steps(uint64_t state, const uint8_t*& p, size_t& bytes,
                                        Read read) {
  using FoldBy = typename Read::Bits::template FoldBy<CrcAlgebra<kPolynomial>>;
  static constexpr FoldBy kNextStep{kStep};
  static constexpr FoldBy kHalvings[] = {FoldBy(4 * kLane), FoldBy(2 * kLane), FoldBy(kLane)};
  __m128i lane[kLanes];
  read.lanes(p, lane);
  lane[0] = _mm_xor_si128(lane[0], Read::Bits::of_state(state));
  const __m128i next_step = lane_of(kNextStep.low, kNextStep.high);
  for (p += kStep, bytes -= kStep; bytes >= kStep; p += kStep, bytes -= kStep) {
    __m128i next[kLanes];
    read.lanes(p, next);
#pragma GCC unroll 8
    for (size_t i = 0; i < kLanes; ++i) lane[i] = fold(lane[i], next_step, next[i]);
  }
  size_t left = kLanes;
#pragma GCC unroll 3
  for (const auto& halving : kHalvings) {
    left /= 2;
    const __m128i by = lane_of(halving.low, halving.high);
#pragma GCC unroll 4
    for (size_t i = 0; i < left; ++i) lane[i] = fold(lane[i], by, lane[i + left]);
  }
  return lane[0];
}

// The last bytes, fewer than eight, in words of 4, 2 and 1.
template <uint64_t kPolynomial, typename Word, typename Read>
void feed_rest(uint64_t& state, const uint8_t*& p, size_t bytes, Read read) {
  constexpr int kBits = 8 * sizeof(Word);
  if ((bytes & sizeof(Word)) == 0) return;
  const uint64_t first = (state ^ read.template word<Word>(p)) << (64 - kBits);
  state = (state >> kBits) ^ times_x64<kPolynomial>(first);
  p += sizeof(Word);
}

template <uint64_t kPolynomial, typename Read>
[[nodiscard]] uint64_t update(uint64_t state, const uint8_t* p, size_t bytes, Read read) {
  using FoldBy = typename Read::Bits::template FoldBy<CrcAlgebra<kPolynomial>>;
  if (bytes >= kLane) {
    __m128i lane;
    if (bytes >= kStep) {
      lane = fold_steps<kPolynomial>(state, p, bytes, read);
    } else {
      lane = _mm_xor_si128(read.lane(p), Read::Bits::of_state(state));
      p += kLane;
      bytes -= kLane;
    }
    static constexpr FoldBy kNextLane{kLane};
    for (; bytes >= kLane; bytes -= kLane, p += kLane) {
      lane = fold(lane, lane_of(kNextLane.low, kNextLane.high), read.lane(p));
    }
    state = times_x64<kPolynomial>(Read::Bits::first(lane)) ^ Read::Bits::second(lane);
    state = times_x64<kPolynomial>(state);
  }
  if (bytes >= 8) {
    state = times_x64<kPolynomial>(state ^ read.template word<uint64_t>(p));
    p += 8;
  }
  feed_rest<kPolynomial, uint32_t>(state, p, bytes, read);
  feed_rest<kPolynomial, uint16_t>(state, p, bytes, read);
  feed_rest<kPolynomial, uint8_t>(state, p, bytes, read);
  return state;
}

constexpr uint64_t kCrc16T10Polynomial = 0xedd1;  // 0x8bb7 reflected

template <uint64_t kPolynomial, bool kCopy>
[[nodiscard]] uint64_t lsb_first(uint64_t state, uint8_t* to, const uint8_t* p, size_t bytes) {
  return update<kPolynomial>(state, p, bytes, Reader<LsbFirst, kCopy>(p, to));
}

template <uint64_t kPolynomial, bool kCopy>
[[nodiscard]] uint32_t msb_first(uint32_t reversed_state, uint8_t* to, const uint8_t* p,
                                 size_t bytes) {
  return static_cast<uint32_t>(
      update<kPolynomial>(reversed_state, p, bytes, Reader<MsbFirst, kCopy>(p, to)));
}

[[nodiscard]] uint32_t reverse16(uint16_t value) { return reverse_bits(value) >> 16; }

}  // namespace

bool has_clmul_x86() {
  static const bool has = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("ssse3");
  return has;
}

uint32_t crc32_update_x86(uint32_t state, const uint8_t* p, size_t bytes) {
  return static_cast<uint32_t>(lsb_first<kCrc32Polynomial, false>(state, nullptr, p, bytes));
}
uint32_t crc32_copy_x86(uint32_t state, uint8_t* to, const uint8_t* p, size_t bytes) {
  return static_cast<uint32_t>(lsb_first<kCrc32Polynomial, true>(state, to, p, bytes));
}

uint32_t crc32_msb_update_x86(uint32_t state, const uint8_t* p, size_t bytes) {
  return reverse_bits(msb_first<kCrc32Polynomial, false>(reverse_bits(state), nullptr, p, bytes));
}
uint32_t crc32_msb_copy_x86(uint32_t state, uint8_t* to, const uint8_t* p, size_t bytes) {
  return reverse_bits(msb_first<kCrc32Polynomial, true>(reverse_bits(state), to, p, bytes));
}

uint32_t crc32c_update_x86(uint32_t state, const uint8_t* p, size_t bytes) {
  return static_cast<uint32_t>(lsb_first<kCrc32cPolynomial, false>(state, nullptr, p, bytes));
}
uint32_t crc32c_copy_x86(uint32_t state, uint8_t* to, const uint8_t* p, size_t bytes) {
  return static_cast<uint32_t>(lsb_first<kCrc32cPolynomial, true>(state, to, p, bytes));
}

uint64_t crc64_update_x86(uint64_t state, const uint8_t* p, size_t bytes) {
  return lsb_first<kCrc64Polynomial, false>(state, nullptr, p, bytes);
}
uint64_t crc64_copy_x86(uint64_t state, uint8_t* to, const uint8_t* p, size_t bytes) {
  return lsb_first<kCrc64Polynomial, true>(state, to, p, bytes);
}

uint16_t crc16_t10_update_x86(uint16_t state, const uint8_t* p, size_t bytes) {
  return static_cast<uint16_t>(reverse16(static_cast<uint16_t>(
      msb_first<kCrc16T10Polynomial, false>(reverse16(state), nullptr, p, bytes))));
}
uint16_t crc16_t10_copy_x86(uint16_t state, uint8_t* to, const uint8_t* p, size_t bytes) {
  return static_cast<uint16_t>(reverse16(
      static_cast<uint16_t>(msb_first<kCrc16T10Polynomial, true>(reverse16(state), to, p, bytes))));
}

}  // namespace verbena

#endif
