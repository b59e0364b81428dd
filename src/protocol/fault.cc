// SPDX-License-Identifier: Apache-2.0
#include "protocol/fault.h"

namespace verbena::protocol {

const char* text_of(Fault fault) {
  switch (fault) {
    case Fault::kShort:      return "message ends before its last field";
    case Fault::kLong:       return "message has bytes after its last field";
    case Fault::kType:       return "unknown message type";
    case Fault::kUnexpected: return "message type is not for this side";
    case Fault::kTypeByte:   return "type byte of the I/O request is not valid";
    case Fault::kReserved:   return "field has an undefined value";
    case Fault::kObject:     return "unknown way to name an object";
    case Fault::kName:       return "object name is too long";
    case Fault::kText:       return "text is too long";
    case Fault::kSegments:   return "segment list is not valid";
    case Fault::kLength:     return "length is not valid";
    case Fault::kCount:      return "count of list entries is not valid";
    case Fault::kHeadCrc:    return "message is damaged: CRC over header and fields is wrong";
    case Fault::kIdentity:   return "fabric client id or session id is not of this session";
    case Fault::kKey:        return "session key or tag is wrong";
    case Fault::kRoom:       return "message does not fit the buffer";
    case Fault::kOrder:      return "request id is out of order";
    case Fault::kWindow:     return "more requests in flight than the session allows";
    case Fault::kMagic:      return "not the Verbena protocol";
    case Fault::kEnd:        break;
  }
  return "unknown";
}

}  // namespace verbena::protocol
