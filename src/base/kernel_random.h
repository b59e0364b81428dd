// SPDX-License-Identifier: Apache-2.0
// Numbers that nobody can guess: a key from the kernel's random source, expanded by ChaCha20. Each
// buffer's first bytes are the next key, so that what was given out is not found again in memory.
// The kernel is asked once, at the start: a sandbox that a program enters later takes nothing away.
//
// Owned by one thread at a time. A forked child must not go on with its parent's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/random.h"

namespace verbena {

class KernelRandom final : public RandomSource {
 public:
  // Asks the kernel, by getrandom or /dev/urandom. 0, or the errno of the last way that failed.
  [[nodiscard]] int seed();
  [[nodiscard]] uint64_t next() override;

 private:
  static constexpr size_t kKeyWords = 8;
  static constexpr size_t kBlockWords = 16;
  static constexpr size_t kBlocks = 4;

  void refill();

  std::array<uint32_t, kKeyWords> key_{};
  std::array<uint32_t, kBlocks * kBlockWords> words_{};
  size_t used_ = kBlocks * kBlockWords;
};

namespace detail {
// One block of RFC 8439's ChaCha20, with a zero nonce.
void chacha20_block(const std::array<uint32_t, 8>& key, uint32_t counter, uint32_t* out);
}  // namespace detail

}  // namespace verbena
