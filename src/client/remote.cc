// SPDX-License-Identifier: Apache-2.0
#include "client/remote.h"

#include <chrono>
#include <string_view>
#include <vector>

#include "client/client.h"
#include "client/remote_objects.h"
#include "fabric/fabric_choice.h"

namespace verbena::client {
namespace {

// Messages each way at once: somewhat more than the window, unless the server has a very large one.
// Each takes 36 KiB, whose pages are filled when they are registered, which is most of what a short
// command costs.
constexpr uint32_t kMessages = 160;

using Connected = Result<std::unique_ptr<Client>>;

Connected connect_by(const fabric::FabricChoice& choice, const RemoteOptions& options) {
  auto fabric = fabric::open_fabric(choice, {.libraries = options.libraries,
                                             .device = options.device,
                                             .receives = kMessages,
                                             .sends = kMessages});
  if (!fabric) return fail(Error{Code::kNoFabric, {}, fabric.error()});
  return Client::connect({.host = options.host,
                          .port = options.port,
                          .secret = options.secret,
                          .timeout = options.timeout},
                         std::move(*fabric));
}

bool is_this_host(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// The best that both have, or the one that is asked for: a server refuses those that it does not
// have. Why the first one failed says most.
Connected connect_by_best(const RemoteOptions& options) {
  std::vector<fabric::FabricChoice> choices{{}};
  if (!options.fabric.empty()) {
    auto choice = fabric::parse_fabric(options.fabric);
    if (!choice) return fail(Error{Code::kInvalid, {}, choice.error()});
    choices = {std::move(*choice)};
  } else if (options.device.empty()) {
    if (is_this_host(options.host)) choices.push_back({"shm"});
    choices.insert(choices.end(), {{"verbs;ofi_rxm"}, {"tcp;ofi_rxm"}});
  }
  Connected first = connect_by(choices.front(), options);
  for (size_t i = 1; i < choices.size(); ++i) {
    if (first || first.error().code != Code::kNoFabric) break;
    Connected next = connect_by(choices[i], options);
    if (next || next.error().code != Code::kNoFabric) return next;
  }
  return first;
}

store::Result<std::unique_ptr<Client>> connect(const RemoteOptions& options) {
  auto client = connect_by_best(options);
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
