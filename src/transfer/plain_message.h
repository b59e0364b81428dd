// SPDX-License-Identifier: Apache-2.0
// The message of plain mode, as programs have it that were written after the original: a C
// structure in memory's own byte order, `int id; union { struct { uint64_t addr; uint32_t rkey; }
// mr; } data;`. The receiver sends it; the sender answers with writes whose immediate data is a
// length (docs/transfer.md, "Plain mode").
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace verbena::transfer {

inline constexpr uint16_t kPlainPort = 12345;
inline constexpr uint32_t kPlainBufferBytes = 10u << 20;
inline constexpr size_t kPlainMessageBytes = 24;

struct PlainMessage {
  enum class Kind : int32_t { kMemory = 1, kReady = 2, kDone = 3 };
  Kind kind = Kind::kReady;
  uint64_t address = 0;  // of kMemory
  uint32_t rkey = 0;
  bool operator==(const PlainMessage&) const = default;
};

[[nodiscard]] std::array<uint8_t, kPlainMessageBytes> encode(const PlainMessage& message);
// nullopt: not one of them.
[[nodiscard]] std::optional<PlainMessage> decode_plain(std::span<const uint8_t> bytes);

}  // namespace verbena::transfer
