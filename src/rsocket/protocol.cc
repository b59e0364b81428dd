// SPDX-License-Identifier: Apache-2.0
#include "rsocket/protocol.h"

#include <algorithm>
#include <cstring>

#include "base/endian.h"

namespace verbena::rsocket {
namespace {

constexpr uint8_t kVersion = 1;
constexpr uint8_t kBigEndian = 1 << 0;
constexpr uint8_t kHasIomap = 1 << 1;

template <typename T>
void store(uint8_t* to, T value, std::endian order) {
  if (order != std::endian::native) value = std::byteswap(value);
  std::memcpy(to, &value, sizeof value);
}

template <typename T>
[[nodiscard]] T load(const uint8_t* from, std::endian order) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return order == std::endian::native ? value : std::byteswap(value);
}

}  // namespace

std::optional<Message> decode(uint32_t immediate) {
  const Message message = split(immediate);
  switch (message.op) {
    case Op::kData:
    case Op::kGrant:
    case Op::kIomap: return message;
    case Op::kControl:
      if (message.data > static_cast<uint32_t>(Control::kShutdown)) return std::nullopt;
      return message;
    default: return std::nullopt;
  }
}

EntryBytes encode(const Entry& entry, std::endian order) {
  EntryBytes bytes;
  store(&bytes[0], entry.address, order);
  store(&bytes[8], entry.key, order);
  store(&bytes[12], entry.length, order);
  return bytes;
}

Entry decode_entry(std::span<const uint8_t, kEntryBytes> bytes, std::endian order) {
  return {.address = load<uint64_t>(&bytes[0], order),
          .key = load<uint32_t>(&bytes[8], order),
          .length = load<uint32_t>(&bytes[12], order)};
}

MappingBytes encode(const Mapping& mapping, std::endian order) {
  MappingBytes bytes;
  store(&bytes[0], mapping.offset, order);
  std::ranges::copy(encode(mapping.entry, order), &bytes[8]);
  return bytes;
}

Mapping decode_mapping(std::span<const uint8_t, kMappingBytes> bytes, std::endian order) {
  return {.offset = load<uint64_t>(&bytes[0], order),
          .entry = decode_entry(bytes.subspan<8, kEntryBytes>(), order)};
}

GreetingBytes encode(const Greeting& greeting) {
  GreetingBytes bytes{};
  bytes[0] = kVersion;
  bytes[1] = kHasIomap | (greeting.order == std::endian::big ? kBigEndian : 0);
  store_be16(&bytes[2], greeting.credits);
  bytes[7] = to_scale(greeting.iomap_entries);
  std::ranges::copy(encode(greeting.list, std::endian::big), &bytes[8]);
  std::ranges::copy(encode(greeting.buffer, std::endian::big), &bytes[24]);
  return bytes;
}

std::optional<Greeting> decode_greeting(std::span<const uint8_t> bytes) {
  if (bytes.size() < kGreetingBytes || bytes[0] != kVersion) return std::nullopt;
  Greeting greeting;
  greeting.order = (bytes[1] & kBigEndian) != 0 ? std::endian::big : std::endian::little;
  greeting.credits = load_be16(&bytes[2]);
  if ((bytes[1] & kHasIomap) != 0) greeting.iomap_entries = from_scale(bytes[7]);
  greeting.list = decode_entry(bytes.subspan<8, kEntryBytes>(), std::endian::big);
  greeting.buffer = decode_entry(bytes.subspan<24, kEntryBytes>(), std::endian::big);
  // The first grant goes into the list's second entry, so there must be one.
  if (greeting.credits == 0 || greeting.list.length < 2 || greeting.buffer.length == 0) {
    return std::nullopt;
  }
  return greeting;
}

uint8_t to_scale(uint32_t value) {
  constexpr uint32_t kMost = 0x7f;
  return static_cast<uint8_t>(value <= 0x80 ? value : 0x80 | std::min(value >> 8, kMost));
}

uint16_t from_scale(uint8_t scaled) {
  return static_cast<uint16_t>(scaled <= 0x80 ? scaled : (scaled & 0x7f) << 8);
}

}  // namespace verbena::rsocket
