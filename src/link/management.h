// SPDX-License-Identifier: Apache-2.0
// Which process of a host a message on QP1 is for. The link does not know the messages of the
// connection manager: who does hands this in.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "wire/gid.h"

namespace verbena::link {

struct ManagementRoute {
  enum class Kind : uint8_t {
    kNobody,    // not a message of connection management
    kSlot,      // an answer, or about a connection: to the process with this slot
    kService,   // a request: to the process that listens
    kEveryone,  // to each, and at most one knows what it is about
  };
  Kind kind = Kind::kNobody;
  uint8_t slot = 0;
  uint64_t service_id = 0;
  // The address that the request names, if it does: a listener bound to it goes before one that
  // takes any.
  std::optional<wire::Gid> address{};
};

// The messages that the kernel's steering tells apart (steering.h), by their attribute id.
struct ManagementAttributes {
  uint16_t request = 0;
  uint16_t sidr_request = 0;
  uint16_t sidr_reply = 0;
};

// Nobody owns one, so it has no destructor to run: helper threads ask until the process is gone.
class ManagementRules {
 public:
  [[nodiscard]] virtual ManagementAttributes attributes() const = 0;
  // `message` is the payload of a datagram to QP1, of any length.
  [[nodiscard]] virtual ManagementRoute route(std::span<const uint8_t> message) const = 0;

 protected:
  ~ManagementRules() = default;
};

}  // namespace verbena::link
