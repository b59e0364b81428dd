// SPDX-License-Identifier: Apache-2.0
// What a program passes to the calls: checked here, so that a mistake is VERBENA_INVALID with a
// sentence.
//
// A structure begins with its size in the program. One of an older header is shorter, and what it
// lacks is 0; of a newer one, what is not known here must be 0, or the call would do something else
// than what was asked for.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "c_client/forks.h"
#include "c_client/status.h"

// NOLINTBEGIN(readability-identifier-naming): names as C has them.
struct verbena_client {
  std::unique_ptr<verbena::client::Client> client;
  std::string provider;
  // Set by verbena_disconnect(), read by callbacks that it calls, on whatever thread (seq_cst):
  // they make no more requests.
  std::atomic<bool> closing{false};
  const uint32_t forks = verbena::c_client::forks();  // when it was made
};
struct verbena_list {
  verbena::client::Page page;
};
// NOLINTEND(readability-identifier-naming)

namespace verbena::c_client {

using client::Client;
using client::ObjectRef;

// A size above is that of memory which nobody has filled in.
inline constexpr size_t kMostStructBytes = size_t{64} << 10;

// VERBENA_OK, or why a structure of this size cannot be used.
int check_size(size_t size);
int check_rest(const uint8_t* given, size_t known, size_t size);

// What the program gave, if it did.
template <typename T>
[[nodiscard]] int take(const T* given, T& taken) {
  taken = T{};
  if (given == nullptr) return VERBENA_OK;
  if (const int status = check_size(given->size); status != VERBENA_OK) return status;
  std::memcpy(&taken, given, std::min(given->size, sizeof(T)));
  return check_rest(reinterpret_cast<const uint8_t*>(given), sizeof(T), given->size);
}
// Whether give() can be called later.
template <typename T>
[[nodiscard]] int check_room(const T* room) {
  return room == nullptr ? VERBENA_OK : check_size(room->size);
}
template <typename T>
void give(T* room, T value) {
  if (room == nullptr) return;
  value.size = room->size;
  std::memcpy(room, &value, std::min(room->size, sizeof(T)));
}

[[nodiscard]] inline ObjectId id_of(const verbena_id& id) { return {id.high, id.low}; }
[[nodiscard]] inline verbena_id id_of(const ObjectId& id) { return {id.high, id.low}; }
[[nodiscard]] verbena_info info_of(const client::ObjectInfo& info);

// The object that is meant.
[[nodiscard]] int take_object(const verbena_object& object, ObjectRef& taken);
// A name that an object is to have; NULL is an empty one.
[[nodiscard]] int take_name(const char* name, std::string_view& taken);
[[nodiscard]] int take_id(const verbena_id* id, ObjectId& taken);
[[nodiscard]] int check_memory(const void* buffer, size_t bytes);
[[nodiscard]] int check_flags(uint32_t flags, uint32_t known);

// Around each callback of the program: in there, nothing waits.
class InCallback {
 public:
  InCallback();
  InCallback(const InCallback&) = delete;
  InCallback& operator=(const InCallback&) = delete;
  ~InCallback();

 private:
  const bool before_;
};

[[nodiscard]] int check_may_wait();
// Not NULL, and not that of the process from which this one was forked.
[[nodiscard]] int check_client(const verbena_client* client);
// Makes a blocking call, if it may wait: call(Client&) returns the status.
[[nodiscard]] int check_blocking(const verbena_client* client);
template <typename Call>
[[nodiscard]] int blocking(verbena_client* client, Call call) noexcept {
  return guarded([&] {
    const int status = check_blocking(client);
    return status == VERBENA_OK ? call(*client->client) : status;
  });
}

// The first of several checks that failed.
template <typename... Statuses>
[[nodiscard]] int first_of(Statuses... statuses) {
  int first = VERBENA_OK;
  static_cast<void>(((first = statuses, first != VERBENA_OK) || ...));
  return first;
}

}  // namespace verbena::c_client
