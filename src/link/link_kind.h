// SPDX-License-Identifier: Apache-2.0
// Which ways a process's packets may take.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace verbena::link {

// kAuto: through shared memory where both ends can, through the sockets elsewhere. kUdp: sockets
// alone. kShared: data goes through shared memory or nowhere.
enum class LinkKind : uint8_t { kAuto, kUdp, kShared };

[[nodiscard]] constexpr std::optional<LinkKind> link_named(std::string_view name) {
  if (name == "auto") return LinkKind::kAuto;
  if (name == "udp") return LinkKind::kUdp;
  if (name == "shared") return LinkKind::kShared;
  return std::nullopt;
}

}  // namespace verbena::link
