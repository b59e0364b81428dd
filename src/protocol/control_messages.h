// SPDX-License-Identifier: Apache-2.0
// Messages about the connection itself: binding a queue pair to a session, refusals, ping.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "protocol/message.h"

namespace verbena::protocol {

// The first message of a queue pair, from the client: fabric client id 0.
struct ConnectInit {
  static constexpr MessageType kType{0};
  static constexpr const char* kName = "CONNECT_INIT";
  uint16_t version = 0;  // as agreed on the side channel
  bool operator==(const ConnectInit&) const = default;
  static void fields(auto& self, auto& f) { f(self.version); }
};
// Its answer. All later messages, both ways, have this fabric client id.
struct AssignId {
  static constexpr MessageType kType{1};
  static constexpr const char* kName = "ASSIGN_ID";
  uint64_t fabric = 0;
  bool operator==(const AssignId&) const = default;
  static void fields(auto& self, auto& f) { f(self.fabric); }
};
// From the server, before it ends the session: a message failed the check of identity or key
// (BAD_AUTH), or was not valid (FATAL_ERROR).
struct BadAuth {
  static constexpr MessageType kType{2};
  static constexpr const char* kName = "BAD_AUTH";
  std::string_view detail{};
  bool operator==(const BadAuth&) const = default;
  static void fields(auto& self, auto& f) { f.text(self.detail); }
};
struct FatalError {
  static constexpr MessageType kType{3};
  static constexpr const char* kName = "FATAL_ERROR";
  std::string_view detail{};
  bool operator==(const FatalError&) const = default;
  static void fields(auto& self, auto& f) { f.text(self.detail); }
};
// The answer to a request of an unknown type; the session goes on.
struct Refused {
  static constexpr MessageType kType{4};
  static constexpr const char* kName = "REFUSED";
  uint64_t id = 0;
  Status status = Status::kUnsupported;
  std::string_view detail{};
  uint64_t type = 0;  // of the request
  bool operator==(const Refused&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.id, self.status);
    f.text(self.detail);
    f(self.type);
  }
};

struct Pong {
  static constexpr MessageType kType{11};
  static constexpr const char* kName = "PONG";
  uint64_t id = 0;
  Status status = Status::kOk;
  std::string_view detail{};
  std::span<const uint8_t> data{};  // those of the PING
  static void fields(auto& self, auto& f) {
    f(self.id, self.status);
    f.text(self.detail);
    f.bytes16(self.data);
  }
};
struct Ping {
  static constexpr MessageType kType{10};
  static constexpr const char* kName = "PING";
  static constexpr Effect kEffect = Effect::kNone;
  using Response = Pong;
  uint64_t id = 0;
  uint64_t oldest = 0;
  std::span<const uint8_t> data{};
  static void fields(auto& self, auto& f) {
    f(self.id, self.oldest);
    f.bytes16(self.data);
  }
};

}  // namespace verbena::protocol
