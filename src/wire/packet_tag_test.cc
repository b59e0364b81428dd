// SPDX-License-Identifier: Apache-2.0
#include "wire/packet_tag.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "wire/packet_tag_fast.h"
#include "wire/packet_tag_portable.h"

namespace verbena::wire {
namespace {

[[nodiscard]] std::vector<uint8_t> bytes(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::vector<uint8_t> out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<uint8_t>(digit(hex[i]) << 4 | digit(hex[i + 1])));
  }
  return out;
}

[[nodiscard]] Block block(std::string_view hex) {
  Block out{};
  std::ranges::copy(bytes(hex), out.begin());
  return out;
}

[[nodiscard]] std::vector<const PacketTag::Way*> ways() {
  std::vector<const PacketTag::Way*> all{&PacketTag::portable_way()};
  if (has_fast_tags()) all.push_back(&PacketTag::best_way());
  return all;
}

constexpr Gid kHere = Gid::from_ipv4(10, 0, 0, 1);
constexpr Gid kThere = Gid::from_ipv4(10, 0, 0, 2);

// FIPS 197, appendix C.1.
TEST(PacketTag, EncryptsAsTheStandardHasIt) {
  TagTables tables;
  expand_key_portable(block("000102030405060708090a0b0c0d0e0f"), tables);
  for (const auto* way : ways()) {
    Block data = block("00112233445566778899aabbccddeeff");
    way->encrypt(tables, data);
    EXPECT_EQ(data, block("69c4e0d86a7b0430d8cdb78070b4c55a"));
  }
}

// RFC 8452, appendix A.
TEST(PacketTag, HashesAsTheStandardHasIt) {
  TagTables tables;
  tables.powers[0] = block("25629347589242761d31f826ba4b757b");
  tables.powers[1] = dot_portable(tables.powers[0], tables.powers[0]);
  const auto data = bytes("4f4f95668c83dfb6401762bb2d01a262d1a24ddd2721d006bbe45f20d3c9f362");
  for (const auto* way : ways()) {
    Block sum{};
    way->hash(tables, sum, data.data(), 2);
    EXPECT_EQ(sum, block("f7a3b47b846119fae5b7866cf5e5b77e"));
  }
}

// RFC 4493, section 4.
TEST(PacketTag, AuthenticatesAsTheStandardHasIt) {
  const Block key = block("2b7e151628aed2a6abf7158809cf4f3c");
  EXPECT_EQ(cmac(key, {}), block("bb1d6929e95937287fa37d129b756746"));
  EXPECT_EQ(cmac(key, bytes("6bc1bee22e409f96e93d7e117393172a")),
            block("070a16b46b4d4144f79bdd9dd04a287c"));
  EXPECT_EQ(cmac(key, bytes("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
                            "30c81c46a35ce411")),
            block("dfa66747de9ae63030ca32611497c827"));
}

TEST(PacketTag, SecretsOfAnyLengthHaveKeysOfTheirOwn) {
  std::vector<Block> seen;
  for (size_t length = 0; length < 40; ++length) {
    const TagKey key = tag_key_of(std::vector<uint8_t>(length, 7));
    for (const Block& one : {key.hash, key.cipher}) {
      EXPECT_EQ(std::ranges::find(seen, one), seen.end()) << length;
      seen.push_back(one);
    }
  }
}

TEST(PacketTag, EveryWayGivesTheSame) {
  SeededRandom random(1);
  const TagKey key = tag_key_of(bytes("0123456789"));
  const PacketTag slow(key, PacketTag::portable_way());
  const PacketTag best(key);
  std::vector<uint8_t> packet;
  for (size_t length = 0; length < 600; ++length) {
    EXPECT_EQ(slow.of(kHere, kThere, packet), best.of(kHere, kThere, packet)) << length;
    packet.push_back(static_cast<uint8_t>(random.next()));
  }
}

TEST(PacketTag, EveryBitCounts) {
  const PacketTag tag(tag_key_of(bytes("0123456789")));
  std::vector<uint8_t> packet(100, 0x33);
  const Block right = tag.of(kHere, kThere, packet);
  EXPECT_TRUE(PacketTag::same(right, right.data()));
  for (size_t bit = 0; bit < 8 * packet.size(); ++bit) {
    packet[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_FALSE(PacketTag::same(tag.of(kHere, kThere, packet), right.data())) << bit;
    packet[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  }
  EXPECT_NE(tag.of(kThere, kHere, packet), right);
  packet.push_back(0);
  EXPECT_NE(tag.of(kHere, kThere, packet), right);
  packet.resize(99);
  EXPECT_NE(tag.of(kHere, kThere, packet), right);
  EXPECT_NE(PacketTag(tag_key_of(bytes("0123456788"))).of(kHere, kThere, packet),
            tag.of(kHere, kThere, packet));
}

}  // namespace
}  // namespace verbena::wire
