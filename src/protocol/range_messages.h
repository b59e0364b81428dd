// SPDX-License-Identifier: Apache-2.0
// Registered ranges of objects. They belong to the session and end with it.
#pragma once

#include <cstdint>

#include "protocol/object_messages.h"

namespace verbena::protocol {

enum class RangeAccess : uint8_t { kRead = 0, kWrite = 1 };
[[nodiscard]] constexpr bool is_defined(RangeAccess access) {
  return access <= RangeAccess::kWrite;
}

struct RangeRegisterResponse {
  static constexpr MessageType kType{108};
  static constexpr const char* kName = "RANGE_REGISTER_ACK";
  uint64_t id = 0;
  Status status = Status::kOk;
  std::string_view detail{};
  uint64_t range = 0;
  bool operator==(const RangeRegisterResponse&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.id, self.status);
    f.text(self.detail);
    f(self.range);
  }
};
struct RangeRegisterRequest {
  static constexpr MessageType kType{107};
  static constexpr const char* kName = "RANGE_REGISTER";
  static constexpr Effect kEffect = Effect::kSession;
  using Response = RangeRegisterResponse;
  uint64_t id = 0;
  uint64_t oldest = 0;
  ObjectRef object{};
  uint64_t offset = 0;
  uint64_t length = 0;  // 0: to the end of the object, however long it becomes
  RangeAccess access = RangeAccess::kRead;
  bool operator==(const RangeRegisterRequest&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.id, self.oldest, self.object, self.offset, self.length, self.access);
  }
};

struct RangeUnregisterResponse : Ack<110> {
  static constexpr const char* kName = "RANGE_UNREGISTER_ACK";
};
struct RangeUnregisterRequest {
  static constexpr MessageType kType{109};
  static constexpr const char* kName = "RANGE_UNREGISTER";
  static constexpr Effect kEffect = Effect::kSession;
  using Response = RangeUnregisterResponse;
  uint64_t id = 0;
  uint64_t oldest = 0;
  uint64_t range = 0;
  bool operator==(const RangeUnregisterRequest&) const = default;
  static void fields(auto& self, auto& f) { f(self.id, self.oldest, self.range); }
};

}  // namespace verbena::protocol
