// SPDX-License-Identifier: Apache-2.0
// Compiled with the CRC and crypto extensions; nothing in here runs before has_crc32_arm64() said
// yes.
//
// A block is two parts, A then B. In each step 128 bytes of A are folded into eight 128-bit lanes
// and 96 bytes of B go through the CRC unit:
//
//     |<------------- A: 128 (n + 1) bytes ------------->|<---- B: 96 n bytes ---->|
//
// Then the CRC unit turns the lanes, as the 128 bytes that stand for A, into A's remainder, which
// is moved past B: times x^(8 * 96 n).
#include "base/checksum_arm64.h"

#if defined(__aarch64__)

#include <algorithm>
#include <array>
#include <cstring>

#include <arm_acle.h>
#include <arm_neon.h>
#include <sys/auxv.h>

#include "base/checksum.h"

namespace verbena {
namespace {

constexpr size_t kLanes = 8;
constexpr size_t kStepA = kLanes * 16;
constexpr size_t kStepB = 96;
constexpr size_t kMaxSteps = 64;
constexpr size_t kLeastSteps = 2;  // below that the CRC unit alone is as quick

// A polynomial as the carry-less multiplication of reflected values wants it.
constexpr uint64_t fold_constant(uint64_t exponent) {
  return uint64_t{Crc32Algebra::power(exponent)} << 1;
}
// Moves a 128-bit lane forward by so many bits.
struct FoldBy {
  uint64_t low;
  uint64_t high;
};
constexpr FoldBy fold_by(uint64_t bits) {
  return {fold_constant(bits + 32), fold_constant(bits - 32)};
}
constexpr FoldBy kNextStep = fold_by(kStepA * 8);

// x^(8 * 96 n) as move() wants it: the product of two reflected values, reduced by the CRC unit,
// comes out times x^33.
constexpr auto kPastB = [] {
  std::array<uint32_t, kMaxSteps + 1> table{};
  for (size_t n = 1; n <= kMaxSteps; ++n) table[n] = Crc32Algebra::power(8 * kStepB * n - 33);
  return table;
}();

[[nodiscard]] inline uint64x2_t load_lane(const uint8_t* p) {
  return vreinterpretq_u64_u8(vld1q_u8(p));
}

[[nodiscard]] inline uint64x2_t fold(uint64x2_t lane, poly64x2_t by, uint64x2_t onto) {
  const auto low = vreinterpretq_u64_p128(
      vmull_p64(static_cast<poly64_t>(vgetq_lane_u64(lane, 0)), vgetq_lane_p64(by, 0)));
  const auto high = vreinterpretq_u64_p128(vmull_high_p64(vreinterpretq_p64_u64(lane), by));
  return veorq_u64(veorq_u64(low, high), onto);
}

[[nodiscard]] inline poly64x2_t constants(const FoldBy& by) {
  return vcombine_p64(vcreate_p64(by.low), vcreate_p64(by.high));
}

[[nodiscard]] inline uint32_t move(uint32_t state, uint32_t by) {
  const auto product = vreinterpretq_u64_p128(vmull_p64(state, by));
  return __crc32d(0, vgetq_lane_u64(product, 0));
}

// What is read of [from, ...) is stored at [to, ...) on the way, if kCopy.
template <bool kCopy>
class Reader {
 public:
  Reader(const uint8_t* from, uint8_t* to) : from_(from), to_(to) {}
  [[nodiscard]] uint64x2_t lane(const uint8_t* p) const {
    const uint64x2_t value = load_lane(p);
    if constexpr (kCopy) vst1q_u8(to(p), vreinterpretq_u8_u64(value));
    return value;
  }
  template <typename Word>
  [[nodiscard]] Word word(const uint8_t* p) const {
    Word value;
    std::memcpy(&value, p, sizeof value);
    if constexpr (kCopy) std::memcpy(to(p), &value, sizeof value);
    return value;
  }

 private:
  [[nodiscard]] uint8_t* to(const uint8_t* p) const { return to_ + (p - from_); }
  const uint8_t* from_;
  uint8_t* to_;
};

// A block of `steps` steps at p.
template <bool kCopy>
[[nodiscard]] uint32_t update_block(uint32_t state, const uint8_t* p, size_t steps,
                                    Reader<kCopy> read) {
  uint64x2_t lanes[kLanes];
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = read.lane(p + 16 * i);
  lanes[0] = veorq_u64(lanes[0], vsetq_lane_u64(state, vdupq_n_u64(0), 0));
  p += kStepA;
  const uint8_t* b = p + steps * kStepA;
  uint32_t state_b = 0;
  const poly64x2_t next_step = constants(kNextStep);
  for (size_t step = 0; step < steps; ++step) {
    for (size_t i = 0; i < kLanes; ++i) lanes[i] = fold(lanes[i], next_step, read.lane(p + 16 * i));
    for (size_t i = 0; i < kStepB; i += 8) {
      state_b = __crc32d(state_b, read.template word<uint64_t>(b + i));
    }
    p += kStepA;
    b += kStepB;
  }
  uint32_t state_a = 0;
  for (const uint64x2_t lane : lanes) {
    state_a = __crc32d(__crc32d(state_a, vgetq_lane_u64(lane, 0)), vgetq_lane_u64(lane, 1));
  }
  return move(state_a, kPastB[steps]) ^ state_b;
}

template <bool kCopy>
[[nodiscard]] uint32_t update(uint32_t state, const uint8_t* p, size_t bytes, Reader<kCopy> read) {
  while (bytes >= kStepA + kLeastSteps * (kStepA + kStepB)) {
    const size_t steps = std::min((bytes - kStepA) / (kStepA + kStepB), kMaxSteps);
    state = update_block(state, p, steps, read);
    const size_t done = kStepA + steps * (kStepA + kStepB);
    p += done;
    bytes -= done;
  }
  for (; bytes >= 8; bytes -= 8, p += 8) state = __crc32d(state, read.template word<uint64_t>(p));
  if ((bytes & 4) != 0) {
    state = __crc32w(state, read.template word<uint32_t>(p));
    p += 4;
  }
  for (bytes &= 3; bytes > 0; --bytes, ++p) state = __crc32b(state, read.template word<uint8_t>(p));
  return state;
}

}  // namespace

bool has_crc32_arm64() {
  constexpr unsigned long kPmull = 1 << 4;
  constexpr unsigned long kCrc32 = 1 << 7;
  return (::getauxval(AT_HWCAP) & (kPmull | kCrc32)) == (kPmull | kCrc32);
}

uint32_t crc32_update_arm64(uint32_t state, const uint8_t* p, size_t bytes) {
  return update(state, p, bytes, Reader<false>(p, nullptr));
}

uint32_t crc32_copy_arm64(uint32_t state, uint8_t* to, const uint8_t* p, size_t bytes) {
  return update(state, p, bytes, Reader<true>(p, to));
}

}  // namespace verbena

#endif
