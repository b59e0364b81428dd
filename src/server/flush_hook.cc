// SPDX-License-Identifier: Apache-2.0
#include "server/hook.h"

namespace verbena::server {
namespace {

class FlushHook final : public HookFor<protocol::FlushRequest> {
  [[nodiscard]] Where where() const override { return Where::kWorker; }
  [[nodiscard]] store::Result<void> execute(const Request& request, Response& /*response*/,
                                            Call& call, store::Store& store) const override {
    // Everything is flushed, but an object that is not there is an error.
    const bool all = request.object.kind == protocol::ObjectRef::Kind::kDefault &&
                     call.default_object == ObjectId{};
    if (!all) {
      const auto object = find(request.object, call, store);
      if (!object) return fail(object.error());
      if (const auto info = store.stat(*object); !info) return fail(info.error());
    }
    return store.flush();
  }
};

}  // namespace

std::unique_ptr<Hook> make_flush_hook() { return std::make_unique<FlushHook>(); }

}  // namespace verbena::server
