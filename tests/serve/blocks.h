// SPDX-License-Identifier: Apache-2.0
// Objects of blocks: each write fills one block with one token, so that half a write, or two mixed,
// shows. The name of an object says how long its blocks are: "NAME.BYTES".
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>

namespace verbena::serve {

// Inline and by RDMA, whole chunks and parts of them.
inline constexpr uint32_t kBlockBytes[] = {520, 4096, 32768, 50'000, 300'000};
inline constexpr uint32_t kBlocks = 8;

inline std::string name_of(const std::string& name, uint32_t block_bytes) {
  return name + "." + std::to_string(block_bytes);
}
// 0: it is not such an object.
inline uint32_t block_bytes_of(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? 0 : static_cast<uint32_t>(std::atoi(name.c_str() + dot + 1));
}

inline void fill(std::span<uint8_t> block, uint64_t token) {
  for (size_t i = 0; i + sizeof token <= block.size(); i += sizeof token) {
    std::memcpy(block.data() + i, &token, sizeof token);
  }
}
// The token that the whole block has; nothing: it has several.
inline std::optional<uint64_t> token_of(std::span<const uint8_t> block) {
  uint64_t token = 0;
  std::memcpy(&token, block.data(), sizeof token);
  for (size_t i = 0; i + sizeof token <= block.size(); i += sizeof token) {
    if (std::memcmp(block.data() + i, &token, sizeof token) != 0) return std::nullopt;
  }
  return token;
}

}  // namespace verbena::serve
