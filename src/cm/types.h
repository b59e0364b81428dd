// SPDX-License-Identifier: Apache-2.0
// The connection manager's vocabulary: what a program asks for, and what it is told.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/ids.h"
#include "base/time.h"
#include "cm/service_id.h"
#include "wire/address_set.h"
#include "wire/gid.h"
#include "wire/psn.h"

namespace verbena::cm {

// A connection, from either end, or one exchange of SIDR: our communication id on the wire. The top
// byte is the process's slot, the rest is not guessable and comes again only after all others were
// used: with one that has ended, every call fails with kGone. 0 is none.
using CommId = Id<struct CommIdTag, uint32_t>;
// A listener. Never used twice. 0 is none.
using ListenerId = Id<struct ListenerIdTag, uint64_t>;

// Limits of the private data, in bytes. An AddressHeader takes 36 of REQ's and SIDR_REQ's.
inline constexpr size_t kReqPrivateBytes = 92;
inline constexpr size_t kRepPrivateBytes = 196;
inline constexpr size_t kRtuPrivateBytes = 224;
inline constexpr size_t kRejPrivateBytes = 148;
inline constexpr size_t kMraPrivateBytes = 222;
inline constexpr size_t kDreqPrivateBytes = 220;
inline constexpr size_t kDrepPrivateBytes = 224;
inline constexpr size_t kSidrReqPrivateBytes = 216;
inline constexpr size_t kSidrRepPrivateBytes = 136;
inline constexpr size_t kAriBytes = 72;  // additional reject information, and SIDR_REP's

// Why a call was refused.
enum class Error : uint8_t {
  kGone,        // no such connection or listener (any more)
  kWrongState,  // not now: the connection is elsewhere in the exchange
  kInvalid,     // an argument makes no sense
  kTooLong,     // private data does not fit the message
  kTooMany,     // the table is full
  kInUse,       // somebody in this process listens there already
  kNoPorts,     // the host's table of ports is full
  kTimedOut,    // another process holds the lock of the host's ports, and does not go on
};

enum class QpKind : uint8_t { kRc, kUc, kXrc };

// REJ's reason, IBA table 108; as rdma_cm_event.status of RDMA_CM_EVENT_REJECTED.
enum class RejectReason : uint16_t {
  kNoQp = 1,
  kNoEec = 2,
  kNoResources = 3,
  kTimeout = 4,
  kUnsupported = 5,
  kInvalidCommId = 6,
  kInvalidCommInstance = 7,
  kInvalidServiceId = 8,
  kInvalidTransportType = 9,
  kStaleConnection = 10,
  kRdcNotExist = 11,
  kInvalidGid = 12,
  kInvalidLid = 13,
  kInvalidMtu = 26,
  kInsufficientResponderResources = 27,
  kConsumerDefined = 28,
  kInvalidRnrRetry = 29,
  kDuplicateCommId = 30,
  kInvalidClassVersion = 31,
};

// SIDR_REP's status, IBA table 122.
enum class SidrStatus : uint8_t {
  kSuccess = 0,
  kUnsupported = 1,  // nobody listens
  kRejected = 2,
  kNoQp = 3,
  kRedirect = 4,
  kUnsupportedVersion = 5,
};

// One end's queue pair as the exchange describes it.
struct QpFacts {
  Qpn qpn{};
  wire::Psn psn{};  // of the first request that it expects: its sender chooses for the other
  uint32_t qkey = 0;
  // Reads and atomics: how many that end answers at once, and how many it wants to have out.
  // Seen from the end that sends the message. In an event they are turned round, as rdma_cm_event
  // has them: what we should be able to answer, and what we may have out.
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t rnr_retry_count = 7;
  bool flow_control = false;
  bool srq = false;
};

struct ListenParams {
  uint64_t service_id = 0;
  // Only requests whose AddressHeader names one of these (without a header: that came to one). A
  // listener on one address goes before those on many.
  wire::AddressSet address{};
  // Requests that wait for accept() or reject(); one more is not heard, and its sender tries again.
  uint32_t backlog = 1024;
  uint64_t context = 0;  // comes back in events
};

struct ConnectParams {
  wire::Gid source{};
  wire::Gid destination{};
  uint64_t service_id = 0;
  std::optional<AddressHeader> addresses{};  // goes before the private data
  std::span<const uint8_t> private_data{};
  QpKind kind = QpKind::kRc;
  QpFacts qp{};
  uint8_t retry_count = 7;
  uint8_t mtu = 3;  // as enum ibv_mtu
  uint8_t traffic_class = 0;
  uint32_t flow_label = 0;
  uint8_t hop_limit = 64;
  uint8_t service_level = 0;
  uint16_t pkey = 0xffff;
  // Codes of times.h. The defaults are what Linux's rdma_cm says on RoCE: a packet lives at most
  // 2^18 * 4 us = 1 s, an answer takes at most 4 s.
  uint8_t packet_life_time = 18;
  uint8_t local_ack_timeout = 19;
  uint8_t response_timeout = 20;
  uint8_t max_cm_retries = 15;  // at most 15
  uint64_t context = 0;
};

struct AcceptParams {
  QpFacts qp{};
  uint8_t target_ack_delay = 15;
  std::span<const uint8_t> private_data{};
};

struct RejectParams {
  RejectReason reason = RejectReason::kConsumerDefined;
  std::span<const uint8_t> info{};  // ARI
  std::span<const uint8_t> private_data{};
};

struct SidrRequestParams {
  wire::Gid source{};
  wire::Gid destination{};
  uint64_t service_id = 0;
  std::optional<AddressHeader> addresses{};
  std::span<const uint8_t> private_data{};
  uint16_t pkey = 0xffff;
  uint8_t response_timeout = 20;
  uint8_t max_cm_retries = 15;
  uint64_t context = 0;
};

struct SidrReplyParams {
  SidrStatus status = SidrStatus::kSuccess;
  Qpn qpn{};
  uint32_t qkey = 0;
  std::span<const uint8_t> info{};
  std::span<const uint8_t> private_data{};
};

enum class EventKind : uint8_t {
  // A peer asks a listener of ours; answer with accept() or reject(). kGone afterwards means that
  // the peer has given up, which a kRejected or kDisconnected event has told.
  kConnectRequest,
  kConnectResponse,  // our connect() was accepted; answer with establish() or reject()
  kEstablished,      // at the accepting end: the peer's RTU, or data_arrived()
  kRejected,         // by the peer; `reason`. The id is gone.
  kUnreachable,      // nobody answered in time, or not to the end. The id is gone.
  // The connection has ended. After this come nothing but kTimewaitExit.
  kDisconnectRequested,  // by the peer's DREQ; it is answered already
  kDisconnected,         // our DREQ was answered, or never; or connection_lost(); or by a reset
  kTimewaitExit,         // nothing of the connection is left on the wire. The id is gone.
  kSidrRequest,          // answer with sidr_reply()
  kSidrResponse,         // `status`, qp.qpn and qp.qkey. The id is gone.
};
[[nodiscard]] const char* to_string(EventKind kind);

// What is not said to be of a kind is in all. Spans end with the call.
struct Event {
  EventKind kind = EventKind::kUnreachable;
  CommId id{};
  uint64_t context = 0;     // of connect(), sidr_request() or set_context(); 0 for a new request
  wire::Gid source{};       // our end
  wire::Gid destination{};  // the peer's
  uint32_t peer_id = 0;     // the peer's communication id; 0: not known yet
  std::span<const uint8_t> private_data{};  // without AddressHeader; padded to the message's room
  // Requests: who asked for them, and what for.
  ListenerId listener{};
  uint64_t listener_context = 0;
  uint64_t service_id = 0;
  std::optional<AddressHeader> addresses{};
  // kConnectRequest and kConnectResponse: the peer's queue pair, and (requests) the path it wants.
  QpKind qp_kind = QpKind::kRc;
  QpFacts qp{};
  uint8_t retry_count = 0;
  uint8_t mtu = 0;
  uint8_t traffic_class = 0;
  uint32_t flow_label = 0;
  uint8_t hop_limit = 0;
  uint8_t service_level = 0;
  uint16_t pkey = 0;
  uint8_t local_ack_timeout = 0;  // requests: a code, for our queue pair's timeout
  uint8_t target_ack_delay = 0;   // responses: a code
  // kRejected, and kDisconnected when a REJ ended it; a number that has no name here is possible.
  RejectReason reason{};
  std::span<const uint8_t> info{};
  // kSidrResponse
  SidrStatus status = SidrStatus::kSuccess;
};

}  // namespace verbena::cm
