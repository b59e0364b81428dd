// SPDX-License-Identifier: Apache-2.0
// Where a server is, as people write it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "client/remote.h"

namespace verbena::store_cli {

struct ServerAddress {
  std::string host;  // without brackets
  uint16_t port = 0;
  bool operator==(const ServerAddress&) const = default;
};

// HOST or HOST:PORT; an IPv6 address in brackets, or, without a port, alone: "node1",
// "10.0.0.1:7471", "[fe80::1%eth0]:7471", "::1".
[[nodiscard]] Result<ServerAddress, std::string> parse_server(
    std::string_view text, uint16_t default_port = client::kDefaultPort);
// Where a server listens: the same, "*" for any address (an empty host), and port 0 for any that is
// free.
[[nodiscard]] Result<ServerAddress, std::string> parse_listen(
    std::string_view text, uint16_t default_port = client::kDefaultPort);
// Of this host only.
[[nodiscard]] bool is_loopback(std::string_view host);
// The same the other way round.
[[nodiscard]] std::string text_of(const ServerAddress& address);

}  // namespace verbena::store_cli
