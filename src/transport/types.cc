// SPDX-License-Identifier: Apache-2.0
#include "transport/types.h"

namespace verbena::transport {

const char* to_string(QpState state) {
  switch (state) {
    case QpState::kReset: return "RESET";
    case QpState::kInit:  return "INIT";
    case QpState::kRtr:   return "RTR";
    case QpState::kRts:   return "RTS";
    case QpState::kSqd:   return "SQD";
    case QpState::kSqe:   return "SQE";
    case QpState::kErr:   return "ERR";
  }
  return "?";
}

const char* to_string(WcStatus status) {
  switch (status) {
    case WcStatus::kSuccess:              return "success";
    case WcStatus::kLocalLength:          return "local length error";
    case WcStatus::kLocalQpOperation:     return "local QP operation error";
    case WcStatus::kLocalProtection:      return "local protection error";
    case WcStatus::kFlushed:              return "flushed";
    case WcStatus::kMwBind:               return "memory window bind error";
    case WcStatus::kBadResponse:          return "bad response";
    case WcStatus::kLocalAccess:          return "local access error";
    case WcStatus::kRemoteInvalidRequest: return "remote invalid request";
    case WcStatus::kRemoteAccess:         return "remote access error";
    case WcStatus::kRemoteOperational:    return "remote operational error";
    case WcStatus::kRetryExceeded:        return "transport retries exceeded";
    case WcStatus::kRnrRetryExceeded:     return "receiver-not-ready retries exceeded";
    case WcStatus::kRemoteAborted:        return "remote aborted";
    case WcStatus::kFatal:                return "fatal error";
  }
  return "?";
}

const char* to_string(Error error) {
  switch (error) {
    case Error::kInvalid:     return "invalid argument, attribute or state";
    case Error::kNoSuchQp:    return "no such queue pair";
    case Error::kNoSuchSrq:   return "no such shared receive queue";
    case Error::kQueueFull:   return "work queue is full";
    case Error::kTooMany:     return "limit reached";
    case Error::kBusy:        return "still in use";
    case Error::kUnsupported: return "not supported";
  }
  return "?";
}

}  // namespace verbena::transport
