// SPDX-License-Identifier: Apache-2.0
#include "transfer/plain_message.h"

#include <cstring>

namespace verbena::transfer {
namespace {

constexpr size_t kAddressAt = 8;
constexpr size_t kRkeyAt = 16;

}  // namespace

std::array<uint8_t, kPlainMessageBytes> encode(const PlainMessage& message) {
  std::array<uint8_t, kPlainMessageBytes> bytes{};
  std::memcpy(bytes.data(), &message.kind, sizeof message.kind);
  std::memcpy(bytes.data() + kAddressAt, &message.address, sizeof message.address);
  std::memcpy(bytes.data() + kRkeyAt, &message.rkey, sizeof message.rkey);
  return bytes;
}

std::optional<PlainMessage> decode_plain(std::span<const uint8_t> bytes) {
  if (bytes.size() < kPlainMessageBytes) return std::nullopt;
  PlainMessage message;
  int32_t kind = 0;
  std::memcpy(&kind, bytes.data(), sizeof kind);
  if (kind < 1 || kind > 3) return std::nullopt;
  message.kind = static_cast<PlainMessage::Kind>(kind);
  if (message.kind != PlainMessage::Kind::kMemory) return message;
  std::memcpy(&message.address, bytes.data() + kAddressAt, sizeof message.address);
  std::memcpy(&message.rkey, bytes.data() + kRkeyAt, sizeof message.rkey);
  return message;
}

}  // namespace verbena::transfer
