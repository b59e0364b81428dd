// SPDX-License-Identifier: Apache-2.0
#include "c_client/arguments.h"

#include <string_view>

#include <fmt/format.h>

#include "store/drafts.h"

namespace verbena::c_client {
namespace {

constexpr size_t kMostNameBytes = 1000;  // docs/protocol.md

thread_local bool in_callback = false;

}  // namespace

int check_size(size_t size) {
  if (size > sizeof(size_t) && size <= kMostStructBytes) return VERBENA_OK;
  return failed(
      VERBENA_INVALID,
      fmt::format("a structure says that it has {} bytes; verbena_*_init() fills it in", size));
}

int check_rest(const uint8_t* given, size_t known, size_t size) {
  if (size <= known || std::all_of(given + known, given + size, [](int b) { return b == 0; })) {
    return VERBENA_OK;
  }
  return failed(VERBENA_UNSUPPORTED,
                "a structure has members that this version of the library does not know");
}

verbena_info info_of(const client::ObjectInfo& info) {
  verbena_info made{};
  made.id = id_of(info.id);
  made.bytes = info.size;
  made.chunks = info.chunks;
  made.segments = info.segments;
  made.created_ns = info.created_ns;
  made.modified_ns = info.modified_ns;
  const size_t length = std::min(info.name.size(), sizeof made.name - 1);
  std::memcpy(made.name, info.name.data(), length);
  return made;
}

int take_name(const char* name, std::string_view& taken) {
  taken = name == nullptr ? "" : std::string_view(name, strnlen(name, kMostNameBytes + 1));
  if (taken.size() <= kMostNameBytes) return VERBENA_OK;
  return failed(VERBENA_INVALID, "an object name has more than 1000 bytes");
}

int take_id(const verbena_id* id, ObjectId& taken) {
  taken = id == nullptr ? ObjectId{} : id_of(*id);
  if (!store::is_draft(taken)) return VERBENA_OK;
  return failed(VERBENA_INVALID, "object ids with all bits of `high` set are reserved");
}

int take_object(const verbena_object& object, ObjectRef& taken) {
  if (object.name == nullptr) {
    taken = ObjectRef::by(id_of(object.id));
    if (taken.id == ObjectId{}) {
      return failed(VERBENA_INVALID, "no object is named: its name is NULL, its id 0:0");
    }
    return take_id(&object.id, taken.id);
  }
  std::string_view name;
  if (const int status = take_name(object.name, name); status != VERBENA_OK) return status;
  if (name.empty()) return failed(VERBENA_INVALID, "the name of the object is empty");
  taken = ObjectRef::by(name);
  return VERBENA_OK;
}

int check_memory(const void* buffer, size_t bytes) {
  // No memory is that long: -1, for one.
  if (bytes > PTRDIFF_MAX) {
    return failed(VERBENA_INVALID, fmt::format("a buffer cannot have {} bytes", bytes));
  }
  if (buffer != nullptr || bytes == 0) return VERBENA_OK;
  return failed(VERBENA_INVALID, "the buffer is NULL");
}

int check_flags(uint32_t flags, uint32_t known) {
  if ((flags & ~known) == 0) return VERBENA_OK;
  return failed(VERBENA_INVALID,
                fmt::format("flags {:#x} are not for this operation", flags & ~known));
}

int check_may_wait() {
  if (!in_callback) return VERBENA_OK;
  return failed(VERBENA_INVALID, "a callback must not make a call that waits");
}

int check_client(const verbena_client* client) {
  if (client == nullptr) return failed(VERBENA_INVALID, "the client is NULL");
  if (client->forks == forks()) return VERBENA_OK;
  return failed(VERBENA_INVALID, "a child of fork() cannot use its parent's client");
}

int check_blocking(const verbena_client* client) {
  const int status = check_client(client);
  return status == VERBENA_OK ? check_may_wait() : status;
}

InCallback::InCallback() : before_(in_callback) { in_callback = true; }
InCallback::~InCallback() { in_callback = before_; }

}  // namespace verbena::c_client
