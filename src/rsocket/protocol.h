// SPDX-License-Identifier: Apache-2.0
// What two ends of a stream say to each other, byte for byte as rdma-core's rsockets do
// (docs/rsockets.md): the private data of the connection, the immediate data of each RDMA WRITE,
// and the entries that one end writes into the other's lists. Nothing of it is believed before it
// was checked here or in flow.h.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>

namespace verbena::rsocket {

// A message is 32 bits of immediate data:
//
//   31  29 28                                                    0
//   +-----+-------------------------------------------------------+
//   | op  | data: bytes written; a credit limit; an index; ...     |
//   +-----+-------------------------------------------------------+
enum class Op : uint8_t {
  kData = 0,    // bytes were written into the next part of the receive buffer
  kDirect = 2,  // into a mapped buffer: is not told to the peer, only used to count completions
  kGrant = 4,   // a new credit limit and, if the WRITE carries an entry, half a receive buffer
  kIomap = 6,   // an entry of the iomap list was written: its index
  kControl = 7,
};

enum class Control : uint32_t { kDisconnect = 0, kKeepalive = 1, kShutdown = 2 };

struct Message {
  Op op = Op::kData;
  uint32_t data = 0;
};

inline constexpr uint32_t kMessageDataMask = 0x1fffffff;

[[nodiscard]] constexpr uint32_t encode(Op op, uint32_t data) {
  return (uint32_t{static_cast<uint8_t>(op)} << 29) | (data & kMessageDataMask);
}
[[nodiscard]] constexpr uint32_t encode(Control control) {
  return encode(Op::kControl, static_cast<uint32_t>(control));
}
// Of a message that we sent.
[[nodiscard]] constexpr Message split(uint32_t message) {
  return {static_cast<Op>(message >> 29), message & kMessageDataMask};
}
// Nothing for what no peer may send.
[[nodiscard]] std::optional<Message> decode(uint32_t immediate);

// Where a peer may write: 16 bytes, in the byte order of the host in whose memory it stands.
struct Entry {
  uint64_t address = 0;
  uint32_t key = 0;
  uint32_t length = 0;
  friend bool operator==(const Entry&, const Entry&) = default;
};
inline constexpr uint32_t kEntryBytes = 16;
using EntryBytes = std::array<uint8_t, kEntryBytes>;
[[nodiscard]] EntryBytes encode(const Entry& entry, std::endian order);
[[nodiscard]] Entry decode_entry(std::span<const uint8_t, kEntryBytes> bytes, std::endian order);

// A buffer of the program's, reached by an offset of its choice: 24 bytes, likewise.
struct Mapping {
  uint64_t offset = 0;
  Entry entry;
  friend bool operator==(const Mapping&, const Mapping&) = default;
};
inline constexpr uint32_t kMappingBytes = 24;
using MappingBytes = std::array<uint8_t, kMappingBytes>;
[[nodiscard]] MappingBytes encode(const Mapping& mapping, std::endian order);
[[nodiscard]] Mapping decode_mapping(std::span<const uint8_t, kMappingBytes> bytes,
                                     std::endian order);

// Half a receive buffer each: one is being filled while the other is being emptied.
inline constexpr uint32_t kListEntries = 2;

// Private data of the REQ and of the REP; all big-endian:
//
//   version u8 = 1 | flags u8 | credits u16 | 0 u24 | iomap entries, scaled, u8
//   list:   address u64 | key u32 | entries u32     where the other end writes its grants
//   buffer: address u64 | key u32 | bytes u32       the first half of the receive buffer
struct Greeting {
  std::endian order = std::endian::native;
  uint16_t credits = 0;
  uint16_t iomap_entries = 0;  // a number that to_scale() keeps
  Entry list;
  Entry buffer;
};
inline constexpr uint32_t kGreetingBytes = 40;
using GreetingBytes = std::array<uint8_t, kGreetingBytes>;
[[nodiscard]] GreetingBytes encode(const Greeting& greeting);
// Nothing for another protocol, and for one that could not work.
[[nodiscard]] std::optional<Greeting> decode_greeting(std::span<const uint8_t> bytes);

// Numbers up to 128 as they are, larger ones in steps of 256.
[[nodiscard]] uint8_t to_scale(uint32_t value);
[[nodiscard]] uint16_t from_scale(uint8_t scaled);

}  // namespace verbena::rsocket
