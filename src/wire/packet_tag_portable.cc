// SPDX-License-Identifier: Apache-2.0
#include "wire/packet_tag_portable.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/little_endian.h"

namespace verbena::wire {
namespace {

[[nodiscard]] constexpr uint8_t times_x(uint8_t value) {
  return static_cast<uint8_t>(value << 1 ^ ((value & 0x80) != 0 ? 0x1b : 0));
}

// The S-box: the inverse in GF(2^8), by powers of 3 and of its inverse, then an affine map.
[[nodiscard]] constexpr std::array<uint8_t, 256> make_sbox() {
  std::array<uint8_t, 256> sbox{};
  uint8_t p = 1;
  uint8_t q = 1;
  do {
    p = static_cast<uint8_t>(p ^ times_x(p));
    q = static_cast<uint8_t>(q ^ q << 1);
    q = static_cast<uint8_t>(q ^ q << 2);
    q = static_cast<uint8_t>(q ^ q << 4);
    if ((q & 0x80) != 0) q ^= 0x09;
    sbox[p] = static_cast<uint8_t>(q ^ std::rotl(q, 1) ^ std::rotl(q, 2) ^ std::rotl(q, 3) ^
                                   std::rotl(q, 4) ^ 0x63);
  } while (p != 1);
  sbox[0] = 0x63;
  return sbox;
}
constexpr std::array<uint8_t, 256> kSbox = make_sbox();

void add(Block& to, const Block& what) {
  for (size_t i = 0; i < to.size(); ++i) to[i] ^= what[i];
}

// Bytes through the S-box, row i of the columns turned by i.
void substitute_and_shift(Block& block) {
  const Block from = block;
  for (size_t i = 0; i < block.size(); ++i) block[i] = kSbox[from[(i + 4 * (i % 4)) % 16]];
}

void mix_columns(Block& block) {
  for (size_t c = 0; c < 16; c += 4) {
    const std::array<uint8_t, 4> in{block[c], block[c + 1], block[c + 2], block[c + 3]};
    const auto all = static_cast<uint8_t>(in[0] ^ in[1] ^ in[2] ^ in[3]);
    for (size_t i = 0; i < 4; ++i) {
      const auto pair = static_cast<uint8_t>(in[i] ^ in[(i + 1) % 4]);
      block[c + i] = static_cast<uint8_t>(in[i] ^ all ^ times_x(pair));
    }
  }
}

// Polynomials over GF(2), the lowest power in the lowest bit of the first word.
struct Words {
  uint64_t low = 0;
  uint64_t high = 0;
};

[[nodiscard]] Words multiply(uint64_t a, uint64_t b) {
  Words product;
  for (int i = 0; i < 64; ++i) {
    const uint64_t mask = ~((b >> i & 1) - 1);
    product.low ^= (a << i) & mask;
    product.high ^= i == 0 ? 0 : (a >> (64 - i)) & mask;
  }
  return product;
}

[[nodiscard]] Words load(const uint8_t* p) { return {load_le64(p), load_le64(p + 8)}; }

// Divides by x^64, modulo x^128 + x^127 + x^126 + x^121 + 1.
[[nodiscard]] Words divide(const Words& value) {
  constexpr uint64_t kPolynomial = 0xc200'0000'0000'0000;
  const Words by = multiply(value.low, kPolynomial);
  return {value.high ^ by.low, value.low ^ by.high};
}

[[nodiscard]] Words dot(const Words& a, const Words& b) {
  const Words low = multiply(a.low, b.low);
  const Words high = multiply(a.high, b.high);
  const Words one = multiply(a.low, b.high);
  const Words other = multiply(a.high, b.low);
  const uint64_t middle_low = one.low ^ other.low;
  const uint64_t middle_high = one.high ^ other.high;
  const Words rest = divide(divide({low.low, low.high ^ middle_low}));
  return {high.low ^ middle_high ^ rest.low, high.high ^ rest.high};
}

void store(Block& to, const Words& value) {
  store_le64(to.data(), value.low);
  store_le64(to.data() + 8, value.high);
}

}  // namespace

void expand_key_portable(const Block& key, TagTables& tables) {
  tables.round_keys[0] = key;
  uint8_t round_constant = 1;
  for (size_t round = 1; round <= TagTables::kRounds; ++round) {
    const Block& last = tables.round_keys[round - 1];
    Block& next = tables.round_keys[round];
    for (size_t i = 0; i < 4; ++i) {
      next[i] = static_cast<uint8_t>(last[i] ^ kSbox[last[12 + (i + 1) % 4]]);
    }
    next[0] ^= round_constant;
    round_constant = times_x(round_constant);
    for (size_t i = 4; i < next.size(); ++i) next[i] = last[i] ^ next[i - 4];
  }
}

void encrypt_portable(const TagTables& tables, Block& block) {
  add(block, tables.round_keys[0]);
  for (size_t round = 1; round <= TagTables::kRounds; ++round) {
    substitute_and_shift(block);
    if (round < TagTables::kRounds) mix_columns(block);
    add(block, tables.round_keys[round]);
  }
}

void hash_portable(const TagTables& tables, Block& sum, const uint8_t* blocks, size_t count) {
  const Words key = load(tables.powers[0].data());
  Words state = load(sum.data());
  for (; count > 0; --count, blocks += sum.size()) {
    const Words block = load(blocks);
    state = dot({state.low ^ block.low, state.high ^ block.high}, key);
  }
  store(sum, state);
}

Block dot_portable(const Block& a, const Block& b) {
  Block product;
  store(product, dot(load(a.data()), load(b.data())));
  return product;
}

}  // namespace verbena::wire
