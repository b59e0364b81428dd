// SPDX-License-Identifier: Apache-2.0
// Ranges of objects that a session registers.
#include "server/hook.h"

namespace verbena::server {
namespace {

class RangeRegisterHook final : public HookFor<protocol::RangeRegisterRequest> {
  [[nodiscard]] Where where() const override { return Where::kLoop; }
  [[nodiscard]] store::Result<void> execute(const Request& request, Response& response, Call& call,
                                            store::Store& store) const override {
    const auto object = find(request.object, call, store);
    if (!object) return fail(object.error());
    if (const auto info = store.stat(*object); !info) return fail(info.error());
    const auto access = request.access == protocol::RangeAccess::kWrite ? store::Access::kWrite
                                                                        : store::Access::kRead;
    const auto range =
        store.ranges().add(call.session, *object, request.offset, request.length, access);
    if (!range) return fail(range.error());
    response.range = *range;
    return {};
  }
};

class RangeUnregisterHook final : public HookFor<protocol::RangeUnregisterRequest> {
  [[nodiscard]] Where where() const override { return Where::kLoop; }
  [[nodiscard]] store::Result<void> execute(const Request& request, Response& /*response*/,
                                            Call& call, store::Store& store) const override {
    return store.ranges().remove(call.session, request.range);
  }
};

}  // namespace

std::unique_ptr<Hook> make_range_register_hook() { return std::make_unique<RangeRegisterHook>(); }
std::unique_ptr<Hook> make_range_unregister_hook() {
  return std::make_unique<RangeUnregisterHook>();
}

}  // namespace verbena::server
