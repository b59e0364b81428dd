// SPDX-License-Identifier: Apache-2.0
#include "server/hook.h"

namespace verbena::server {
namespace {

class FlushHook final : public HookFor<protocol::FlushRequest> {
  [[nodiscard]] Where where() const override { return Where::kWorker; }
  [[nodiscard]] bool goes_behind() const override { return true; }
  // Everything is flushed, but an object that is not there is an error.
  [[nodiscard]] store::Result<void> check(const Request& request, const Call& call,
                                          store::Store& store) const override {
    const bool all = request.object.kind == protocol::ObjectRef::Kind::kDefault &&
                     call.default_object == ObjectId{};
    if (all) return {};
    const auto info = find_info(request.object, call, store);
    return info ? store::Result<void>{} : fail(info.error());
  }
  [[nodiscard]] store::Result<void> execute(const Request& /*request*/, Response& /*response*/,
                                            Call& call, store::Store& store) const override {
    // A store that ends with the server has nothing durable but what is behind it.
    const bool keeps = store.medium_properties().persistent;
    if (call.cache != nullptr && !keeps) return call.cache->flush_all();
    return store.flush();
  }
};

}  // namespace

std::unique_ptr<Hook> make_flush_hook() { return std::make_unique<FlushHook>(); }

}  // namespace verbena::server
