// SPDX-License-Identifier: Apache-2.0
// Lists of objects. A list belongs to the program.
#include "base/c_interface.h"
#include "c_client/arguments.h"
#include "client/listing.h"

using namespace verbena;
using namespace verbena::c_client;

VERBENA_EXPORT int verbena_list_objects(verbena_client* client, const verbena_list_options* options,
                                        verbena_list** list) {
  return blocking(client, [&](Client& to) {
    if (list == nullptr) return failed(VERBENA_INVALID, "there is no place for the list");
    *list = nullptr;
    verbena_list_options taken;
    if (const int status = take(options, taken); status != VERBENA_OK) return status;
    std::string_view prefix;
    std::string_view after;
    const int status =
        first_of(take_name(taken.prefix, prefix), take_name(taken.after_name, after));
    if (status != VERBENA_OK) return status;
    client::ListOptions wanted{.prefix = std::string(prefix), .limit = taken.limit};
    if (taken.after_name != nullptr) {
      wanted.after = client::ObjectInfo{.id = id_of(taken.after_id), .name = std::string(after)};
    }
    auto page = client::list_objects(to, wanted);
    if (page) *list = new verbena_list{std::move(*page)};
    return ended(page);
  });
}

VERBENA_EXPORT size_t verbena_list_count(const verbena_list* list) {
  return list == nullptr ? 0 : list->page.objects.size();
}

VERBENA_EXPORT int verbena_list_entry(const verbena_list* list, size_t index, verbena_info* info) {
  return guarded([&] {
    if (index >= verbena_list_count(list)) {
      return failed(VERBENA_INVALID, "the list has no such entry");
    }
    const int status = check_room(info);
    if (status == VERBENA_OK) give(info, info_of(list->page.objects[index]));
    return status;
  });
}

VERBENA_EXPORT int verbena_list_more(const verbena_list* list) {
  return list != nullptr && list->page.more ? 1 : 0;
}

VERBENA_EXPORT void verbena_list_free(verbena_list* list) { delete list; }
