// SPDX-License-Identifier: Apache-2.0
// What is behind a server whose store is a cache.
#pragma once

#include <cstdint>
#include <string_view>

#include "protocol/message.h"

namespace verbena::protocol {

enum class BehindAction : uint8_t {
  kLook,   // nothing is done
  kFlush,  // what is only here is behind, too, when the response says so
  kEvict,  // what is behind as well leaves the cache
};
[[nodiscard]] constexpr bool is_defined(BehindAction action) {
  return static_cast<uint8_t>(action) <= 2;
}

struct BehindResponse {
  static constexpr MessageType kType{128};
  static constexpr const char* kName = "BEHIND_ACK";
  uint64_t id = 0;
  Status status = Status::kOk;
  std::string_view detail{};
  // Parts of 4048 bytes, afterwards: only in the cache, in both, only behind. Of one object; of
  // all, 0.
  uint64_t only_here = 0;
  uint64_t in_both = 0;
  uint64_t behind = 0;
  uint64_t evicted = 0;  // that have left
  bool flushed = false;  // all of the object is behind as it is here
  bool operator==(const BehindResponse&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.id, self.status);
    f.text(self.detail);
    f(self.only_here, self.in_both, self.behind, self.evicted, self.flushed);
  }
};
// Of an object; the default object, if there is none: of all.
struct BehindRequest {
  static constexpr MessageType kType{127};
  static constexpr const char* kName = "BEHIND";
  static constexpr Effect kEffect = Effect::kNone;
  using Response = BehindResponse;
  uint64_t id = 0;
  uint64_t oldest = 0;
  ObjectRef object{};
  BehindAction action = BehindAction::kLook;
  bool operator==(const BehindRequest&) const = default;
  static void fields(auto& self, auto& f) { f(self.id, self.oldest, self.object, self.action); }
};

}  // namespace verbena::protocol
