// SPDX-License-Identifier: Apache-2.0
// Enumerators in words, for logs and failing tests.
#include "cm/connection.h"
#include "cm/mad.h"
#include "cm/types.h"

namespace verbena::cm {

const char* to_string(EventKind kind) {
  switch (kind) {
    case EventKind::kConnectRequest:      return "connect request";
    case EventKind::kConnectResponse:     return "connect response";
    case EventKind::kEstablished:         return "established";
    case EventKind::kRejected:            return "rejected";
    case EventKind::kUnreachable:         return "unreachable";
    case EventKind::kDisconnectRequested: return "disconnect requested";
    case EventKind::kDisconnected:        return "disconnected";
    case EventKind::kTimewaitExit:        return "timewait exit";
    case EventKind::kSidrRequest:         return "SIDR request";
    case EventKind::kSidrResponse:        return "SIDR response";
  }
  return "?";
}

const char* to_string(State state) {
  switch (state) {
    case State::kReqSent:         return "REQ sent";
    case State::kReqReceived:     return "REQ received";
    case State::kRepSent:         return "REP sent";
    case State::kRepReceived:     return "REP received";
    case State::kEstablished:     return "established";
    case State::kDreqSent:        return "DREQ sent";
    case State::kTimewait:        return "timewait";
    case State::kRefused:         return "refused";
    case State::kSidrReqSent:     return "SIDR_REQ sent";
    case State::kSidrReqReceived: return "SIDR_REQ received";
    case State::kSidrReplied:     return "SIDR_REP sent";
  }
  return "?";
}

const char* to_string(MadError error) {
  switch (error) {
    case MadError::kLength:    return "not 256 bytes";
    case MadError::kClass:     return "not of connection management, version 2";
    case MadError::kMethod:    return "method is not Send";
    case MadError::kAttribute: return "no such message";
    case MadError::kCount:     break;
  }
  return "?";
}

}  // namespace verbena::cm
