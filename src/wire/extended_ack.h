// SPDX-License-Identifier: Apache-2.0
// What an acknowledgement may say beyond the standard's, between two ends that both know it: which
// packets are held behind the missing one, so that only what is missing is sent again. It stands
// where an ACKNOWLEDGE has no payload, behind the AETH, which holds as always: all up to the BTH's
// PSN arrived. It is sent only to a requester that set kUnderstandsExtendedAck in the packet it
// answers; others ignore that bit.
//
//   31   28 27   24 23            16 15                            0
//  +-------+-------+----------------+-------------------------------+
//  |version| flags |  bitmap words  |   Receive room, 4 KiB units   |
//  +-------+-------+----------------+-------------------------------+
//  |    reserved   |                Duplicate PSN                   |
//  +---------------+------------------------------------------------+
//  |                  Bitmap, 0 to 255 words                        |
//  +----------------------------------------------------------------+
// version 1. Flags: bit 24 the duplicate PSN holds; the others, and what is reserved, are sent as 0
// and ignored. Receive room: what the receiver's socket has room for, 0 is not said. Duplicate PSN:
// of a packet that arrived lately and was there already. Bitmap: the first bit (bit 31 of its first
// word) stands for the BTH's PSN + 2, for the one after it is missing, or nothing is held; set
// when that packet is held. One that is sent is no longer than a packet of the queue pair's MTU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "base/check.h"
#include "base/endian.h"
#include "wire/psn.h"

namespace verbena::wire {

// In Bth::reserved7 of a request.
inline constexpr uint8_t kUnderstandsExtendedAck = 0x01;

struct ExtendedAck {
  static constexpr uint8_t kVersion = 1;
  static constexpr uint8_t kHasDuplicate = 0x01;
  static constexpr uint32_t kHeaderBytes = 8;
  static constexpr uint32_t kMaxWords = 255;
  static constexpr uint32_t kMaxBits = kMaxWords * 32;
  static constexpr uint32_t kMaxBytes = kHeaderBytes + kMaxWords * 4;
  static constexpr uint32_t kRoomUnit = 4096;

  uint16_t room = 0;
  std::optional<Psn> duplicate;
  std::span<const uint8_t> bitmap;  // of the packet that was read

  // Lengths that one can have. A longer one is not an acknowledgement.
  [[nodiscard]] static constexpr bool is_length(size_t bytes) {
    return bytes >= kHeaderBytes && bytes <= kMaxBytes && bytes % 4 == 0;
  }
  [[nodiscard]] uint32_t words() const { return static_cast<uint32_t>(bitmap.size() / 4); }
  [[nodiscard]] uint32_t word(uint32_t index) const { return load_be32(bitmap.data() + index * 4); }
  [[nodiscard]] bool holds(uint32_t bit) const {
    return bit / 32 < words() && (word(bit / 32) & (0x80000000u >> bit % 32)) != 0;
  }

  // Reads the payload of an ACKNOWLEDGE; nothing when it is not of this version or is malformed.
  [[nodiscard]] static std::optional<ExtendedAck> read(std::span<const uint8_t> payload) {
    if (!is_length(payload.size()) || payload[0] >> 4 != kVersion) return std::nullopt;
    if (payload.size() != kHeaderBytes + size_t{payload[1]} * 4) return std::nullopt;
    ExtendedAck ack{.room = load_be16(payload.data() + 2),
                    .duplicate = std::nullopt,
                    .bitmap = payload.subspan(kHeaderBytes)};
    if ((payload[0] & kHasDuplicate) != 0) ack.duplicate = Psn(load_be24(payload.data() + 5));
    return ack;
  }
};

// Writes one into `out`, which has room for kMaxBytes.
class ExtendedAckWriter {
 public:
  explicit ExtendedAckWriter(std::span<uint8_t> out) : out_(out) {
    VERBENA_CHECK(out.size() >= ExtendedAck::kMaxBytes);
  }

  // The next 32 bits. What there is no room for is left out.
  void append(uint32_t word) {
    if (words_ == ExtendedAck::kMaxWords) return;
    store_be32(out_.data() + ExtendedAck::kHeaderBytes + size_t{words_++} * 4, word);
  }

  // Gives its bytes.
  [[nodiscard]] std::span<uint8_t> finish(uint16_t room, std::optional<Psn> duplicate) const {
    const unsigned flags = duplicate ? ExtendedAck::kHasDuplicate : 0;
    out_[0] = static_cast<uint8_t>(ExtendedAck::kVersion << 4 | flags);
    out_[1] = static_cast<uint8_t>(words_);
    store_be16(out_.data() + 2, room);
    store_be32(out_.data() + 4, duplicate ? duplicate->value() : 0);
    return out_.first(ExtendedAck::kHeaderBytes + words_ * 4);
  }

 private:
  std::span<uint8_t> out_;
  uint32_t words_ = 0;
};

}  // namespace verbena::wire
