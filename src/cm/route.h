// SPDX-License-Identifier: Apache-2.0
// Which process of a host a message on QP1 is for, where several share the address: what the link
// looks at, without any connection manager's state.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "wire/gid.h"

namespace verbena::cm {

struct Route {
  enum class Kind : uint8_t {
    kNobody,    // not a message of connection management
    kSlot,      // an answer, or about a connection: to the process with this slot
    kService,   // REQ and SIDR_REQ: to the process that listens
    kEveryone,  // a REJ whose sender never learnt our id: to each, and at most one knows the peer's
  };
  Kind kind = Kind::kNobody;
  uint8_t slot = 0;
  uint64_t service_id = 0;
  // The address that the request names in its AddressHeader, if it has one: a listener bound to it
  // goes before one that takes any.
  std::optional<wire::Gid> address{};
};

[[nodiscard]] Route route(std::span<const uint8_t> mad);

}  // namespace verbena::cm
