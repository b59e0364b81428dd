// SPDX-License-Identifier: Apache-2.0
#include "client/remote.h"

namespace verbena::client {
namespace {

[[nodiscard]] store::Error not_built_yet() {
  return {store::Code::kUnreachable, "the client is not built yet", {}};
}

}  // namespace

store::Result<std::unique_ptr<store::Objects>> open_remote(const RemoteOptions& /*options*/) {
  return fail(not_built_yet());
}

store::Result<void> ping_server(const RemoteOptions& /*options*/, const TakePing& /*take*/) {
  return fail(not_built_yet());
}

}  // namespace verbena::client
