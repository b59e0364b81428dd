// SPDX-License-Identifier: Apache-2.0
// The CRC of an object's bytes, without the bytes: to compare an object with a file, or with
// another object.
#pragma once

#include <cstdint>
#include <string_view>

#include "protocol/message.h"

namespace verbena::protocol {

struct CrcResponse {
  static constexpr MessageType kType{126};
  static constexpr const char* kName = "CRC_ACK";
  uint64_t id = 0;
  Status status = Status::kOk;
  std::string_view detail{};
  // How many bytes the CRC is of: fewer than asked for at the object's end, and where the server
  // does not look at more in one request. Then the client asks for the rest, and joins the two.
  uint64_t length = 0;
  uint32_t crc = 0;
  bool operator==(const CrcResponse&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.id, self.status);
    f.text(self.detail);
    f(self.length, self.crc);
  }
};
// Combined from the CRCs that are stored with the chunks, whose data is not looked at.
struct CrcRequest {
  static constexpr MessageType kType{125};
  static constexpr const char* kName = "CRC";
  static constexpr Effect kEffect = Effect::kNone;
  using Response = CrcResponse;
  uint64_t id = 0;
  uint64_t oldest = 0;
  ObjectRef object{};
  uint64_t offset = 0;
  uint64_t length = 0;  // 0: to the end
  bool operator==(const CrcRequest&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.id, self.oldest, self.object, self.offset, self.length);
  }
};

}  // namespace verbena::protocol
