// SPDX-License-Identifier: Apache-2.0
#include "client/remote.h"

#include <chrono>

#include "client/client.h"
#include "client/connect.h"
#include "client/remote_objects.h"

namespace verbena::client {

store::Result<std::unique_ptr<store::Objects>> open_remote(const RemoteOptions& options) {
  auto client = connect(options);
  if (!client) return fail(store_error(client.error()));
  return std::make_unique<RemoteObjects>(std::move(*client));
}

store::Result<void> ping_server(const RemoteOptions& options, const TakePing& take) {
  const auto client = connect(options);
  if (!client) return fail(store_error(client.error()));
  for (bool more = true; more;) {
    const auto begin = std::chrono::steady_clock::now();
    const auto answered = (*client)->ping();
    const Duration time = (std::chrono::steady_clock::now() - begin).count();
    more = answered ? take(time) : take(fail(store_error(answered.error())));
  }
  return {};
}

}  // namespace verbena::client
