// SPDX-License-Identifier: Apache-2.0
// Requests that ask about objects.
#include <algorithm>

#include "server/hook.h"

namespace verbena::server {
namespace {

protocol::ObjectEntry entry_of(const store::ObjectInfo& info) {
  return {.object = info.id,
          .size = info.size,
          .chunks = info.chunks,
          .segments = info.segments,
          .content = info.content,
          .created_ns = info.created_ns,
          .modified_ns = info.modified_ns,
          .name = info.name};
}

class StatHook final : public HookFor<protocol::StatRequest> {
  [[nodiscard]] Where where() const override { return Where::kLoop; }
  [[nodiscard]] store::Result<void> execute(const Request& request, Response& response, Call& call,
                                            store::Store& store) const override {
    const auto object = find(request.object, call, store);
    if (!object) return fail(object.error());
    auto info = store.stat(*object);
    if (!info) return fail(info.error());
    call.objects.clear();
    call.objects.push_back(std::move(*info));
    response.entry = entry_of(call.objects.front());
    return {};
  }
};

class ListHook final : public HookFor<protocol::ListRequest> {
  [[nodiscard]] Where where() const override { return Where::kWorker; }
  [[nodiscard]] store::Result<void> execute(const Request& request, Response& response, Call& call,
                                            store::Store& store) const override {
    constexpr size_t kMost = 512;
    const size_t limit = request.limit == 0 ? kMost : std::min<size_t>(request.limit, kMost);
    std::optional<store::Cursor> after;
    if (request.resume) after = {std::string(request.after_name), request.after_id};
    auto listed = store.list(after, limit);
    if (!listed) return fail(listed.error());
    call.objects = std::move(*listed);
    // As many as fit into the message.
    size_t room = kRoom;
    for (const store::ObjectInfo& info : call.objects) {
      const auto entry = entry_of(info);
      if (entry.bytes() > room) break;
      room -= entry.bytes();
      response.entries.push_back(entry);
    }
    response.more = response.entries.size() < call.objects.size() || call.objects.size() == limit;
    return {};
  }
  // Below every inline limit that a session may have.
  static constexpr size_t kRoom = 16 * 1024;
};

}  // namespace

std::unique_ptr<Hook> make_stat_hook() { return std::make_unique<StatHook>(); }
std::unique_ptr<Hook> make_list_hook() { return std::make_unique<ListHook>(); }

}  // namespace verbena::server
