// SPDX-License-Identifier: Apache-2.0
// Randomness is an argument. The device passes the kernel's source (nothing guessable: keys, first
// PSNs, QP numbers); the simulator and the tests pass a seeded generator, so that one seed is one
// history.
#pragma once

#include <bit>
#include <cstdint>

namespace verbena {

class RandomSource {
 public:
  virtual ~RandomSource() = default;
  [[nodiscard]] virtual uint64_t next() = 0;
  // Uniform in [0, bound). bound > 0.
  [[nodiscard]] uint64_t below(uint64_t bound) {
    // Multiply-shift with rejection (Lemire): unbiased, nearly always one draw.
    unsigned __int128 product = static_cast<unsigned __int128>(next()) * bound;
    auto low = static_cast<uint64_t>(product);
    if (low < bound) {
      const uint64_t threshold = (0 - bound) % bound;
      while (low < threshold) {
        product = static_cast<unsigned __int128>(next()) * bound;
        low = static_cast<uint64_t>(product);
      }
    }
    return static_cast<uint64_t>(product >> 64);
  }
  // True with probability parts_per_million / 1e6.
  [[nodiscard]] bool chance_ppm(uint32_t parts_per_million) {
    return below(1'000'000) < parts_per_million;
  }
};

// xoshiro256**, seeded through splitmix64. Deterministic; not for secrets.
class SeededRandom final : public RandomSource {
 public:
  explicit SeededRandom(uint64_t seed) {
    for (uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      word = z ^ (z >> 31);
    }
  }
  [[nodiscard]] uint64_t next() override {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

 private:
  uint64_t state_[4]{};
};

}  // namespace verbena
