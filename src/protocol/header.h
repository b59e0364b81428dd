// SPDX-License-Identifier: Apache-2.0
// The outer header, the first 32 bytes of each message on the fabric, and what protects a message.
//
//   0                8                16               24               32
//   +----------------+----------------+----------------+----------------+------
//   | type u64       | fabric client  | session id u64 | key or tag u64 | body
//   |                | id u64         |                |                |
//   +----------------+----------------+----------------+----------------+------
//
// The last word proves that the sender has the session: without a shared secret it is the session's
// key, with one a tag, a keyed hash of everything but the user data, whose CRC it covers.
#pragma once

#include <cstdint>
#include <span>

#include "protocol/fault.h"
#include "protocol/siphash.h"

namespace verbena::protocol {

// The number of a message type. Each message's struct has its own (kType) and its name; messages.h
// lists all of them.
enum class MessageType : uint64_t {};
inline constexpr size_t kTypeLimit = 160;  // all defined types are below this

inline constexpr size_t kHeaderBytes = 32;
inline constexpr size_t kWordOffset = 24;
inline constexpr size_t kCrcBytes = 4;

struct Header {
  MessageType type{};
  uint64_t fabric = 0;   // client id, assigned by the server when the queue pair is bound; 0 before
  uint64_t session = 0;  // session id, from the side channel
  uint64_t word = 0;     // key or tag
  bool operator==(const Header&) const = default;
};
// kShort; the type may be an unknown one.
[[nodiscard]] Decoded<Header> decode_header(std::span<const uint8_t> message);

// Where a message goes to, or comes from.
struct Address {
  uint64_t fabric = 0;
  uint64_t session = 0;
  bool operator==(const Address&) const = default;
};

// The parts of a message: [0, 32) header, [32, head_end) fields, and `crc_bytes` (0 or 4) at the
// end that are the CRC of the user data.
struct Parts {
  std::span<const uint8_t> message;
  size_t head_end = kHeaderBytes;
  size_t crc_bytes = 0;
};
// CRC-32/BZIP2 over [0, 24) and [32, head_end).
[[nodiscard]] uint32_t head_crc_of(const Parts& parts);

// What makes and checks the header's last word: one for each session, the same at both ends.
class Seal {
 public:
  [[nodiscard]] static Seal with_key(uint64_t key) { return Seal(Mode::kKey, key, {}); }
  [[nodiscard]] static Seal with_secret(const SipKey& secret) {
    return Seal(Mode::kTag, 0, secret);
  }
  // Accepts every message: for servers that were told not to check.
  [[nodiscard]] Seal without_checks() const {
    Seal seal = *this;
    seal.checks_ = false;
    return seal;
  }

  [[nodiscard]] bool tagged() const { return mode_ == Mode::kTag; }
  [[nodiscard]] bool checks() const { return checks_; }
  [[nodiscard]] uint64_t word_of(const Parts& parts) const;
  [[nodiscard]] bool matches(const Parts& parts) const;

 private:
  enum class Mode : uint8_t { kKey, kTag };
  Seal(Mode mode, uint64_t key, const SipKey& secret) : mode_(mode), key_(key), secret_(secret) {}

  Mode mode_;
  bool checks_ = true;
  uint64_t key_;
  SipKey secret_;
};

}  // namespace verbena::protocol
