// SPDX-License-Identifier: Apache-2.0
#include "base/kernel_random.h"

#include <bit>
#include <cerrno>
#include <cstddef>

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace verbena {
namespace {

// Fills it by read(at, bytes), which gives what it could or -1. 0 or errno.
template <typename Read>
[[nodiscard]] int fill(uint8_t* at, size_t left, Read&& read) {
  while (left > 0) {
    const ssize_t got = read(at, left);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : EIO;
    at += got;
    left -= static_cast<size_t>(got);
  }
  return 0;
}

void quarter_round(std::array<uint32_t, 16>& x, size_t a, size_t b, size_t c, size_t d) {
  x[a] += x[b];
  x[d] = std::rotl(x[d] ^ x[a], 16);
  x[c] += x[d];
  x[b] = std::rotl(x[b] ^ x[c], 12);
  x[a] += x[b];
  x[d] = std::rotl(x[d] ^ x[a], 8);
  x[c] += x[d];
  x[b] = std::rotl(x[b] ^ x[c], 7);
}

}  // namespace

void detail::chacha20_block(const std::array<uint32_t, 8>& key, uint32_t counter, uint32_t* out) {
  std::array<uint32_t, 16> start{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
  for (size_t i = 0; i < key.size(); ++i) start[4 + i] = key[i];
  start[12] = counter;
  std::array<uint32_t, 16> x = start;
  for (int round = 0; round < 10; ++round) {
    quarter_round(x, 0, 4, 8, 12);
    quarter_round(x, 1, 5, 9, 13);
    quarter_round(x, 2, 6, 10, 14);
    quarter_round(x, 3, 7, 11, 15);
    quarter_round(x, 0, 5, 10, 15);
    quarter_round(x, 1, 6, 11, 12);
    quarter_round(x, 2, 7, 8, 13);
    quarter_round(x, 3, 4, 9, 14);
  }
  for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] + start[i];
}

int KernelRandom::seed() {
  auto* const at = reinterpret_cast<uint8_t*>(key_.data());
  const size_t bytes = sizeof key_;
  used_ = words_.size();
  if (fill(at, bytes, [](uint8_t* to, size_t n) { return ::getrandom(to, n, 0); }) == 0) return 0;
  const UniqueFd device(::open("/dev/urandom", O_RDONLY | O_CLOEXEC));
  if (!device.valid()) return errno;
  return fill(at, bytes, [&](uint8_t* to, size_t n) { return ::read(device.get(), to, n); });
}

void KernelRandom::refill() {
  for (size_t block = 0; block < kBlocks; ++block) {
    detail::chacha20_block(key_, static_cast<uint32_t>(block), words_.data() + block * kBlockWords);
  }
  for (size_t i = 0; i < kKeyWords; ++i) {
    key_[i] = words_[i];
    words_[i] = 0;
  }
  used_ = kKeyWords;
}

uint64_t KernelRandom::next() {
  if (used_ == words_.size()) refill();
  const uint64_t high = words_[used_];
  const uint64_t low = words_[used_ + 1];
  words_[used_] = words_[used_ + 1] = 0;
  used_ += 2;
  return high << 32 | low;
}

}  // namespace verbena
