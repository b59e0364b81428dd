// SPDX-License-Identifier: Apache-2.0
// verbena_submit(): each operation begins what its blocking call waits for.
#include <utility>

#include <fmt/format.h>

#include "base/c_interface.h"
#include "c_client/io.h"
#include "c_client/queue.h"
#include "client/listing.h"
#include "client/parts.h"

namespace verbena::c_client {
namespace {

using PendingPtr = std::shared_ptr<Pending>;

// What a result of each type adds to the completion.
void add(Finished& to, ObjectId object) { to.object = object; }
void add(Finished& to, uint64_t range) { to.range = range; }
void add(Finished& to, const client::StoredCrc& crc) {
  to.bytes = crc.bytes;
  to.crc = crc.crc;
}
void add(Finished& to, const client::Transferred& transferred) {
  to.bytes = transferred.bytes;
  to.object = transferred.object;
  to.crc = transferred.crc;
}
void add(Finished& to, client::Page page) {
  to.list = std::make_unique<verbena_list>(std::move(page));
}
void add(Finished& to, client::ObjectInfo info) {
  client::Page page;
  page.objects.push_back(std::move(info));
  add(to, std::move(page));
}

template <typename T>
client::Then<T> then(const PendingPtr& pending) {
  return [pending](client::Result<T>&& result) {
    if (!result) return pending->finish(result.error());
    if constexpr (!std::is_void_v<T>) add(pending->finished(), std::move(*result));
    pending->finish();
  };
}

// The objects and names of a request, checked.
struct Taken {
  ObjectRef object{};
  ObjectRef other{};
  std::string_view name{};
};

int begin_listing(Client& client, const verbena_request& request, const Taken& taken,
                  const PendingPtr& pending) {
  client::list_objects(client, {.prefix = std::string(taken.name), .limit = request.length},
                       then<client::Page>(pending));
  return VERBENA_OK;
}

int begin_range(Client& client, const verbena_request& request, const Taken& taken,
                const PendingPtr& pending) {
  if (request.access > VERBENA_ACCESS_WRITE) {
    return failed(VERBENA_INVALID, "a range is registered to read or to write");
  }
  client.register_range_async(taken.object, request.offset, request.length,
                              static_cast<protocol::RangeAccess>(request.access),
                              then<uint64_t>(pending));
  return VERBENA_OK;
}

int begin_get(Client& client, const Taken& taken, const PendingPtr& pending) {
  auto whole = std::make_shared<client::Whole>();
  client::get_whole(client, taken.object, whole,
                    [pending, whole](const client::Result<client::Transferred>& result) {
                      if (result) pending->finished().data = std::move(whole->memory);
                      then<client::Transferred>(pending)(result);
                    });
  return VERBENA_OK;
}

// Reads, writes and puts.
int begin_data(Client& client, const verbena_request& request, const Taken& taken,
               const PendingPtr& pending) {
  const bool reads = request.operation == VERBENA_OP_READ;
  const bool puts = request.operation == VERBENA_OP_PUT;
  const uint32_t known = reads ? kReadFlags : puts ? kPutFlags : kWriteFlags;
  const int status =
      first_of(check_memory(request.buffer, request.bytes), check_flags(request.flags, known));
  if (status != VERBENA_OK) return status;
  const auto memory = memory_of(request.buffer, request.bytes);
  if (reads) {
    client::read_parts(client, taken.object, request.offset, memory, read_options(request.flags),
                       UINT64_MAX, then<client::Transferred>(pending));
  } else if (puts) {
    client::put_whole(client, taken.object, memory, put_options(request.flags, request.crc),
                      then<client::Transferred>(pending));
  } else {
    client::write_parts(client, taken.object, request.offset, memory,
                        write_options(request.flags, request.crc), UINT64_MAX,
                        then<client::Transferred>(pending));
  }
  return VERBENA_OK;
}

int begin_ping(Client& client, const verbena_request& request, const PendingPtr& pending) {
  if (request.bytes > client.limits().inline_bytes) {
    return failed(VERBENA_TOO_LARGE, fmt::format("a message has at most {} bytes of data",
                                                 client.limits().inline_bytes));
  }
  const int status = check_memory(request.buffer, request.bytes);
  if (status != VERBENA_OK) return status;
  client.ping_async(memory_of(request.buffer, request.bytes), then<void>(pending));
  return VERBENA_OK;
}

int begin_clone(Client& client, const verbena_request& request, const Taken& taken,
                const PendingPtr& pending) {
  client.clone_async(taken.object, taken.other,
                     {.from_offset = request.offset,
                      .length = request.length,
                      .to_offset = request.other_offset,
                      .allow_existing = request.allow_exist != 0,
                      .to_name = taken.name},
                     then<ObjectId>(pending));
  return VERBENA_OK;
}

// Requests that always begin.
void begin_plain(Client& client, const verbena_request& request, const Taken& taken,
                 const PendingPtr& pending) {
  switch (request.operation) {
    case VERBENA_OP_CREATE:
      return client.create_async(taken.name, taken.object.id, then<ObjectId>(pending));
    case VERBENA_OP_REMOVE: return client.remove_async(taken.object, then<void>(pending));
    case VERBENA_OP_RENAME:
      return client.rename_async(taken.object, taken.name, then<void>(pending));
    case VERBENA_OP_TRUNCATE:
      return client.truncate_async(taken.object, request.length, then<void>(pending));
    case VERBENA_OP_REPLACE:
      return client.replace_async(taken.object, taken.other, then<void>(pending));
    case VERBENA_OP_STAT: return client.stat_async(taken.object, then<client::ObjectInfo>(pending));
    case VERBENA_OP_FLUSH:
      return client.flush_async(taken.object, request.offset, request.length, then<void>(pending));
    case VERBENA_OP_UNREGISTER_RANGE:
      return client.unregister_range_async(request.range, then<void>(pending));
    default:
      return client::range_crc(client, taken.object, request.offset, request.length,
                               then<client::StoredCrc>(pending));
  }
}

int begin(Client& client, const verbena_request& request, const Taken& taken,
          const PendingPtr& pending) {
  switch (request.operation) {
    case VERBENA_OP_PING:           return begin_ping(client, request, pending);
    case VERBENA_OP_LIST:           return begin_listing(client, request, taken, pending);
    case VERBENA_OP_CLONE:          return begin_clone(client, request, taken, pending);
    case VERBENA_OP_REGISTER_RANGE: return begin_range(client, request, taken, pending);
    case VERBENA_OP_READ:
    case VERBENA_OP_WRITE:
    case VERBENA_OP_PUT:            return begin_data(client, request, taken, pending);
    case VERBENA_OP_GET:            return begin_get(client, taken, pending);
    default:                        begin_plain(client, request, taken, pending); return VERBENA_OK;
  }
}

// Of those that the operation has.
int take_objects(const verbena_request& request, Taken& taken) {
  if (const int status = take_name(request.name, taken.name); status != VERBENA_OK) return status;
  switch (request.operation) {
    case VERBENA_OP_PING:
    case VERBENA_OP_LIST:
    case VERBENA_OP_UNREGISTER_RANGE: return VERBENA_OK;
    case VERBENA_OP_CREATE:           return take_id(&request.object.id, taken.object.id);
    case VERBENA_OP_FLUSH:
      if (request.object.name == nullptr && id_of(request.object.id) == ObjectId{}) {
        return VERBENA_OK;
      }
      break;
    case VERBENA_OP_REPLACE:
    case VERBENA_OP_CLONE:
      if (const int status = take_object(request.other, taken.other); status != VERBENA_OK) {
        return status;
      }
      break;
    default: break;
  }
  return take_object(request.object, taken.object);
}

int submit(Client& client, const verbena_request& request) {
  if (request.operation < VERBENA_OP_PING || request.operation > VERBENA_OP_STORED_CRC) {
    return failed(VERBENA_INVALID, fmt::format("{} is not an operation", request.operation));
  }
  if ((request.callback == nullptr) == (request.queue == nullptr)) {
    return failed(VERBENA_INVALID, "a request has either a callback or a queue");
  }
  Taken taken;
  if (const int status = take_objects(request, taken); status != VERBENA_OK) return status;
  std::shared_ptr<Queue> queue;
  if (request.queue != nullptr) {
    queue = request.queue->queue;
    if (!queue->reserve()) return failed(VERBENA_TOO_LARGE, "the queue is full");
  }
  return begin(client, request, taken, std::make_shared<Pending>(request, std::move(queue)));
}

}  // namespace
}  // namespace verbena::c_client

using namespace verbena;
using namespace verbena::c_client;

VERBENA_EXPORT int verbena_submit(verbena_client* client, const verbena_request* request) {
  return guarded([&] {
    if (const int status = check_client(client); status != VERBENA_OK) return status;
    if (request == nullptr) return failed(VERBENA_INVALID, "the request is NULL");
    if (client->closing) return failed(VERBENA_CANCELLED, "the client is being closed");
    verbena_request taken;
    const int status = take(request, taken);
    return status == VERBENA_OK ? submit(*client->client, taken) : status;
  });
}
