// SPDX-License-Identifier: Apache-2.0
#include "client/connect.h"

#include "fabric/verbs_fabric.h"

namespace verbena::client {
namespace {

// Messages each way at once: somewhat more than the window, unless the server has a very large one.
// Each takes 36 KiB, whose pages are filled when they are registered, which is most of what a short
// command costs.
constexpr uint32_t kMessages = 160;

}  // namespace

Result<std::unique_ptr<Client>> connect(const RemoteOptions& options) {
  auto fabric = fabric::open_verbs_fabric({.libraries = options.libraries,
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

}  // namespace verbena::client
