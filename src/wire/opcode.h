// SPDX-License-Identifier: Apache-2.0
// The opcodes of the transport (IBA table 38) as one constexpr table: what an opcode does, where
// its packet stands in a message, which headers follow the BTH, and how long its payload may be.
//
// An opcode byte is  service (3 bits) | operation (5 bits).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace verbena::wire {

enum class Service : uint8_t { kRc = 0, kUc = 1, kRd = 2, kUd = 3, kCnp = 4, kXrc = 5 };

// The low five bits of an opcode.
enum class Op : uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendLastImm = 0x03,
  kSendOnly = 0x04,
  kSendOnlyImm = 0x05,
  kWriteFirst = 0x06,
  kWriteMiddle = 0x07,
  kWriteLast = 0x08,
  kWriteLastImm = 0x09,
  kWriteOnly = 0x0a,
  kWriteOnlyImm = 0x0b,
  kReadRequest = 0x0c,
  kReadResponseFirst = 0x0d,
  kReadResponseMiddle = 0x0e,
  kReadResponseLast = 0x0f,
  kReadResponseOnly = 0x10,
  kAcknowledge = 0x11,
  kAtomicAcknowledge = 0x12,
  kCompareSwap = 0x13,
  kFetchAdd = 0x14,
  kResync = 0x15,  // RD only
  kSendLastInvalidate = 0x16,
  kSendOnlyInvalidate = 0x17,
  kFlush = 0x1c,
  kAtomicWrite = 0x1d,
};

// Of Service::kCnp, a congestion notification: RoCEv2 annex A17.9.3. 16 reserved bytes follow the
// BTH.
inline constexpr Op kCnpOp{0x01};

// What the packet is part of.
enum class Operation : uint8_t {
  kNone,
  kSend,
  kWrite,
  kReadRequest,
  kReadResponse,
  kAcknowledge,
  kAtomicAcknowledge,
  kCompareSwap,
  kFetchAdd,
  kResync,
  kFlush,
  kAtomicWrite,
  kCongestionNotification,
};

// Where it stands in its message. Requests and acknowledgements of one packet are kOnly.
enum class Position : uint8_t { kFirst, kMiddle, kLast, kOnly };

// Extension headers, as a set; on the wire they follow the BTH in this order.
enum HeaderSet : uint16_t {
  kNoHeaders = 0,
  kRdeth = 1 << 0,         // 4 bytes, RD
  kDeth = 1 << 1,          // 8 bytes
  kXrceth = 1 << 2,        // 4 bytes
  kFeth = 1 << 3,          // 4 bytes
  kReth = 1 << 4,          // 16 bytes
  kAtomicEth = 1 << 5,     // 28 bytes
  kAeth = 1 << 6,          // 4 bytes
  kAtomicAckEth = 1 << 7,  // 8 bytes
  kImmDt = 1 << 8,         // 4 bytes
  kIeth = 1 << 9,          // 4 bytes
};
inline constexpr size_t kHeaderKinds = 10;

enum class PayloadRule : uint8_t {
  kNone,        // no payload
  kExtension,   // none, or an acknowledgement's extension (extended_ack.h)
  kFullMtu,     // exactly the path MTU: First and Middle
  kUpToMtu,     // 0 to MTU: Only
  kOneToMtu,    // 1 to MTU: Last
  kEightBytes,  // ATOMIC WRITE
  kOpaque,      // not ours to judge (RD, congestion notification)
};

struct OpcodeInfo {
  const char* name = nullptr;  // nullptr: no such opcode
  Service service = Service::kRc;
  Op op = Op::kSendFirst;
  Operation operation = Operation::kNone;
  Position position = Position::kOnly;
  uint16_t headers = kNoHeaders;  // HeaderSet
  uint8_t header_bytes = 0;       // BTH and extension headers
  PayloadRule payload = PayloadRule::kNone;
  // Where each header begins, from the BTH's first byte, by its bit; 0 when not in the set.
  std::array<uint8_t, kHeaderKinds> offsets{};

  [[nodiscard]] constexpr bool exists() const { return name != nullptr; }
  [[nodiscard]] constexpr bool has(HeaderSet header) const { return (headers & header) != 0; }
  // Byte offset from the BTH of a header that has() says is there.
  [[nodiscard]] constexpr uint32_t offset_of(HeaderSet header) const {
    return offsets[static_cast<size_t>(std::countr_zero(static_cast<uint16_t>(header)))];
  }
  [[nodiscard]] constexpr bool is_response() const {
    return operation == Operation::kReadResponse || operation == Operation::kAcknowledge ||
           operation == Operation::kAtomicAcknowledge;
  }
  [[nodiscard]] constexpr bool starts_message() const {
    return position == Position::kFirst || position == Position::kOnly;
  }
  [[nodiscard]] constexpr bool ends_message() const {
    return position == Position::kLast || position == Position::kOnly;
  }
};

[[nodiscard]] constexpr uint8_t opcode_byte(Service service, Op op) {
  return static_cast<uint8_t>((static_cast<uint8_t>(service) << 5) | static_cast<uint8_t>(op));
}

// By opcode byte; built at compile time in opcode.cc.
extern const std::array<OpcodeInfo, 256> kOpcodes;

[[nodiscard]] inline const OpcodeInfo& opcode_info(uint8_t opcode) { return kOpcodes[opcode]; }

}  // namespace verbena::wire
