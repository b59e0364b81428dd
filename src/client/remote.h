// SPDX-License-Identifier: Apache-2.0
// A store that a server has, as programs use one: the same operations as on one in a directory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/time.h"
#include "store/objects.h"

namespace verbena::client {

inline constexpr uint16_t kDefaultPort = 7471;

struct RemoteOptions {
  std::string host;  // a name, or an IPv4 or IPv6 address without brackets
  uint16_t port = kDefaultPort;
  std::string libraries;  // directory of libibverbs.so.1 and the like; empty: the system's
  std::string device;     // name of the verbs device; empty: the one that leads there
  std::string fabric;     // "verbs", "ofi:PROVIDER"; empty: the best that both have
  std::string secret;     // shared with the server; empty: none
  Duration timeout = 30 * kSecond;  // of connecting and of each request
};

// Connects. kUnreachable: nobody answers there, or not in time, or refuses us.
[[nodiscard]] store::Result<std::unique_ptr<store::Objects>> open_remote(
    const RemoteOptions& options);

// Connects and sends one ping after another. After each, `take` is called with the time until its
// answer came, in ns, or with why none did; the next is sent when it returns true. It waits as long
// as there is to be between two of them. An error: there is no connection in the first place.
using TakePing = std::function<bool(const store::Result<Duration>& round_trip_ns)>;
[[nodiscard]] store::Result<void> ping_server(const RemoteOptions& options, const TakePing& take);

}  // namespace verbena::client
