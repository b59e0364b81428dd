// SPDX-License-Identifier: Apache-2.0
// The messages of connection management: host-order structs with explicit read and write of the 232
// bytes behind the common MAD header. Each diagram is one 32-bit big-endian word a line, bit 31 at
// the left; (n) is a length in bits where the drawing does not tell. Reserved bits are written as
// zero and not read.
#pragma once

#include <array>
#include <cstdint>

#include "base/ids.h"
#include "cm/types.h"
#include "wire/gid.h"
#include "wire/psn.h"

namespace verbena::cm {

inline constexpr size_t kBodyBytes = 232;

enum class Attribute : uint16_t {
  kReq = 0x0010,
  kMra = 0x0011,
  kRej = 0x0012,
  kRep = 0x0013,
  kRtu = 0x0014,
  kDreq = 0x0015,
  kDrep = 0x0016,
  kSidrReq = 0x0017,
  kSidrRep = 0x0018,
};

// REJ and MRA: which message they answer.
enum class About : uint8_t { kReq = 0, kRep = 1, kOther = 2 };

// The path part of REQ, twice: the path, and the alternate one, which nobody uses on RoCE.
//  +-------------------------------+-------------------------------+
//  |        local LID              |          remote LID           |  permissive (0xffff) on RoCE
//  +-------------------------------+-------------------------------+
//  |                      local GID, 16 bytes                      |
//  |                      remote GID, 16 bytes                     |
//  +---------------------------------------+-----------+-----------+
//  |             flow label (20)           |  rsvd (6) | rate (6)  |
//  +----------------+----------------+-------+-+-------+-----------+
//  | traffic class  |   hop limit    |SL (4) |L|rsvd(3)|ack(5) r(3)|  L: subnet local
//  +----------------+----------------+-------+-+-------+-----------+
struct PathFields {
  static constexpr uint32_t kBytes = 44;
  uint16_t local_lid = 0;
  uint16_t remote_lid = 0;
  wire::Gid local{};
  wire::Gid remote{};
  uint32_t flow_label = 0;
  uint8_t packet_rate = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t service_level = 0;
  bool subnet_local = false;
  uint8_t local_ack_timeout = 0;  // a code of times.h

  friend bool operator==(const PathFields&, const PathFields&) = default;
  [[nodiscard]] static PathFields read(const uint8_t* p);
  void write(uint8_t* p) const;
};

// Request for communication, IBA 12.6.5.
//  +---------------------------------------------------------------+
//  |                  local communication id                       |  0
//  |    reserved    |                vendor id                     |
//  |                      service id, 8 bytes                      |  8
//  |                    local CA GUID, 8 bytes                     | 16
//  |                          reserved                             | 24
//  |                        local Q_Key                            |
//  |                 local QPN                    | responder res. | 32
//  |                 local EECN                   | initiator depth|
//  |                 remote EECN                  |resp. (5)|ts(2)|F  remote CM response timeout,
//  |                 starting PSN                 |resp. (5)|retry |  transport service, flow
//  |            P_Key              |MTU(4)|X|rnr(3)|cm retries|S|et|  control; local CM response
//  |                path (PathFields, 44 bytes)                    | 52  timeout, retry count; RDC
//  |           alternate path (PathFields, 44 bytes)               | 96  exists (X), SRQ (S),
//  |                  private data, 92 bytes                       |140  extended transport type
//  +---------------------------------------------------------------+
struct Req {
  static constexpr Attribute kAttribute = Attribute::kReq;
  uint32_t local_id = 0;
  uint32_t vendor_id = 0;
  uint64_t service_id = 0;
  uint64_t ca_guid = 0;
  uint32_t qkey = 0;
  Qpn qpn{};
  uint8_t responder_resources = 0;
  uint32_t local_eecn = 0;
  uint8_t initiator_depth = 0;
  uint32_t remote_eecn = 0;
  uint8_t remote_response_timeout = 0;
  uint8_t transport_service = 0;  // 0 RC, 1 UC, 2 RD, 3 see extended_transport
  bool flow_control = false;
  wire::Psn psn{};
  uint8_t local_response_timeout = 0;
  uint8_t retry_count = 0;
  uint16_t pkey = 0;
  uint8_t mtu = 0;
  bool rdc_exists = false;
  uint8_t rnr_retry_count = 0;
  uint8_t max_cm_retries = 0;
  bool srq = false;
  uint8_t extended_transport = 0;  // 1 XRC
  PathFields path{};
  PathFields alternate{};
  std::array<uint8_t, kReqPrivateBytes> private_data{};

  friend bool operator==(const Req&, const Req&) = default;
  [[nodiscard]] static Req read(const uint8_t* p);
  void write(uint8_t* p) const;
};

// Reply, IBA 12.6.8.
//  |                  local communication id                       |  0
//  |                  remote communication id                      |
//  |                        local Q_Key                            |
//  |                 local QPN                    |  vendor id, h  | 12
//  |                 local EECN                   |  vendor id, m  |
//  |                starting PSN                  |  vendor id, l  |
//  | responder res. | initiator dep. |delay(5)|fo(2)|F|rnr(3)|S|rsv| 24  target ACK delay, failover
//  |                    local CA GUID, 8 bytes                     | 28  accepted, flow control,
//  SRQ |                   private data, 196 bytes                     | 36
struct Rep {
  static constexpr Attribute kAttribute = Attribute::kRep;
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  uint32_t qkey = 0;
  Qpn qpn{};
  uint32_t eecn = 0;  // XRC: the target's queue pair
  uint32_t vendor_id = 0;
  wire::Psn psn{};
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t target_ack_delay = 0;
  uint8_t failover = 0;
  bool flow_control = false;
  uint8_t rnr_retry_count = 0;
  bool srq = false;
  uint64_t ca_guid = 0;
  std::array<uint8_t, kRepPrivateBytes> private_data{};

  friend bool operator==(const Rep&, const Rep&) = default;
  [[nodiscard]] static Rep read(const uint8_t* p);
  void write(uint8_t* p) const;
};

// Ready to use, IBA 12.6.9, and the reply to a disconnect, 12.6.11: the two ids and private data.
//  |                  local communication id                       |  0
//  |                  remote communication id                      |
//  |                   private data, 224 bytes                     |  8
struct IdsAndData {
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  std::array<uint8_t, kRtuPrivateBytes> private_data{};
  friend bool operator==(const IdsAndData&, const IdsAndData&) = default;
  void read_from(const uint8_t* p);
  void write(uint8_t* p) const;
};
struct Rtu : IdsAndData {
  static constexpr Attribute kAttribute = Attribute::kRtu;
  [[nodiscard]] static Rtu read(const uint8_t* p);
};
struct Drep : IdsAndData {
  static constexpr Attribute kAttribute = Attribute::kDrep;
  [[nodiscard]] static Drep read(const uint8_t* p);
};
static_assert(kRtuPrivateBytes == kDrepPrivateBytes);

// Reject, IBA 12.6.7.
//  |                  local communication id                       |  0
//  |                  remote communication id                      |
//  |about(2)  rsvd  |info length(7)|r|            reason            |
//  |            additional reject information, 72 bytes            | 12
//  |                   private data, 148 bytes                     | 84
struct Rej {
  static constexpr Attribute kAttribute = Attribute::kRej;
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  About about = About::kReq;
  uint8_t info_bytes = 0;  // as it came: may be more than there is
  RejectReason reason{};
  std::array<uint8_t, kAriBytes> info{};
  std::array<uint8_t, kRejPrivateBytes> private_data{};

  friend bool operator==(const Rej&, const Rej&) = default;
  [[nodiscard]] static Rej read(const uint8_t* p);
  void write(uint8_t* p) const;
};

// Message receipt acknowledgement, IBA 12.6.6: "it came, the answer will take a while".
//  |                  local communication id                       |  0
//  |                  remote communication id                      |
//  |about(2)  rsvd  |timeout(5) rsvd | private data, 222 bytes      |
struct Mra {
  static constexpr Attribute kAttribute = Attribute::kMra;
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  About about = About::kReq;
  uint8_t service_timeout = 0;  // a code of times.h
  std::array<uint8_t, kMraPrivateBytes> private_data{};

  friend bool operator==(const Mra&, const Mra&) = default;
  [[nodiscard]] static Mra read(const uint8_t* p);
  void write(uint8_t* p) const;
};

// Request to disconnect, IBA 12.6.10.
//  |                  local communication id                       |  0
//  |                  remote communication id                      |
//  |            remote QPN: the receiver's        |    reserved    |
//  |                   private data, 220 bytes                     | 12
struct Dreq {
  static constexpr Attribute kAttribute = Attribute::kDreq;
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  Qpn remote_qpn{};
  std::array<uint8_t, kDreqPrivateBytes> private_data{};

  friend bool operator==(const Dreq&, const Dreq&) = default;
  [[nodiscard]] static Dreq read(const uint8_t* p);
  void write(uint8_t* p) const;
};

// Service id resolution, IBA 12.11.1: "which datagram queue pair offers this?"
//  |                        request id                             |  0
//  |            P_Key              |           reserved            |
//  |                      service id, 8 bytes                      |  8
//  |                   private data, 216 bytes                     | 16
struct SidrReq {
  static constexpr Attribute kAttribute = Attribute::kSidrReq;
  uint32_t request_id = 0;
  uint16_t pkey = 0;
  uint64_t service_id = 0;
  std::array<uint8_t, kSidrReqPrivateBytes> private_data{};

  friend bool operator==(const SidrReq&, const SidrReq&) = default;
  [[nodiscard]] static SidrReq read(const uint8_t* p);
  void write(uint8_t* p) const;
};

// Its answer, IBA 12.11.2.
//  |                        request id                             |  0
//  |     status     |  info length   |       vendor id, high        |
//  |                    QPN                       | vendor id, low |
//  |                      service id, 8 bytes                      | 12
//  |                          Q_Key                                | 20
//  |               additional information, 72 bytes                | 24
//  |                   private data, 136 bytes                     | 96
struct SidrRep {
  static constexpr Attribute kAttribute = Attribute::kSidrRep;
  uint32_t request_id = 0;
  SidrStatus status{};
  uint8_t info_bytes = 0;  // as it came: may be more than there is
  uint32_t vendor_id = 0;
  Qpn qpn{};
  uint64_t service_id = 0;
  uint32_t qkey = 0;
  std::array<uint8_t, kAriBytes> info{};
  std::array<uint8_t, kSidrRepPrivateBytes> private_data{};

  friend bool operator==(const SidrRep&, const SidrRep&) = default;
  [[nodiscard]] static SidrRep read(const uint8_t* p);
  void write(uint8_t* p) const;
};

}  // namespace verbena::cm
