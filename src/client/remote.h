// SPDX-License-Identifier: Apache-2.0
// A store that a server has, as programs use one: the same operations as on one in a directory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/time.h"
#include "client/remote_options.h"
#include "store/objects.h"

namespace verbena::client {

// Connects. kUnreachable: nobody answers there, or not in time, or refuses us.
[[nodiscard]] store::Result<std::unique_ptr<store::Objects>> open_remote(
    const RemoteOptions& options);

// Connects and sends one ping after another. After each, `take` is called with the time until its
// answer came, in ns, or with why none did; the next is sent when it returns true. It waits as long
// as there is to be between two of them. An error: there is no connection in the first place.
using TakePing = std::function<bool(const store::Result<Duration>& round_trip_ns)>;
[[nodiscard]] store::Result<void> ping_server(const RemoteOptions& options, const TakePing& take);

}  // namespace verbena::client
