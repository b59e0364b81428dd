// SPDX-License-Identifier: Apache-2.0
// Requests that change objects as a whole.
#include <fmt/format.h>
#include <sys/random.h>

#include "server/hook.h"

namespace verbena::server {
namespace {

// They change a name, or make an object: no more than a write does.
template <typename R>
class NameHook : public HookFor<R> {
  [[nodiscard]] Where where() const final { return Where::kEither; }
};
// They may take long, as there may be many chunks.
template <typename R>
class ObjectHook : public HookFor<R> {
  [[nodiscard]] Where where() const final { return Where::kWorker; }
};

store::Error invalid(std::string what) { return {store::Code::kInvalid, std::move(what), {}}; }

// An id for an object that was given a name alone. Of 2^128: nobody has it.
store::Result<ObjectId> draw_id() {
  ObjectId id;
  if (getrandom(&id, sizeof id, 0) == sizeof id) return id;
  return fail(store::Error{store::Code::kIo, "the kernel gives no random numbers", {}});
}

class CreateHook final : public NameHook<protocol::CreateRequest> {
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
  [[nodiscard]] bool goes_behind() const override { return true; }
  [[nodiscard]] store::Result<void> check(const Request& request, const Call& call,
                                          store::Store& store) const override {
    const auto from = find_info(request.from, call, store);
    if (!from) return fail(from.error());
    if (request.from_offset > from->size || request.length > from->size - request.from_offset) {
      return fail(
          invalid(fmt::format("invalid range: {} bytes at offset {} of an object of {} bytes",
                              request.length, request.from_offset, from->size)));
    }
    const uint64_t length = request.length == 0 ? from->size - request.from_offset : request.length;
    if (length > UINT64_MAX - request.to_offset) {
      return fail(invalid("the range of the destination ends beyond 2^64 bytes"));
    }
    const auto to = find_info(request.to, call, store);
    if (to && !request.allow_existing) return fail(taken());
    // A default object that is not set, or one that cannot be read.
    if (!to && to.error().code != store::Code::kNotFound) return fail(to.error());
    return {};
  }
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
      return fail(taken());
    }
    if (!to) return fail(to.error());
    response.object = *to;
    const store::CloneRequest clone{.from = *from,
                                    .to = *to,
                                    .from_offset = request.from_offset,
                                    .length = request.length,
                                    .to_offset = request.to_offset,
                                    .allow_existing = request.allow_existing,
                                    .to_name = name};
    return call.cache != nullptr ? call.cache->clone(clone, call.session)
                                 : store.clone(clone, call.session);
  }
  static store::Error taken() {
    return {store::Code::kExists, "the object that is to be made is there already", {}};
  }
};

class DeleteHook final : public ObjectHook<protocol::DeleteRequest> {
  [[nodiscard]] bool goes_behind() const override { return true; }
  [[nodiscard]] store::Result<void> check(const Request& request, const Call& call,
                                          store::Store& store) const override {
    const auto info = find_info(request.object, call, store);
    return info ? store::Result<void>{} : fail(info.error());
  }
  [[nodiscard]] store::Result<void> execute(const Request& request, Response& /*response*/,
                                            Call& call, store::Store& store) const override {
    const auto object = find(request.object, call, store);
    if (!object) return fail(object.error());
    return call.cache != nullptr ? call.cache->remove(*object) : store.remove(*object);
  }
};

class RenameHook final : public NameHook<protocol::RenameRequest> {
  [[nodiscard]] bool goes_behind() const override { return true; }
  [[nodiscard]] store::Result<void> execute(const Request& request, Response& /*response*/,
                                            Call& call, store::Store& store) const override {
    const auto object = find(request.object, call, store);
    if (!object) return fail(object.error());
    return call.cache != nullptr ? call.cache->rename(*object, request.name)
                                 : store.rename(*object, request.name);
  }
};

class TruncateHook final : public ObjectHook<protocol::TruncateRequest> {
  [[nodiscard]] store::Result<void> check(const Request& request, const Call& call,
                                          store::Store& store) const override {
    const auto info = find_info(request.object, call, store);
    return info ? store::Result<void>{} : fail(info.error());
  }
  [[nodiscard]] store::Result<void> execute(const Request& request, Response& /*response*/,
                                            Call& call, store::Store& store) const override {
    const auto object = find(request.object, call, store);
    return object ? store.truncate(*object, request.size, call.session) : fail(object.error());
  }
};

class ReplaceHook final : public ObjectHook<protocol::ReplaceRequest> {
  [[nodiscard]] bool goes_behind() const override { return true; }
  [[nodiscard]] store::Result<void> check(const Request& request, const Call& call,
                                          store::Store& store) const override {
    const auto info = find_info(request.object, call, store);
    if (!info) return fail(info.error());
    const auto by = find_info(request.by, call, store);
    if (!by) return fail(by.error());
    if (info->id == by->id) return fail(invalid("an object cannot replace itself"));
    return {};
  }
  [[nodiscard]] store::Result<void> execute(const Request& request, Response& /*response*/,
                                            Call& call, store::Store& store) const override {
    const auto object = find(request.object, call, store);
    if (!object) return fail(object.error());
    const auto by = find(request.by, call, store);
    if (!by) return fail(by.error());
    return call.cache != nullptr ? call.cache->replace(*object, *by, call.session)
                                 : store.replace(*object, *by, call.session);
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
