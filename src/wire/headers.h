// SPDX-License-Identifier: Apache-2.0
// The transport's headers: host-order structs with explicit read and write. Each diagram is one
// 32-bit big-endian word a line, bit 31 at the left. read() takes exactly kBytes bytes that exist.
#pragma once

#include <cstdint>

#include "base/endian.h"
#include "base/ids.h"
#include "wire/psn.h"

namespace verbena::wire {

// Base Transport Header, IBA 9.2.
//
//   31            24 23 22 21 20 19    16 15                      0
//  +----------------+--+--+-----+--------+-------------------------+
//  |     OpCode     |SE| M| Pad |  TVer  |         P_Key           |
//  +----------------+--+--+-----+--------+-------------------------+
//  |F|B|  reserved6 |                Destination QP                |
//  +----------------+----------------------------------------------+
//  |A|  reserved7   |                     PSN                      |
//  +----------------+----------------------------------------------+
// SE solicited event, M migrated, F FECN and B BECN (their byte is not under the ICRC), A AckReq.
// The last bit of reserved7 is between our own ends (extended_ack.h).
struct Bth {
  static constexpr uint32_t kBytes = 12;

  uint8_t opcode = 0;
  bool solicited = false;
  bool migrated = false;
  uint8_t pad_bytes = 0;  // 0 to 3
  uint8_t version = 0;
  uint16_t pkey = 0xffff;
  bool fecn = false;
  bool becn = false;
  uint8_t reserved6 = 0;
  Qpn dest_qp{};
  bool ack_request = false;
  uint8_t reserved7 = 0;
  Psn psn{};

  // Where it stays: it is written field by field, and a processor that copies it in larger pieces
  // waits for each.
  void take(const uint8_t* p) {
    opcode = p[0];
    solicited = (p[1] & 0x80) != 0;
    migrated = (p[1] & 0x40) != 0;
    pad_bytes = (p[1] >> 4) & 0x3;
    version = p[1] & 0xf;
    pkey = load_be16(p + 2);
    fecn = (p[4] & 0x80) != 0;
    becn = (p[4] & 0x40) != 0;
    reserved6 = p[4] & 0x3f;
    dest_qp = Qpn(load_be24(p + 5));
    ack_request = (p[8] & 0x80) != 0;
    reserved7 = p[8] & 0x7f;
    psn = Psn(load_be24(p + 9));
  }
  [[nodiscard]] static Bth read(const uint8_t* p) {
    Bth h;
    h.take(p);
    return h;
  }
  void write(uint8_t* p) const {
    p[0] = opcode;
    p[1] = static_cast<uint8_t>((solicited ? 0x80 : 0) | (migrated ? 0x40 : 0) |
                                ((pad_bytes & 0x3) << 4) | (version & 0xf));
    store_be16(p + 2, pkey);
    p[4] = static_cast<uint8_t>((fecn ? 0x80 : 0) | (becn ? 0x40 : 0) | (reserved6 & 0x3f));
    store_be24(p + 5, dest_qp.value);
    p[8] = static_cast<uint8_t>((ack_request ? 0x80 : 0) | (reserved7 & 0x7f));
    store_be24(p + 9, psn.value());
  }
};

// RDMA Extended Transport Header, IBA 9.3.3.
//  +---------------------------------------------------------------+
//  |                    Virtual address 63..32                     |
//  |                    Virtual address 31..0                      |
//  |                            R_Key                              |
//  |                         DMA length                            |
//  +---------------------------------------------------------------+
struct Reth {
  static constexpr uint32_t kBytes = 16;
  uint64_t address = 0;
  RKey rkey{};
  uint32_t length = 0;

  [[nodiscard]] static Reth read(const uint8_t* p) {
    return {load_be64(p), RKey(load_be32(p + 8)), load_be32(p + 12)};
  }
  void write(uint8_t* p) const {
    store_be64(p, address);
    store_be32(p + 8, rkey.value);
    store_be32(p + 12, length);
  }
};

// Atomic Extended Transport Header, IBA 9.3.4. FETCH-ADD has what it adds in swap_add.
//  +---------------------------------------------------------------+
//  |                    Virtual address (64)                       |
//  |                            R_Key                              |
//  |                     Swap or add data (64)                     |
//  |                       Compare data (64)                       |
//  +---------------------------------------------------------------+
struct AtomicEth {
  static constexpr uint32_t kBytes = 28;
  uint64_t address = 0;
  RKey rkey{};
  uint64_t swap_add = 0;
  uint64_t compare = 0;

  [[nodiscard]] static AtomicEth read(const uint8_t* p) {
    return {load_be64(p), RKey(load_be32(p + 8)), load_be64(p + 12), load_be64(p + 20)};
  }
  void write(uint8_t* p) const {
    store_be64(p, address);
    store_be32(p + 8, rkey.value);
    store_be64(p + 12, swap_add);
    store_be64(p + 20, compare);
  }
};

// ACK Extended Transport Header, IBA 9.3.5.
//   31 30 29 28   24 23                                           0
//  +--+-----+-------+----------------------------------------------+
//  | 0| kind| value |                     MSN                      |
//  +--+-----+-------+----------------------------------------------+
// kind 0 ACK (value: credits, 31 = not used), 1 RNR NAK (value: timer), 3 NAK (value: reason).
struct Aeth {
  static constexpr uint32_t kBytes = 4;
  uint8_t syndrome = 0;
  uint32_t msn = 0;  // 24 bits

  [[nodiscard]] static Aeth read(const uint8_t* p) { return {p[0], load_be24(p + 1)}; }
  void write(uint8_t* p) const {
    p[0] = syndrome;
    store_be24(p + 1, msn);
  }
};

namespace syndrome {
inline constexpr uint8_t kKindMask = 0xe0;
inline constexpr uint8_t kValueMask = 0x1f;
inline constexpr uint8_t kAck = 0x00;           // kind
inline constexpr uint8_t kRnrNak = 0x20;        // kind
inline constexpr uint8_t kNak = 0x60;           // kind
inline constexpr uint8_t kAckNoCredits = 0x1f;  // ACK, end-to-end credits not used
inline constexpr uint8_t kNakSequence = 0x60;
inline constexpr uint8_t kNakInvalidRequest = 0x61;
inline constexpr uint8_t kNakRemoteAccess = 0x62;
inline constexpr uint8_t kNakRemoteOperational = 0x63;
inline constexpr uint8_t kNakInvalidRdRequest = 0x64;
}  // namespace syndrome

// Atomic acknowledge: the value found before the operation.
struct AtomicAckEth {
  static constexpr uint32_t kBytes = 8;
  uint64_t original = 0;
  [[nodiscard]] static AtomicAckEth read(const uint8_t* p) { return {load_be64(p)}; }
  void write(uint8_t* p) const { store_be64(p, original); }
};

// Immediate data: four bytes the transport does not interpret, kept in wire order.
struct ImmDt {
  static constexpr uint32_t kBytes = 4;
  uint32_t value = 0;  // host order of the big-endian field
  [[nodiscard]] static ImmDt read(const uint8_t* p) { return {load_be32(p)}; }
  void write(uint8_t* p) const { store_be32(p, value); }
};

// Invalidate Extended Transport Header: the R_Key to invalidate.
struct Ieth {
  static constexpr uint32_t kBytes = 4;
  RKey rkey{};
  [[nodiscard]] static Ieth read(const uint8_t* p) { return {RKey(load_be32(p))}; }
  void write(uint8_t* p) const { store_be32(p, rkey.value); }
};

// Datagram Extended Transport Header.
//  +---------------------------------------------------------------+
//  |                            Q_Key                              |
//  |    reserved    |                 Source QP                    |
//  +---------------------------------------------------------------+
struct Deth {
  static constexpr uint32_t kBytes = 8;
  uint32_t qkey = 0;
  uint8_t reserved = 0;
  Qpn source_qp{};
  [[nodiscard]] static Deth read(const uint8_t* p) {
    return {load_be32(p), p[4], Qpn(load_be24(p + 5))};
  }
  void write(uint8_t* p) const {
    store_be32(p, qkey);
    p[4] = reserved;
    store_be24(p + 5, source_qp.value);
  }
};

// XRC Extended Transport Header: the shared receive queue at the target.
//  |    reserved    |                 XRC SRQ                      |
struct Xrceth {
  static constexpr uint32_t kBytes = 4;
  uint8_t reserved = 0;
  SrqId srq{};
  [[nodiscard]] static Xrceth read(const uint8_t* p) { return {p[0], SrqId(load_be24(p + 1))}; }
  void write(uint8_t* p) const {
    p[0] = reserved;
    store_be24(p + 1, srq.value);
  }
};

// Reliable Datagram Extended Transport Header; decoded so that RD packets can be named and counted.
//  |    reserved    |                 EE context                   |
struct Rdeth {
  static constexpr uint32_t kBytes = 4;
  uint8_t reserved = 0;
  uint32_t ee_context = 0;
  [[nodiscard]] static Rdeth read(const uint8_t* p) { return {p[0], load_be24(p + 1)}; }
  void write(uint8_t* p) const {
    p[0] = reserved;
    store_be24(p + 1, ee_context);
  }
};

// Flush Extended Transport Header: selectivity level (bits 5..4 of the last byte) and placement
// type (bits 3..0), IBA 1.6 annex A19.
struct Feth {
  static constexpr uint32_t kBytes = 4;
  uint32_t word = 0;
  [[nodiscard]] static Feth read(const uint8_t* p) { return {load_be32(p)}; }
  void write(uint8_t* p) const { store_be32(p, word); }
};

}  // namespace verbena::wire
