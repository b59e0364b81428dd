// SPDX-License-Identifier: Apache-2.0
// Requests that change objects as a whole.
#include <sys/random.h>

#include "server/hook.h"

namespace verbena::server {
namespace {

// They may wait for the medium, or take long.
template <typename R>
class ObjectHook : public HookFor<R> {
  [[nodiscard]] Where where() const final { return Where::kWorker; }
};

// An id for an object that was given a name alone. Of 2^128: nobody has it.
store::Result<ObjectId> draw_id() {
  ObjectId id;
  if (getrandom(&id, sizeof id, 0) == sizeof id) return id;
  return fail(store::Error{store::Code::kIo, "the kernel gives no random numbers", {}});
}

class CreateHook final : public ObjectHook<protocol::CreateRequest> {
  [[nodiscard]] store::Result<void> execute(const Request& request, Response& response,
                                            Call& /*call*/, store::Store& store) const override {
    response.object = request.object;
    if (request.object == ObjectId{}) {
      const auto drawn = draw_id();
      if (!drawn) return fail(drawn.error());
      response.object = *drawn;
    }
    return store.create_object(response.object, request.name);
  }
};

class CowHook final : public ObjectHook<protocol::CowRequest> {
  [[nodiscard]] store::Result<void> execute(const Request& request, Response& response, Call& call,
                                            store::Store& store) const override {
    const auto from = find(request.from, call, store);
    if (!from) return fail(from.error());
    std::string_view name = request.to_name;
    auto to = find(request.to, call, store);
    // One that is called by a name nobody has is made with it.
    if (!to && to.error().code == store::Code::kNotFound) {
      name = request.to.name;
      to = draw_id();
    } else if (to && request.to.kind == protocol::ObjectRef::Kind::kName &&
               !request.allow_existing) {
      return fail(store::Error{store::Code::kExists, "the name is in use", {}});
    }
    if (!to) return fail(to.error());
    response.object = *to;
    return store.clone({.from = *from,
                        .to = *to,
                        .from_offset = request.from_offset,
                        .length = request.length,
                        .to_offset = request.to_offset,
                        .allow_existing = request.allow_existing,
                        .to_name = name},
                       call.session);
  }
};

class DeleteHook final : public ObjectHook<protocol::DeleteRequest> {
  [[nodiscard]] store::Result<void> execute(const Request& request, Response& /*response*/,
                                            Call& call, store::Store& store) const override {
    const auto object = find(request.object, call, store);
    return object ? store.remove(*object) : fail(object.error());
  }
};

class RenameHook final : public ObjectHook<protocol::RenameRequest> {
  [[nodiscard]] store::Result<void> execute(const Request& request, Response& /*response*/,
                                            Call& call, store::Store& store) const override {
    const auto object = find(request.object, call, store);
    return object ? store.rename(*object, request.name) : fail(object.error());
  }
};

class TruncateHook final : public ObjectHook<protocol::TruncateRequest> {
  [[nodiscard]] store::Result<void> execute(const Request& request, Response& /*response*/,
                                            Call& call, store::Store& store) const override {
    const auto object = find(request.object, call, store);
    return object ? store.truncate(*object, request.size, call.session) : fail(object.error());
  }
};

class ReplaceHook final : public ObjectHook<protocol::ReplaceRequest> {
  [[nodiscard]] store::Result<void> execute(const Request& request, Response& /*response*/,
                                            Call& call, store::Store& store) const override {
    const auto object = find(request.object, call, store);
    if (!object) return fail(object.error());
    const auto by = find(request.by, call, store);
    return by ? store.replace(*object, *by, call.session) : fail(by.error());
  }
};

}  // namespace

std::unique_ptr<Hook> make_create_hook() { return std::make_unique<CreateHook>(); }
std::unique_ptr<Hook> make_cow_hook() { return std::make_unique<CowHook>(); }
std::unique_ptr<Hook> make_delete_hook() { return std::make_unique<DeleteHook>(); }
std::unique_ptr<Hook> make_rename_hook() { return std::make_unique<RenameHook>(); }
std::unique_ptr<Hook> make_truncate_hook() { return std::make_unique<TruncateHook>(); }
std::unique_ptr<Hook> make_replace_hook() { return std::make_unique<ReplaceHook>(); }

}  // namespace verbena::server
