// SPDX-License-Identifier: Apache-2.0
#include "client/remote.h"

#include <chrono>

#include "client/client.h"
#include "client/remote_objects.h"
#include "fabric/verbs_fabric.h"

namespace verbena::client {
namespace {

// Messages each way at once: somewhat more than the window, unless the server has a very large one.
// Each takes 36 KiB, whose pages are filled when they are registered, which is most of what a short
// command costs.
constexpr uint32_t kMessages = 160;

store::Result<std::unique_ptr<Client>> connect(const RemoteOptions& options) {
  auto fabric = fabric::open_verbs_fabric({.libraries = options.libraries,
                                           .device = options.device,
                                           .receives = kMessages,
                                           .sends = kMessages});
  if (!fabric) return fail(store::Error{store::Code::kIo, fabric.error(), {}});
  auto client = Client::connect({.host = options.host,
                                 .port = options.port,
                                 .secret = options.secret,
                                 .timeout = options.timeout},
                                std::move(*fabric));
  if (!client) return fail(store_error(client.error()));
  return std::move(*client);
}

}  // namespace

store::Result<std::unique_ptr<store::Objects>> open_remote(const RemoteOptions& options) {
  auto client = connect(options);
  if (!client) return fail(client.error());
  return std::make_unique<RemoteObjects>(std::move(*client));
}

store::Result<void> ping_server(const RemoteOptions& options, const TakePing& take) {
  const auto client = connect(options);
  if (!client) return fail(client.error());
  for (bool more = true; more;) {
    const auto begin = std::chrono::steady_clock::now();
    const auto answered = (*client)->ping();
    const Duration time = (std::chrono::steady_clock::now() - begin).count();
    more = answered ? take(time) : take(fail(store_error(answered.error())));
  }
  return {};
}

}  // namespace verbena::client
