// SPDX-License-Identifier: Apache-2.0
// Calls on objects that carry no data.
#include "base/c_interface.h"
#include "c_client/arguments.h"
#include "client/listing.h"

using namespace verbena;
using namespace verbena::c_client;

VERBENA_EXPORT int verbena_create(verbena_client* client, const char* name, verbena_id* id) {
  return blocking(client, [&](Client& to) {
    std::string_view taken;
    ObjectId wanted;
    const int status = first_of(take_name(name, taken), take_id(id, wanted));
    if (status != VERBENA_OK) return status;
    const auto made = to.create(taken, wanted);
    if (made && id != nullptr) *id = id_of(*made);
    return ended(made);
  });
}

VERBENA_EXPORT int verbena_remove(verbena_client* client, verbena_object object) {
  return blocking(client, [&](Client& to) {
    ObjectRef taken;
    const int status = take_object(object, taken);
    return status == VERBENA_OK ? ended(to.remove(taken)) : status;
  });
}

VERBENA_EXPORT int verbena_rename(verbena_client* client, verbena_object object, const char* name) {
  return blocking(client, [&](Client& to) {
    ObjectRef taken;
    std::string_view new_name;
    const int status = first_of(take_object(object, taken), take_name(name, new_name));
    return status == VERBENA_OK ? ended(to.rename(taken, new_name)) : status;
  });
}

VERBENA_EXPORT int verbena_truncate(verbena_client* client, verbena_object object, uint64_t bytes) {
  return blocking(client, [&](Client& to) {
    ObjectRef taken;
    const int status = take_object(object, taken);
    return status == VERBENA_OK ? ended(to.truncate(taken, bytes)) : status;
  });
}

VERBENA_EXPORT int verbena_replace(verbena_client* client, verbena_object object,
                                   verbena_object by) {
  return blocking(client, [&](Client& to) {
    ObjectRef taken;
    ObjectRef source;
    const int status = first_of(take_object(object, taken), take_object(by, source));
    return status == VERBENA_OK ? ended(to.replace(taken, source)) : status;
  });
}

VERBENA_EXPORT int verbena_stat(verbena_client* client, verbena_object object, verbena_info* info) {
  return blocking(client, [&](Client& to) {
    ObjectRef taken;
    const int status = first_of(take_object(object, taken), check_room(info));
    if (status != VERBENA_OK) return status;
    const auto found = to.stat(taken);
    if (found) give(info, info_of(*found));
    return ended(found);
  });
}

VERBENA_EXPORT int verbena_clone(verbena_client* client, verbena_object source,
                                 verbena_object destination, const verbena_clone_options* options,
                                 verbena_id* id) {
  return blocking(client, [&](Client& to) {
    ObjectRef from;
    ObjectRef into;
    verbena_clone_options taken;
    std::string_view name;
    int status =
        first_of(take_object(source, from), take_object(destination, into), take(options, taken));
    if (status == VERBENA_OK) status = take_name(taken.name, name);
    if (status != VERBENA_OK) return status;
    const auto made = to.clone(from, into,
                               {.from_offset = taken.from_offset,
                                .length = taken.length,
                                .to_offset = taken.to_offset,
                                .allow_existing = taken.allow_exist != 0,
                                .to_name = name});
    if (made && id != nullptr) *id = id_of(*made);
    return ended(made);
  });
}

VERBENA_EXPORT int verbena_cow(verbena_client* client, verbena_object source,
                               verbena_object destination, int allow_exist, uint64_t offset,
                               uint64_t length) {
  verbena_clone_options options = verbena_clone_options_init();
  options.from_offset = offset;
  options.to_offset = offset;
  options.length = length;
  options.allow_exist = allow_exist;
  return verbena_clone(client, source, destination, &options, nullptr);
}

VERBENA_EXPORT int verbena_flush(verbena_client* client, verbena_object object, uint64_t offset,
                                 uint64_t length) {
  return blocking(client, [&](Client& to) {
    ObjectRef taken;
    const int status = take_object(object, taken);
    return status == VERBENA_OK ? ended(to.flush(taken, offset, length)) : status;
  });
}

VERBENA_EXPORT int verbena_flush_all(verbena_client* client) {
  return blocking(client, [](Client& to) { return ended(to.flush()); });
}

VERBENA_EXPORT int verbena_register_range(verbena_client* client, verbena_object object,
                                          uint64_t offset, uint64_t length, int access,
                                          uint64_t* range) {
  return blocking(client, [&](Client& to) {
    ObjectRef taken;
    if (const int status = take_object(object, taken); status != VERBENA_OK) return status;
    if (range == nullptr) return failed(VERBENA_INVALID, "there is no place for the range");
    if (access != VERBENA_ACCESS_READ && access != VERBENA_ACCESS_WRITE) {
      return failed(VERBENA_INVALID, "a range is registered to read or to write");
    }
    const auto made =
        to.register_range(taken, offset, length, static_cast<protocol::RangeAccess>(access));
    if (made) *range = *made;
    return ended(made);
  });
}

VERBENA_EXPORT int verbena_unregister_range(verbena_client* client, uint64_t range) {
  return blocking(client, [&](Client& to) { return ended(to.unregister_range(range)); });
}

VERBENA_EXPORT int verbena_stored_crc(verbena_client* client, verbena_object object,
                                      uint64_t offset, uint64_t length, uint32_t* crc,
                                      uint64_t* bytes) {
  return blocking(client, [&](Client& to) {
    ObjectRef taken;
    if (const int status = take_object(object, taken); status != VERBENA_OK) return status;
    if (crc == nullptr) return failed(VERBENA_INVALID, "there is no place for the CRC");
    const auto found = client::range_crc(to, taken, offset, length);
    if (found) {
      *crc = found->crc;
      if (bytes != nullptr) *bytes = found->bytes;
    }
    return ended(found);
  });
}
