// SPDX-License-Identifier: Apache-2.0
#include "protocol/header.h"

#include "base/block_sums.h"
#include "base/endian.h"

namespace verbena::protocol {

Decoded<Header> decode_header(std::span<const uint8_t> message) {
  if (message.size() < kHeaderBytes) return fail(Fault::kShort);
  const uint8_t* p = message.data();
  return Header{.type = static_cast<MessageType>(load_be64(p)),
                .fabric = load_be64(p + 8),
                .session = load_be64(p + 16),
                .word = load_be64(p + kWordOffset)};
}

uint32_t head_crc_of(const Parts& parts) {
  uint32_t state = crc32_msb_update(kCrc32Start, parts.message.first(kWordOffset));
  state =
      crc32_msb_update(state, parts.message.subspan(kHeaderBytes, parts.head_end - kHeaderBytes));
  return crc32_finish(state);
}

uint64_t Seal::word_of(const Parts& parts) const {
  if (mode_ == Mode::kKey) return key_;
  SipHash hash(secret_);
  hash.update(parts.message.first(kWordOffset));
  hash.update(parts.message.subspan(kHeaderBytes, parts.head_end - kHeaderBytes));
  hash.update(parts.message.last(parts.crc_bytes));
  return hash.finish();
}

bool Seal::matches(const Parts& parts) const {
  if (!checks_) return true;
  return load_be64(parts.message.data() + kWordOffset) == word_of(parts);
}

}  // namespace verbena::protocol
