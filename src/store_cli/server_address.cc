// SPDX-License-Identifier: Apache-2.0
#include "store_cli/server_address.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "store_cli/object_name.h"

namespace verbena::store_cli {
namespace {

[[nodiscard]] std::optional<uint16_t> port_in(std::string_view text, uint16_t least) {
  uint16_t port = 0;
  const auto [after, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || after != text.data() + text.size() || port < least) {
    return std::nullopt;
  }
  return port;
}

// Of names and of addresses with a zone. What else stands there is a mistake, such as a path.
[[nodiscard]] bool is_host(std::string_view text) {
  constexpr size_t kLongest = 253;
  return !text.empty() && text.size() <= kLongest && std::ranges::all_of(text, [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || std::string_view("-._:%").contains(letter);
  });
}

Result<ServerAddress, std::string> parse(std::string_view text, uint16_t least_port,
                                         uint16_t default_port) {
  const auto wrong = [&](const char* why) {
    return fail(fmt::format("invalid server '{}': {}", printable(text), why));
  };
  std::string_view host = text;
  std::optional<std::string_view> port;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return wrong("the bracket is not closed");
    host = text.substr(1, end - 1);
    const std::string_view left = text.substr(end + 1);
    if (!left.empty() && left.front() != ':') return wrong("expected :PORT behind the bracket");
    if (!left.empty()) port = left.substr(1);
    if (!host.contains(':')) return wrong("brackets are for IPv6 addresses");
  } else if (const size_t colon = text.find(':'); colon == text.rfind(':')) {
    host = text.substr(0, colon);
    if (colon != std::string_view::npos) port = text.substr(colon + 1);
  }
  if (!is_host(host)) return wrong("expected HOST or HOST:PORT");
  ServerAddress address{std::string(host), default_port};
  if (port) {
    const auto number = port_in(*port, least_port);
    if (!number) {
      return wrong(least_port == 0 ? "a port is a number from 0 to 65535"
                                   : "a port is a number from 1 to 65535");
    }
    address.port = *number;
  }
  return address;
}

}  // namespace

Result<ServerAddress, std::string> parse_server(std::string_view text, uint16_t default_port) {
  return parse(text, 1, default_port);
}

Result<ServerAddress, std::string> parse_listen(std::string_view text, uint16_t default_port) {
  if (!text.starts_with('*')) return parse(text, 0, default_port);
  auto address = parse(fmt::format("any{}", text.substr(1)), 0, default_port);
  if (!address) return fail(fmt::format("invalid address '{}'", printable(text)));
  if (address->host != "any") return fail(fmt::format("invalid address '{}'", printable(text)));
  address->host.clear();
  return address;
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string text_of(const ServerAddress& address) {
  if (address.host.empty()) return fmt::format("*:{}", address.port);
  const bool brackets = address.host.contains(':');
  return fmt::format("{}{}{}:{}", brackets ? "[" : "", address.host, brackets ? "]" : "",
                     address.port);
}

}  // namespace verbena::store_cli
