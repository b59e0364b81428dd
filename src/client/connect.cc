// SPDX-License-Identifier: Apache-2.0
#include "client/connect.h"

#include <vector>

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
  if (!fabric) return fail(Error{Code::kLocal, {}, fabric.error()});
  return Client::connect({.host = options.host,
                          .port = options.port,
                          .secret = options.secret,
                          .timeout = options.timeout},
                         std::move(*fabric));
}

// One end does not have the fabric: another one may do.
bool may_try_another(const Connected& connected) {
  return !connected &&
         (connected.error().code == Code::kLocal || connected.error().code == Code::kNoFabric);
}

}  // namespace

// The best that both have, or the one that is asked for: a server refuses those that it does not
// have. Why the first one failed says most.
Result<std::unique_ptr<Client>> connect(const RemoteOptions& options) {
  std::vector<fabric::FabricChoice> choices{{}};
  if (!options.fabric.empty()) {
    auto choice = fabric::parse_fabric(options.fabric);
    if (!choice) return fail(Error{Code::kInvalid, {}, choice.error()});
    choices = {std::move(*choice)};
  } else if (options.device.empty()) {
    choices.insert(choices.end(), {{"verbs;ofi_rxm"}, {"tcp;ofi_rxm"}});
  }
  Connected first = connect_by(choices.front(), options);
  for (size_t i = 1; i < choices.size(); ++i) {
    if (!may_try_another(first)) break;
    Connected next = connect_by(choices[i], options);
    if (!may_try_another(next)) return next;
  }
  return first;
}

}  // namespace verbena::client
