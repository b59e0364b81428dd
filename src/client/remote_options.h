// SPDX-License-Identifier: Apache-2.0
// Where a server is, and how to reach it.
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"

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

}  // namespace verbena::client
