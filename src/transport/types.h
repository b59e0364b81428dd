// SPDX-License-Identifier: Apache-2.0
// The transport's vocabulary. Numeric values are those of <infiniband/verbs.h> where it has the
// name, so that the verbs boundary passes them through (and asserts that they agree).
#pragma once

#include <cstdint>

namespace verbena::transport {

enum class QpType : uint8_t { kRc = 2, kUc = 3, kUd = 4, kXrcSend = 9, kXrcRecv = 10 };

// Acknowledged and in order. XRC is RC with the two halves of a queue pair apart.
[[nodiscard]] constexpr bool is_reliable(QpType type) {
  return type == QpType::kRc || type == QpType::kXrcSend || type == QpType::kXrcRecv;
}
// Whether it has receives of its own, or of a shared queue that was chosen with it.
[[nodiscard]] constexpr bool is_for_receives(QpType type) {
  return type != QpType::kXrcSend && type != QpType::kXrcRecv;
}
// Answers requests.
[[nodiscard]] constexpr bool is_reliable_responder(QpType type) {
  return type == QpType::kRc || type == QpType::kXrcRecv;
}

enum class QpState : uint8_t {
  kReset = 0,
  kInit = 1,
  kRtr = 2,
  kRts = 3,
  kSqd = 4,
  kSqe = 5,
  kErr = 6,
};
inline constexpr int kQpStates = 7;
[[nodiscard]] const char* to_string(QpState state);

// Path MTU; the enumerator's value is ibv_mtu's.
enum class Mtu : uint8_t { k256 = 1, k512 = 2, k1024 = 3, k2048 = 4, k4096 = 5 };
[[nodiscard]] constexpr uint32_t mtu_bytes(Mtu mtu) { return 128u << static_cast<uint8_t>(mtu); }

enum class WcStatus : uint8_t {
  kSuccess = 0,
  kLocalLength = 1,
  kLocalQpOperation = 2,
  kLocalProtection = 4,
  kFlushed = 5,
  kMwBind = 6,
  kBadResponse = 7,
  kLocalAccess = 8,
  kRemoteInvalidRequest = 9,
  kRemoteAccess = 10,
  kRemoteOperational = 11,
  kRetryExceeded = 12,
  kRnrRetryExceeded = 13,
  kRemoteAborted = 16,
  kFatal = 19,
};
[[nodiscard]] const char* to_string(WcStatus status);

enum class WcOpcode : uint8_t {
  kSend = 0,
  kWrite = 1,
  kRead = 2,
  kCompareSwap = 3,
  kFetchAdd = 4,
  kBindMw = 5,
  kLocalInvalidate = 6,
  kFlush = 8,
  kAtomicWrite = 9,
  kRecv = 128,
  kRecvWriteImm = 129,
  kConfigureKey = 135,  // IBV_WC_DRIVER1, as a ConnectX has it
  kCopy = 137,          // IBV_WC_DRIVER3
};

enum WcFlags : uint32_t {
  kWcGrh = 1u << 0,
  kWcWithImm = 1u << 1,
  kWcWithInvalidate = 1u << 3,
};

// Numbered as ibv_wr_opcode.
enum class SendOp : uint8_t {
  kWrite = 0,
  kWriteImm = 1,
  kSend = 2,
  kSendImm = 3,
  kRead = 4,
  kCompareSwap = 5,
  kFetchAdd = 6,
  kLocalInvalidate = 7,
  kBindWindow = 8,
  kSendInvalidate = 9,
  kConfigureKey = 11,  // IBV_WR_DRIVER1
  kFlush = 14,
  kAtomicWrite = 15,
  kCopy = 32,  // between keys of this host; has no number in verbs
};

enum SendFlags : uint32_t {
  kFence = 1u << 0,
  kSignaled = 1u << 1,
  kSolicited = 1u << 2,
  kInline = 1u << 3,
};

enum class Event : uint8_t {
  kQpFatal = 1,
  kQpRequestError = 2,
  kQpAccessError = 3,
  kCommunicationEstablished = 4,
  kSqDrained = 5,
  kSrqLimitReached = 15,
  kQpLastWqeReached = 16,
};

// Why a call was refused; the verbs boundary turns these into the errno of the man page.
enum class Error : uint8_t {
  kInvalid,  // EINVAL: argument, attribute mask or state
  kNoSuchQp,
  kNoSuchSrq,
  kQueueFull,    // ENOMEM: no room for a work request
  kTooMany,      // ENOMEM: a limit is reached
  kBusy,         // EBUSY
  kUnsupported,  // EOPNOTSUPP
};
[[nodiscard]] const char* to_string(Error error);

}  // namespace verbena::transport
