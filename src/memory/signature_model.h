// SPDX-License-Identifier: Apache-2.0
// A naive model of signatures, for tests: whole messages, each sum bit by bit from its definition.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bitwise_crc.h"
#include "memory/signature.h"

namespace verbena::memory::signature_model {

using Bytes = std::vector<uint8_t>;

[[nodiscard]] inline Bytes naive_signature(const SignatureDomain& domain,
                                           std::span<const uint8_t> block, uint64_t index) {
  const auto seed32 = static_cast<uint32_t>(domain.seed);
  const auto big = [](uint64_t value, int bytes) {
    Bytes out;
    for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<uint8_t>(value >> (8 * i)));
    return out;
  };
  switch (domain.kind) {
    case SignatureKind::kNone: return {};
    case SignatureKind::kCrc32:
      return big(~bitwise_crc_msb<uint32_t>(0x04c11db7, seed32, block), 4);
    case SignatureKind::kCrc32c: {
      Bytes out = big(~bitwise_crc_lsb<uint32_t>(0x82f63b78, seed32, block), 4);
      std::ranges::reverse(out);
      return out;
    }
    case SignatureKind::kCrc64: {
      Bytes out = big(~bitwise_crc_lsb<uint64_t>(0x9a6c9329ac4bc9b5, domain.seed, block), 8);
      std::ranges::reverse(out);
      return out;
    }
    default: break;
  }
  uint64_t guard = domain.seed;
  if (domain.kind == SignatureKind::kDifCrc) {
    guard = bitwise_crc_msb<uint16_t>(0x8bb7, static_cast<uint16_t>(domain.seed), block);
  } else {
    for (size_t i = 0; i < block.size(); i += 2) {
      guard += (uint64_t{block[i]} << 8) + (i + 1 < block.size() ? block[i + 1] : 0);
    }
    while (guard >> 16 != 0) guard = (guard & 0xffff) + (guard >> 16);
    guard = ~guard & 0xffff;
  }
  Bytes out = big(guard, 2);
  for (const uint8_t byte : big(domain.app_tag, 2)) out.push_back(byte);
  const uint32_t ref = domain.ref_tag + (domain.ref_counts ? static_cast<uint32_t>(index) : 0);
  for (const uint8_t byte : big(ref, 4)) out.push_back(byte);
  return out;
}

struct Model {
  Bytes data;
  std::vector<Bytes> signatures;  // as they were found
};

// Takes apart the bytes of one side.
[[nodiscard]] inline Model apart(const SignatureDomain& domain, const Bytes& bytes) {
  Model model;
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t n =
        domain.present() ? std::min<size_t>(domain.block, bytes.size() - at) : bytes.size() - at;
    // A block without room for its signature is not part of the range.
    if (domain.present() && n == domain.block && bytes.size() - at - n < domain.bytes()) break;
    model.data.insert(model.data.end(), bytes.begin() + at, bytes.begin() + at + n);
    at += n;
    if (!domain.present() || n < domain.block) break;
    model.signatures.emplace_back(bytes.begin() + at, bytes.begin() + at + domain.bytes());
    at += domain.bytes();
  }
  return model;
}

[[nodiscard]] inline Bytes together(const SignatureDomain& domain, const Bytes& data,
                                    const std::vector<Bytes>& found, uint8_t copy_mask) {
  if (!domain.present()) return data;
  Bytes out;
  for (size_t at = 0, index = 0; at < data.size(); ++index) {
    const size_t n = std::min<size_t>(domain.block, data.size() - at);
    const std::span block(data.data() + at, n);
    out.insert(out.end(), block.begin(), block.end());
    at += n;
    if (n < domain.block) break;
    Bytes signature = naive_signature(domain, block, index);
    for (size_t i = 0; i < signature.size(); ++i) {
      if ((copy_mask & (0x80 >> i)) != 0) signature[i] = found.at(index)[i];
    }
    out.insert(out.end(), signature.begin(), signature.end());
  }
  return out;
}

// The first block of arriving data whose signature is wrong; its offset.
[[nodiscard]] inline std::optional<uint64_t> first_wrong(const SignatureDomain& domain,
                                                         uint8_t mask, const Model& model) {
  for (size_t index = 0; index < model.signatures.size(); ++index) {
    const Bytes right = naive_signature(
        domain, std::span(model.data).subspan(index * domain.block, domain.block), index);
    const Bytes& found = model.signatures[index];
    const bool dif = is_dif(domain.kind);
    const bool app = dif && found[2] == 0xff && found[3] == 0xff;
    const bool ref = dif && std::all_of(found.begin() + 4, found.end(),
                                        [](uint8_t byte) { return byte == 0xff; });
    if (app && (domain.app_escape || (domain.app_ref_escape && ref))) continue;
    for (size_t i = 0; i < right.size(); ++i) {
      if ((mask & (0x80 >> i)) != 0 && right[i] != found[i]) {
        return index * (domain.block + domain.bytes());
      }
    }
  }
  return std::nullopt;
}

}  // namespace verbena::memory::signature_model
