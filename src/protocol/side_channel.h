// SPDX-License-Identifier: Apache-2.0
// The messages of the side channel, a TCP connection beside the fabric: who is who, limits,
// keep-alive, end.
//
//   frame   | length u16 | type u8 | fields ... |        length: of type and fields, 1 to 1024
//
//   client                                     server
//     HELLO        ------------------------->
//                  <-------------------------  CHALLENGE      with a shared secret only
//     PROOF        ------------------------->                 with a shared secret only
//                  <-------------------------  WELCOME
//     PING         ------------------------->
//                  <-------------------------  PONG
//     GOODBYE      <------------------------>  GOODBYE        then the connection is closed
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "protocol/fields.h"

namespace verbena::protocol {

inline constexpr uint32_t kHelloMagic = 0x5652424e;  // "VRBN"
inline constexpr uint16_t kProtocolVersion = 1;      // the only one so far
inline constexpr size_t kFrameHeadBytes = 2;
inline constexpr size_t kMaxFrameBytes = 1024;  // after the length

using Nonce = std::array<uint8_t, 32>;
using Mac = std::array<uint8_t, 32>;         // HMAC-SHA256
using InstanceId = std::array<uint8_t, 16>;  // random, of a client or of one run of a server

// Bits of `features`.
inline constexpr uint64_t kFeatureSecret = 1;  // the sender has a shared secret
// The upper half, of a HELLO: which of the server's fabrics the client uses; 0: the first.
inline constexpr int kFabricShift = 32;
// By its name ("verbs", "ofi:tcp;ofi_rxm"): its CRC, never 0.
[[nodiscard]] uint32_t number_of_fabric(std::string_view name);

struct Hello {
  static constexpr uint8_t kType = 1;
  uint32_t magic = kHelloMagic;
  uint16_t min_version = kProtocolVersion;
  uint16_t max_version = kProtocolVersion;
  uint64_t features = 0;
  InstanceId client{};
  Nonce nonce{};
  // The session that was lost, and its key if there was no shared secret; 0: none.
  uint64_t resume_session = 0;
  uint64_t resume_key = 0;
  bool operator==(const Hello&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.magic, self.min_version, self.max_version, self.features, self.client, self.nonce,
      self.resume_session, self.resume_key);
  }
};

struct Challenge {
  static constexpr uint8_t kType = 2;
  uint16_t version = 0;
  InstanceId server{};
  Nonce nonce{};
  bool operator==(const Challenge&) const = default;
  static void fields(auto& self, auto& f) { f(self.version, self.server, self.nonce); }
};

struct Proof {
  static constexpr uint8_t kType = 3;
  Mac mac{};
  bool operator==(const Proof&) const = default;
  static void fields(auto& self, auto& f) { f(self.mac); }
};

// What a session may use.
struct Limits {
  uint32_t inline_bytes = 32768;  // of user data in a message; at most kMaxInlineBytes
  uint16_t window = 128;          // requests in flight
  uint16_t result_span = 1024;    // ids from `oldest` on, of requests that change the store
  uint8_t segments = 16;          // of a request
  uint64_t io_bytes = 16u << 20;  // of one read or write
  uint32_t keep_alive_ms = 2000;  // the client sends a PING this often
  uint32_t silence_ms = 10000;    // either side gives up after so long without a frame
  bool operator==(const Limits&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.inline_bytes, self.window, self.result_span, self.segments, self.io_bytes,
      self.keep_alive_ms, self.silence_ms);
  }
};
// Whether a client can work with them.
[[nodiscard]] bool usable(const Limits& limits);

struct Welcome {
  static constexpr uint8_t kType = 4;
  uint16_t version = 0;
  InstanceId server{};  // a new one each time the server starts
  uint64_t session = 0;
  uint64_t key = 0;      // 0 with a shared secret
  bool resumed = false;  // the results of the lost session's requests are remembered
  Limits limits{};
  std::string_view fabric_host{};  // numeric; empty: that of the side channel
  uint16_t fabric_port = 0;
  Mac mac{};  // zeros without a shared secret
  bool operator==(const Welcome&) const = default;
  // All that the MAC covers.
  static void signed_fields(auto& self, auto& f) {
    f(self.version, self.server, self.session, self.key, self.resumed, self.limits);
    f.text(self.fabric_host);
    f(self.fabric_port);
  }
  static void fields(auto& self, auto& f) {
    signed_fields(self, f);
    f(self.mac);
  }
};

struct SidePing {
  static constexpr uint8_t kType = 5;
  uint64_t cookie = 0;
  bool operator==(const SidePing&) const = default;
  static void fields(auto& self, auto& f) { f(self.cookie); }
};
struct SidePong {
  static constexpr uint8_t kType = 6;
  uint64_t cookie = 0;  // the PING's
  bool operator==(const SidePong&) const = default;
  static void fields(auto& self, auto& f) { f(self.cookie); }
};

enum class EndReason : uint16_t {
  kDone = 0,            // the client has no more requests
  kShutdown = 1,        // the server ends
  kVersion = 2,         // no common version
  kSecretRequired = 3,  // the server has a shared secret, the client has none
  kNoSecret = 4,        // the client has a shared secret, the server has none
  kWrongSecret = 5,     // the shared secrets differ
  kBusy = 6,            // too many sessions
  kTimeout = 7,         // nothing was heard for too long
  kProtocol = 8,        // a frame or message was not valid
  kInUse = 9,           // the client instance has a session and the resumption is not genuine
  kReplaced = 10,       // the client instance has connected again
  kFabric = 11,         // the queue pair failed
  kNoFabric = 12,       // the server does not have the fabric that the client uses
};
[[nodiscard]] constexpr bool is_defined(EndReason reason) { return reason <= EndReason::kNoFabric; }
[[nodiscard]] const char* text_of(EndReason reason);  // a phrase for people

struct Goodbye {
  static constexpr uint8_t kType = 7;
  EndReason reason = EndReason::kDone;
  std::string_view detail{};
  bool operator==(const Goodbye&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.reason);
    f.text(self.detail);
  }
};

using SideMessage = std::variant<Hello, Challenge, Proof, Welcome, SidePing, SidePong, Goodbye>;

// Length, type and fields, appended. What the decoder would refuse may not be written: that is
// checked.
void append_frame(const SideMessage& message, std::vector<uint8_t>& to);
[[nodiscard]] std::vector<uint8_t> frame_of(const SideMessage& message);
// A frame as it was sent, from what follows its length.
[[nodiscard]] std::vector<uint8_t> with_length(std::span<const uint8_t> frame);
// `frame`: what follows the length. Views point into it.
[[nodiscard]] Decoded<SideMessage> decode_frame(std::span<const uint8_t> frame);

// Takes a stream of bytes apart into frames. Holds one incomplete frame at most.
class FrameReader {
 public:
  // Takes bytes off the front of `bytes` until a frame is complete: type and fields of it, valid
  // until the next call. Empty: all bytes are taken, and more are needed. kLength: not a frame;
  // there is no next.
  [[nodiscard]] Decoded<std::span<const uint8_t>> next(std::span<const uint8_t>& bytes);
  [[nodiscard]] size_t buffered() const { return held_.size(); }

 private:
  std::vector<uint8_t> held_;
  bool complete_ = false;  // held_ is a frame that was given out
};

}  // namespace verbena::protocol
