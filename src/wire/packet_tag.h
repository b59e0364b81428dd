// SPDX-License-Identifier: Apache-2.0
// A tag of 16 bytes by which a packet shows that it was made by somebody who has the key: POLYVAL
// (RFC 8452), a polynomial hash by carry-less multiplication, of addresses and packet, then
// AES-128. The cipher hides the hash, so that no number is needed which is used once; a packet that
// is seen again has the same tag.
//
// With instructions for both (x86-64: PCLMULQDQ and AES-NI, arm64: PMULL and AES) it is as quick as
// a CRC. Without them it is slow, and the time it takes may tell something of the key to other
// processes of the machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/gid.h"

namespace verbena::wire {

using Block = std::array<uint8_t, 16>;

struct TagKey {
  Block hash{};
  Block cipher{};
};
// Of a secret of any length.
[[nodiscard]] TagKey tag_key_of(std::span<const uint8_t> secret);

// A key as it is used; made once.
struct TagTables {
  static constexpr size_t kPowers = 8;
  static constexpr size_t kRounds = 10;
  alignas(16) std::array<Block, kPowers> powers{};          // of the hash's key, from the first on
  alignas(16) std::array<Block, kRounds + 1> round_keys{};  // of the cipher
};

class PacketTag {
 public:
  static constexpr uint32_t kBytes = 16;
  // What does the work; nothing but the time differs.
  struct Way {
    // Into `sum`, `count` blocks.
    void (*hash)(const TagTables& tables, Block& sum, const uint8_t* blocks, size_t count);
    void (*encrypt)(const TagTables& tables, Block& block);
  };

  explicit PacketTag(const TagKey& key) : PacketTag(key, best_way()) {}
  PacketTag(const TagKey& key, const Way& way);

  [[nodiscard]] Block of(const Gid& source, const Gid& destination,
                         std::span<const uint8_t> packet) const;
  // In a time that does not depend on where they differ.
  [[nodiscard]] static bool same(const Block& one, const uint8_t* other);

  [[nodiscard]] static const Way& portable_way();
  [[nodiscard]] static const Way& best_way();

 private:
  TagTables tables_;
  const Way& way_;
};

// AES-CMAC (RFC 4493), for keys.
[[nodiscard]] Block cmac(const Block& key, std::span<const uint8_t> message);

}  // namespace verbena::wire
