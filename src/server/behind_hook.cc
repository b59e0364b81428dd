// SPDX-License-Identifier: Apache-2.0
#include "server/hook.h"

namespace verbena::server {
namespace {

using protocol::BehindAction;

class BehindHook final : public HookFor<protocol::BehindRequest> {
  [[nodiscard]] Where where() const override { return Where::kWorker; }
  [[nodiscard]] bool goes_behind() const override { return true; }
  [[nodiscard]] store::Result<void> check(const Request& request, const Call& call,
                                          store::Store& store) const override {
    if (call.cache == nullptr) {
      return fail(store::Error{store::Code::kUnsupported,
                               "nothing is behind this server: it was started without --backend",
                               {}});
    }
    if (is_all(request, call)) return {};
    const auto info = find_info(request.object, call, store);
    return info ? store::Result<void>{} : fail(info.error());
  }
  [[nodiscard]] store::Result<void> execute(const Request& request, Response& response, Call& call,
                                            store::Store& store) const override {
    if (const auto fine = check(request, call, store); !fine) return fine;
    cache::Cache& cache = *call.cache;
    if (is_all(request, call)) {
      if (request.action == BehindAction::kFlush) return cache.flush_all();
      if (request.action == BehindAction::kEvict) response.evicted = cache.evict_all();
      return {};
    }
    const auto object = find(request.object, call, store);
    if (!object) return fail(object.error());
    if (request.action == BehindAction::kFlush) {
      if (const auto done = cache.flush(*object); !done) return done;
    } else if (request.action == BehindAction::kEvict) {
      const auto evicted = cache.evict(*object);
      if (!evicted) return fail(evicted.error());
      response.evicted = *evicted;
    }
    const auto info = store.stat(*object);
    if (!info) return fail(info.error());
    response.only_here = info->only_here;
    response.in_both = info->chunks - info->only_here;
    response.behind = info->behind;
    response.flushed = info->flushed;
    return {};
  }
  static bool is_all(const Request& request, const Call& call) {
    return request.object.kind == protocol::ObjectRef::Kind::kDefault &&
           call.default_object == ObjectId{};
  }
};

}  // namespace

std::unique_ptr<Hook> make_behind_hook() { return std::make_unique<BehindHook>(); }

}  // namespace verbena::server
