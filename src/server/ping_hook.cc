// SPDX-License-Identifier: Apache-2.0
#include "server/hook.h"

namespace verbena::server {
namespace {

class PingHook final : public HookFor<protocol::Ping> {
  [[nodiscard]] Where where() const override { return Where::kLoop; }
  [[nodiscard]] store::Result<void> execute(const Request& request, Response& response,
                                            Call& /*call*/,
                                            store::Store& /*store*/) const override {
    response.data = request.data;
    return {};
  }
};

}  // namespace

std::unique_ptr<Hook> make_ping_hook() { return std::make_unique<PingHook>(); }

}  // namespace verbena::server
