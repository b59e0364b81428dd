// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base/check.h"
#include "server/hook.h"

namespace verbena::server {
namespace {

template <typename R, typename... Rs>
consteval size_t index_in(std::type_identity<std::variant<Rs...>> /*all*/) {
  size_t index = 0;
  static_cast<void>(((std::is_same_v<R, Rs> ? true : (++index, false)) || ...));
  return index;
}
template <typename R>
constexpr size_t kIndexOf = index_in<R>(std::type_identity<protocol::Request>{});

}  // namespace

Hooks all_hooks() {
  using namespace protocol;
  Hooks hooks(std::variant_size_v<Request>);
  hooks[kIndexOf<Ping>] = make_ping_hook();
  hooks[kIndexOf<IoRequest>] = make_io_hook();
  hooks[kIndexOf<FlushRequest>] = make_flush_hook();
  hooks[kIndexOf<CreateRequest>] = make_create_hook();
  hooks[kIndexOf<CowRequest>] = make_cow_hook();
  hooks[kIndexOf<DeleteRequest>] = make_delete_hook();
  hooks[kIndexOf<RenameRequest>] = make_rename_hook();
  hooks[kIndexOf<TruncateRequest>] = make_truncate_hook();
  hooks[kIndexOf<ReplaceRequest>] = make_replace_hook();
  hooks[kIndexOf<StatRequest>] = make_stat_hook();
  hooks[kIndexOf<ListRequest>] = make_list_hook();
  hooks[kIndexOf<CrcRequest>] = make_crc_hook();
  hooks[kIndexOf<BehindRequest>] = make_behind_hook();
  hooks[kIndexOf<RangeRegisterRequest>] = make_range_register_hook();
  hooks[kIndexOf<RangeUnregisterRequest>] = make_range_unregister_hook();
  for (const auto& hook : hooks) VERBENA_CHECK(hook != nullptr);
  return hooks;
}

store::Result<ObjectId> find(const protocol::ObjectRef& object, const Call& call,
                             const store::Store& store) {
  using Kind = protocol::ObjectRef::Kind;
  switch (object.kind) {
    case Kind::kId:      return object.id;
    case Kind::kName:    return store.find(object.name);
    case Kind::kDefault: break;
  }
  if (call.default_object != ObjectId{}) return call.default_object;
  return fail(store::Error{store::Code::kInvalid, "the session has no default object (STAT)", {}});
}

store::Result<store::ObjectInfo> find_info(const protocol::ObjectRef& object, const Call& call,
                                           const store::Store& store) {
  const auto found = find(object, call, store);
  return found ? store.stat(*found) : fail(found.error());
}

}  // namespace verbena::server
