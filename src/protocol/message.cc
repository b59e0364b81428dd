// SPDX-License-Identifier: Apache-2.0
#include "protocol/message.h"

#include "base/endian.h"

namespace verbena::protocol {
namespace detail {

void begin_message(FieldWriter& writer, MessageType type, const Address& address) {
  writer(static_cast<uint64_t>(type), address.fabric, address.session, uint64_t{0});
}

Decoded<size_t> end_message(FieldWriter& writer, std::span<uint8_t> room, const Seal& seal) {
  const size_t head_end = writer.used();
  uint8_t* crc = writer.claim(kCrcBytes);
  if (!writer.ok()) return fail(writer.fault());
  const Parts parts{.message = room.first(writer.used()), .head_end = head_end, .crc_bytes = 0};
  store_be32(crc, head_crc_of(parts));
  store_be64(room.data() + kWordOffset, seal.word_of(parts));
  return writer.used();
}

Decoded<std::span<const uint8_t>> open_message(std::span<const uint8_t> message, MessageType type) {
  const auto header = decode_header(message);
  if (!header) return fail(header.error());
  if (header->type != type) return fail(Fault::kUnexpected);
  if (message.size() < kHeaderBytes + kCrcBytes) return fail(Fault::kShort);
  return message.subspan(kHeaderBytes, message.size() - kHeaderBytes - kCrcBytes);
}

Decoded<void> check_head(const Parts& parts, const Seal& seal) {
  if (load_be32(parts.message.data() + parts.head_end) != head_crc_of(parts)) {
    return fail(Fault::kHeadCrc);
  }
  if (!seal.matches(parts)) return fail(Fault::kKey);
  return {};
}

}  // namespace detail

Decoded<UnknownMessage> decode_unknown(std::span<const uint8_t> message, const Seal& seal) {
  if (message.size() < kHeaderBytes + sizeof(uint64_t) + kCrcBytes) return fail(Fault::kShort);
  const Parts parts{.message = message, .head_end = message.size() - kCrcBytes, .crc_bytes = 0};
  if (const auto good = detail::check_head(parts, seal); !good) return fail(good.error());
  return UnknownMessage{.type = static_cast<MessageType>(load_be64(message.data())),
                        .id = load_be64(message.data() + kHeaderBytes)};
}

}  // namespace verbena::protocol
