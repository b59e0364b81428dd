// SPDX-License-Identifier: Apache-2.0
// A queue pair's attributes and the path to its peer. Mask bits are those of ibv_qp_attr_mask.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/time.h"
#include "transport/types.h"
#include "wire/gid.h"
#include "wire/psn.h"

namespace verbena::transport {

inline constexpr uint8_t kDefaultHopLimit = 64;

// Where packets go: an address vector resolved to what RoCEv2 puts on the wire.
struct Path {
  wire::Gid source{};
  wire::Gid destination{};
  uint16_t source_port = 0xc000;  // UDP source port, 0xc000 to 0xffff: entropy for multipath
  uint8_t traffic_class = 0;
  uint8_t hop_limit = kDefaultHopLimit;  // 0: the default
  uint8_t service_level = 0;
  Mtu largest_mtu = Mtu::k4096;  // that the interface carried when the path was resolved
  uint32_t interface_index = 0;  // for link-local IPv6 addresses; 0: the route decides
  bool may_be_marked = false;    // by routers that are congested (marks.h); not the program's

  // What goes on the wire.
  [[nodiscard]] uint8_t class_sent() const {
    constexpr uint8_t kEct0 = 2;
    // What the program chose stays.
    return may_be_marked && (traffic_class & 3) == 0 ? traffic_class | kEct0 : traffic_class;
  }
  // Whether routers may mark what is sent.
  [[nodiscard]] bool has_ect() const { return (class_sent() & 3) != 0; }
  [[nodiscard]] uint8_t hops() const { return hop_limit == 0 ? kDefaultHopLimit : hop_limit; }
};

enum AttrMask : uint32_t {
  kAttrState = 1u << 0,
  kAttrCurState = 1u << 1,
  kAttrSqdNotify = 1u << 2,
  kAttrAccess = 1u << 3,
  kAttrPkeyIndex = 1u << 4,
  kAttrPort = 1u << 5,
  kAttrQkey = 1u << 6,
  kAttrPath = 1u << 7,  // IBV_QP_AV
  kAttrMtu = 1u << 8,
  kAttrTimeout = 1u << 9,
  kAttrRetryCount = 1u << 10,
  kAttrRnrRetry = 1u << 11,
  kAttrRqPsn = 1u << 12,
  kAttrMaxRdAtomic = 1u << 13,
  kAttrAltPath = 1u << 14,
  kAttrMinRnrTimer = 1u << 15,
  kAttrSqPsn = 1u << 16,
  kAttrMaxDestRdAtomic = 1u << 17,
  kAttrPathMigration = 1u << 18,
  kAttrCap = 1u << 19,
  kAttrDestQpn = 1u << 20,
  kAttrRateLimit = 1u << 25,
};

struct QpAttr {
  QpState state = QpState::kReset;
  QpState cur_state = QpState::kReset;
  bool sqd_notify = false;
  uint32_t access = 0;  // memory::Access: what the peer may do through this queue pair
  uint16_t pkey_index = 0;
  uint8_t port = 0;
  uint32_t qkey = 0;
  Path path{};
  Mtu mtu = Mtu::k1024;
  uint8_t timeout = 0;      // 4.096 us x 2^timeout; 0 is never
  uint8_t retry_count = 0;  // 0 to 7
  uint8_t rnr_retry = 0;    // 0 to 7; 7 is for ever
  wire::Psn rq_psn{};
  wire::Psn sq_psn{};
  uint8_t max_rd_atomic = 0;       // outstanding at the peer
  uint8_t max_dest_rd_atomic = 0;  // outstanding here
  uint8_t min_rnr_timer = 0;
  Qpn dest_qpn{};
};

// The acknowledgement timeout, IBA 9.7.6.1.3; kNever for 0.
[[nodiscard]] constexpr Duration ack_timeout(uint8_t timeout) {
  return timeout == 0 ? kNever : Duration{4096} << (timeout & 31);
}
// The RNR NAK timer field, IBA table 45.
[[nodiscard]] Duration rnr_timer(uint8_t field);

// Whether `mask` may take a queue pair of `type` from `from` to `to`: the standard's table of
// transitions with their required and optional attributes.
[[nodiscard]] bool transition_allowed(QpType type, QpState from, QpState to, uint32_t mask);

}  // namespace verbena::transport
