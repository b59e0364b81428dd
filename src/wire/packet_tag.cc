// SPDX-License-Identifier: Apache-2.0
#include "wire/packet_tag.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/little_endian.h"
#include "wire/packet_tag_fast.h"
#include "wire/packet_tag_portable.h"

namespace verbena::wire {
namespace {

constexpr size_t kBlock = 16;

// Of the two values that CMAC adds to the last block.
[[nodiscard]] Block doubled(const Block& block) {
  Block twice;
  for (size_t i = 0; i < kBlock; ++i) {
    const uint8_t carry = i + 1 < kBlock ? block[i + 1] >> 7 : 0;
    twice[i] = static_cast<uint8_t>(block[i] << 1 | carry);
  }
  if ((block[0] & 0x80) != 0) twice[kBlock - 1] ^= 0x87;
  return twice;
}

[[nodiscard]] std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

Block cmac(const Block& key, std::span<const uint8_t> message) {
  TagTables tables;
  expand_key_portable(key, tables);
  Block zero{};
  encrypt_portable(tables, zero);
  Block last = doubled(zero);
  if (message.empty() || message.size() % kBlock != 0) last = doubled(last);
  Block state{};
  const auto add = [&](std::span<const uint8_t> part) {
    for (size_t i = 0; i < part.size(); ++i) state[i] ^= part[i];
  };
  for (; message.size() > kBlock; message = message.subspan(kBlock)) {
    add(message.first(kBlock));
    encrypt_portable(tables, state);
  }
  add(message);
  if (message.size() < kBlock) state[message.size()] ^= 0x80;
  add(last);
  encrypt_portable(tables, state);
  return state;
}

// AES-CMAC-PRF-128 (RFC 4615) makes a key of the secret, and that one a key for each use.
TagKey tag_key_of(std::span<const uint8_t> secret) {
  Block key{};
  if (secret.size() == kBlock) {
    std::ranges::copy(secret, key.begin());
  } else {
    key = cmac(key, secret);
  }
  return {cmac(key, bytes_of("verbena packets: hash")),
          cmac(key, bytes_of("verbena packets: cipher"))};
}

const PacketTag::Way& PacketTag::portable_way() {
  static constexpr Way kWay{&hash_portable, &encrypt_portable};
  return kWay;
}

const PacketTag::Way& PacketTag::best_way() {
  static constexpr Way kFast{&hash_fast, &encrypt_fast};
  return has_fast_tags() ? kFast : portable_way();
}

PacketTag::PacketTag(const TagKey& key, const Way& way) : way_(way) {
  tables_.powers[0] = key.hash;
  for (size_t i = 1; i < TagTables::kPowers; ++i) {
    tables_.powers[i] = dot_portable(tables_.powers[i - 1], key.hash);
  }
  expand_key_portable(key.cipher, tables_);
}

Block PacketTag::of(const Gid& source, const Gid& destination,
                    std::span<const uint8_t> packet) const {
  const size_t whole = packet.size() / kBlock;
  const size_t rest = packet.size() % kBlock;
  Block sum{};
  std::array<uint8_t, 2 * kBlock> ends;
  std::ranges::copy(source.bytes, ends.begin());
  std::ranges::copy(destination.bytes, ends.begin() + kBlock);
  way_.hash(tables_, sum, ends.data(), 2);
  way_.hash(tables_, sum, packet.data(), whole);
  // What is left of it, and how long it was: two packets that differ in zeros have two tags.
  ends.fill(0);
  if (rest != 0) std::memcpy(ends.data(), packet.data() + whole * kBlock, rest);
  store_le64(ends.data() + kBlock, packet.size());
  way_.hash(tables_, sum, ends.data(), 2);
  way_.encrypt(tables_, sum);
  return sum;
}

bool PacketTag::same(const Block& one, const uint8_t* other) {
  uint8_t different = 0;
  for (size_t i = 0; i < kBlock; ++i)
    different = static_cast<uint8_t>(different | (one[i] ^ other[i]));
  return different == 0;
}

}  // namespace verbena::wire
