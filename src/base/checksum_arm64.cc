// SPDX-License-Identifier: Apache-2.0
// Compiled with the CRC and crypto extensions; nothing in here runs before has_crc32_arm64() said
// yes.
//
// All of it is for reflected CRCs. One that takes the most significant bit first is the reflected
// one of the message with the bits of every byte reversed, its state reversed too.
//
// Where the CRC unit knows the polynomial, a block is two parts, A then B. In each step 128 bytes
// of A are folded into eight 128-bit lanes and 64 bytes of B go through the CRC unit:
//
//     |<------------- A: 128 (n + 1) bytes ------------->|<---- B: 64 n bytes ---->|
//
// Then the CRC unit turns the lanes, as the 128 bytes that stand for A, into A's remainder, which
// is moved past B: times x^(8 * 64 n).
//
// Other CRCs, of 64 bits, are folded all the way and the last lane divided by multiplication
// (Barrett). One of 16 bits is such a one times x^48: polynomial and state are shifted up.
#include "base/checksum_arm64.h"

#if defined(__aarch64__)

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <arm_acle.h>
#include <arm_neon.h>
#include <sys/auxv.h>

#include "base/block_sums.h"
#include "base/checksum.h"

namespace verbena {
namespace {

constexpr size_t kLanes = 8;
constexpr size_t kLane = 16;
constexpr size_t kStepA = kLanes * kLane;
constexpr size_t kStepB = 64;
constexpr size_t kMaxSteps = 64;
constexpr size_t kLeastSteps = 2;  // below that the CRC unit alone is as quick

// The bits of a message in the order in which a reflected CRC takes them, or in the other.
struct LsbFirst {
  template <typename Word>
  [[nodiscard]] static Word order(Word word) {
    return word;
  }
};
struct MsbFirst {
  [[nodiscard]] static uint64x2_t order(uint64x2_t lane) {
    return vreinterpretq_u64_u8(vrbitq_u8(vreinterpretq_u8_u64(lane)));
  }
  template <typename Word>
  [[nodiscard]] static Word order(Word word) {
    return std::byteswap(static_cast<Word>(__rbitll(word) >> (64 - 8 * sizeof(Word))));
  }
};

// CRCs that the unit knows. feed: the state after one word.
struct Crc32Unit {
  using Algebra = Crc32Algebra;
  [[nodiscard]] static uint32_t feed(uint32_t state, uint64_t v) { return __crc32d(state, v); }
  [[nodiscard]] static uint32_t feed(uint32_t state, uint32_t v) { return __crc32w(state, v); }
  [[nodiscard]] static uint32_t feed(uint32_t state, uint8_t v) { return __crc32b(state, v); }
};
struct Crc32cUnit {
  using Algebra = CrcAlgebra<kCrc32cPolynomial>;
  [[nodiscard]] static uint32_t feed(uint32_t state, uint64_t v) { return __crc32cd(state, v); }
  [[nodiscard]] static uint32_t feed(uint32_t state, uint32_t v) { return __crc32cw(state, v); }
  [[nodiscard]] static uint32_t feed(uint32_t state, uint8_t v) { return __crc32cb(state, v); }
};

// What is read of [from, ...) is stored at [to, ...) on the way, if kCopy.
template <typename Order, bool kCopy>
class Reader {
 public:
  Reader(const uint8_t* from, uint8_t* to) : from_(from), to_(to) {}
  // Many words at once: all are read before the first is stored, which the compiler, not knowing
  // that they do not overlap, would not dare. Here and below loops are unrolled by order: at -O2
  // GCC leaves them be, and with them the words and lanes in memory, at up to twice the time.
  template <typename Word, size_t kCount>
  void words(const uint8_t* p, Word (&values)[kCount]) const {
#pragma GCC unroll 16
    for (size_t i = 0; i < kCount; ++i) std::memcpy(&values[i], p + i * sizeof(Word), sizeof(Word));
    if constexpr (kCopy) {
      uint8_t* to = to_ + (p - from_);
#pragma GCC unroll 16
      for (size_t i = 0; i < kCount; ++i) {
        std::memcpy(to + i * sizeof(Word), &values[i], sizeof(Word));
      }
    }
#pragma GCC unroll 16
    for (Word& value : values) value = Order::order(value);
  }
  template <typename Word>
  [[nodiscard]] Word word(const uint8_t* p) const {
    Word value[1];
    words(p, value);
    return value[0];
  }

 private:
  const uint8_t* from_;
  uint8_t* to_;
};

// Moves a 128-bit lane forward by so many bytes: its halves times x^(8 n + 64) and x^(8 n). The
// carry-less product of reflected values has one x too many, and 64 - kBits more as a factor of
// kBits lies in 64.
template <typename Algebra>
struct FoldBy {
  explicit constexpr FoldBy(size_t bytes)
      : low(Algebra::power(8 * bytes + Algebra::kBits - 1)),
        high(Algebra::power(8 * bytes + Algebra::kBits - 65)) {}
  [[nodiscard]] poly64x2_t constants() const {
    return vcombine_p64(vcreate_p64(low), vcreate_p64(high));
  }
  uint64_t low;
  uint64_t high;
};

[[nodiscard]] inline uint64x2_t times(uint64_t a, uint64_t b) {
  return vreinterpretq_u64_p128(vmull_p64(static_cast<poly64_t>(a), static_cast<poly64_t>(b)));
}

[[nodiscard]] inline uint64x2_t fold(uint64x2_t lane, poly64x2_t by, uint64x2_t onto) {
  const auto low = times(vgetq_lane_u64(lane, 0), vgetq_lane_p64(by, 0));
  const auto high = vreinterpretq_u64_p128(vmull_high_p64(vreinterpretq_p64_u64(lane), by));
  return veorq_u64(veorq_u64(low, high), onto);
}

// The lanes that bytes are folded into.
template <typename Algebra>
struct Lanes {
  template <typename Read>
  Lanes(uint64_t state, const uint8_t* p, Read read) {
    read.words(p, lane);
    lane[0] = veorq_u64(lane[0], vsetq_lane_u64(state, vdupq_n_u64(0), 0));
  }
  template <typename Read>
  void step(const uint8_t* p, Read read) {
    uint64x2_t next[kLanes];
    read.words(p, next);
#pragma GCC unroll 8
    for (size_t i = 0; i < kLanes; ++i) lane[i] = fold(lane[i], next_step_, next[i]);
  }
  uint64x2_t lane[kLanes];

 private:
  static constexpr FoldBy<Algebra> kNextStep{kStepA};
  poly64x2_t next_step_ = kNextStep.constants();
};

// x^(8 * 64 n) as move() wants it: the product of two reflected values, reduced by the CRC unit,
// comes out times x^33, kCrc32TimesSurplus.
template <typename Algebra>
constexpr auto kPastB = [] {
  std::array<uint32_t, kMaxSteps + 1> table{};
  for (size_t n = 1; n <= kMaxSteps; ++n) {
    table[n] = Algebra::power(8 * kStepB * n - kCrc32TimesSurplus);
  }
  return table;
}();

template <typename Unit>
[[nodiscard]] inline uint32_t move(uint32_t state, uint32_t by) {
  return Unit::feed(0, vgetq_lane_u64(times(state, by), 0));
}

// A block of `steps` steps at p.
template <typename Unit, typename Read>
[[nodiscard]] uint32_t update_block(uint32_t state, const uint8_t* p, size_t steps, Read read) {
  Lanes<typename Unit::Algebra> a(state, p, read);
  p += kStepA;
  const uint8_t* b = p + steps * kStepA;
  uint32_t state_b = 0;
  for (size_t step = 0; step < steps; ++step) {
    a.step(p, read);
    uint64_t words[kStepB / 8];
    read.words(b, words);
#pragma GCC unroll 16
    for (const uint64_t word : words) state_b = Unit::feed(state_b, word);
    p += kStepA;
    b += kStepB;
  }
  uint32_t state_a = 0;
#pragma GCC unroll 8
  for (const uint64x2_t lane : a.lane) {
    state_a = Unit::feed(Unit::feed(state_a, vgetq_lane_u64(lane, 0)), vgetq_lane_u64(lane, 1));
  }
  return move<Unit>(state_a, kPastB<typename Unit::Algebra>[steps]) ^ state_b;
}

template <typename Unit, typename Read>
[[nodiscard]] uint32_t update(uint32_t state, const uint8_t* p, size_t bytes, Read read) {
  while (bytes >= kStepA + kLeastSteps * (kStepA + kStepB)) {
    const size_t steps = std::min((bytes - kStepA) / (kStepA + kStepB), kMaxSteps);
    state = update_block<Unit>(state, p, steps, read);
    const size_t done = kStepA + steps * (kStepA + kStepB);
    p += done;
    bytes -= done;
  }
  for (; bytes >= 8; bytes -= 8, p += 8) {
    state = Unit::feed(state, read.template word<uint64_t>(p));
  }
  if ((bytes & 4) != 0) {
    state = Unit::feed(state, read.template word<uint32_t>(p));
    p += 4;
  }
  for (bytes &= 3; bytes > 0; --bytes, ++p) {
    state = Unit::feed(state, read.template word<uint8_t>(p));
  }
  return state;
}

// x^128 divided by the polynomial of 64 bits, without the leading term.
template <auto kPolynomial>
constexpr uint64_t kInverse = [] {
  uint64_t quotient = 0;
  uint64_t rest = kPolynomial;
  for (int i = 0; i < 64; ++i, rest = CrcAlgebra<kPolynomial>::times_x(rest)) {
    quotient |= (rest & 1) << i;
  }
  return quotient;
}();

// v times x^64, reduced: the state after a word, given the XOR of the state before and the word.
template <auto kPolynomial>
[[nodiscard]] inline uint64_t times_x64(uint64_t v) {
  const uint64_t quotient = v ^ (vgetq_lane_u64(times(v, kInverse<kPolynomial>), 0) << 1);
  const uint64x2_t product = times(quotient, kPolynomial);
  return (vgetq_lane_u64(product, 1) << 1) | (vgetq_lane_u64(product, 0) >> 63);
}

// Eight lanes folded into one.
template <typename Algebra>
[[nodiscard]] inline uint64x2_t only_lane(Lanes<Algebra>& all) {
  static constexpr FoldBy<Algebra> kHalvings[] = {
      FoldBy<Algebra>(4 * kLane), FoldBy<Algebra>(2 * kLane), FoldBy<Algebra>(kLane)};
  size_t left = kLanes;
#pragma GCC unroll 3
  for (const auto& halving : kHalvings) {
    left /= 2;
    const poly64x2_t by = halving.constants();
#pragma GCC unroll 4
    for (size_t i = 0; i < left; ++i) all.lane[i] = fold(all.lane[i], by, all.lane[i + left]);
  }
  return all.lane[0];
}

// For CRCs of 64 bits.
template <auto kPolynomial, typename Read>
[[nodiscard]] uint64_t update64(uint64_t state, const uint8_t* p, size_t bytes, Read read) {
  using Algebra = CrcAlgebra<kPolynomial>;
  if (bytes >= kStepA) {
    Lanes<Algebra> lanes(state, p, read);
    for (p += kStepA, bytes -= kStepA; bytes >= kStepA; p += kStepA, bytes -= kStepA) {
      lanes.step(p, read);
    }
    uint64x2_t lane = only_lane(lanes);
    static constexpr FoldBy<Algebra> kNextLane{kLane};
    for (; bytes >= kLane; bytes -= kLane, p += kLane) {
      lane = fold(lane, kNextLane.constants(), read.template word<uint64x2_t>(p));
    }
    state = times_x64<kPolynomial>(vgetq_lane_u64(lane, 0)) ^ vgetq_lane_u64(lane, 1);
    state = times_x64<kPolynomial>(state);
  }
  for (; bytes >= 8; bytes -= 8, p += 8) {
    state = times_x64<kPolynomial>(state ^ read.template word<uint64_t>(p));
  }
  for (; bytes > 0; --bytes, ++p) {
    const uint64_t first = (state ^ read.template word<uint8_t>(p)) << 56;
    state = (state >> 8) ^ times_x64<kPolynomial>(first);
  }
  return state;
}

constexpr uint64_t kCrc16T10Polynomial = 0xedd1;  // 0x8bb7 reflected, times x^48

[[nodiscard]] inline uint32_t reverse(uint32_t state) { return __rbit(state); }
[[nodiscard]] inline uint16_t reverse(uint16_t state) {
  return static_cast<uint16_t>(__rbit(state) >> 16);
}

}  // namespace

bool has_crc32_arm64() {
  constexpr unsigned long kPmull = 1 << 4;
  constexpr unsigned long kCrc32 = 1 << 7;
  static const bool has = (::getauxval(AT_HWCAP) & (kPmull | kCrc32)) == (kPmull | kCrc32);
  return has;
}

uint32_t crc32_update_arm64(uint32_t state, const uint8_t* p, size_t bytes) {
  return update<Crc32Unit>(state, p, bytes, Reader<LsbFirst, false>(p, nullptr));
}

uint32_t crc32_copy_arm64(uint32_t state, uint8_t* to, const uint8_t* p, size_t bytes) {
  return update<Crc32Unit>(state, p, bytes, Reader<LsbFirst, true>(p, to));
}

uint32_t crc32_msb_update_arm64(uint32_t state, const uint8_t* p, size_t bytes) {
  return reverse(update<Crc32Unit>(reverse(state), p, bytes, Reader<MsbFirst, false>(p, nullptr)));
}

uint32_t crc32_msb_copy_arm64(uint32_t state, uint8_t* to, const uint8_t* p, size_t bytes) {
  return reverse(update<Crc32Unit>(reverse(state), p, bytes, Reader<MsbFirst, true>(p, to)));
}

uint32_t crc32_msb_times_arm64(uint32_t state, uint32_t by) {
  return reverse(move<Crc32Unit>(reverse(state), by));
}

uint32_t crc32c_update_arm64(uint32_t state, const uint8_t* p, size_t bytes) {
  return update<Crc32cUnit>(state, p, bytes, Reader<LsbFirst, false>(p, nullptr));
}

uint32_t crc32c_copy_arm64(uint32_t state, uint8_t* to, const uint8_t* p, size_t bytes) {
  return update<Crc32cUnit>(state, p, bytes, Reader<LsbFirst, true>(p, to));
}

uint64_t crc64_update_arm64(uint64_t state, const uint8_t* p, size_t bytes) {
  return update64<kCrc64Polynomial>(state, p, bytes, Reader<LsbFirst, false>(p, nullptr));
}

uint64_t crc64_copy_arm64(uint64_t state, uint8_t* to, const uint8_t* p, size_t bytes) {
  return update64<kCrc64Polynomial>(state, p, bytes, Reader<LsbFirst, true>(p, to));
}

uint16_t crc16_t10_update_arm64(uint16_t state, const uint8_t* p, size_t bytes) {
  return reverse(static_cast<uint16_t>(update64<kCrc16T10Polynomial>(
      reverse(state), p, bytes, Reader<MsbFirst, false>(p, nullptr))));
}

uint16_t crc16_t10_copy_arm64(uint16_t state, uint8_t* to, const uint8_t* p, size_t bytes) {
  return reverse(static_cast<uint16_t>(
      update64<kCrc16T10Polynomial>(reverse(state), p, bytes, Reader<MsbFirst, true>(p, to))));
}

}  // namespace verbena

#endif
