// SPDX-License-Identifier: Apache-2.0
// Blocking calls that carry data.
#include <cstdlib>

#include "base/block_sums.h"
#include "base/c_interface.h"
#include "c_client/io.h"
#include "client/parts.h"

namespace verbena::c_client {
namespace {

int tell(const client::Result<client::Transferred>& result, verbena_transfer* transfer) {
  if (!result) return failed(result.error());
  verbena_transfer made{};
  made.bytes = result->bytes;
  made.object = id_of(result->object);
  made.crc = result->crc;
  give(transfer, made);
  return VERBENA_OK;
}

}  // namespace
}  // namespace verbena::c_client

using namespace verbena;
using namespace verbena::c_client;

VERBENA_EXPORT int verbena_read(verbena_client* client, verbena_object object, uint64_t offset,
                                void* buffer, size_t bytes, const verbena_io_options* options,
                                verbena_transfer* transfer) {
  return blocking(client, [&](Client& to) {
    ObjectRef from;
    verbena_io_options taken;
    int status = first_of(take_object(object, from), take(options, taken), check_room(transfer),
                          check_memory(buffer, bytes));
    if (status == VERBENA_OK) status = check_flags(taken.flags, kReadFlags);
    if (status != VERBENA_OK) return status;
    return tell(client::read_parts(to, from, offset, memory_of(buffer, bytes),
                                   read_options(taken.flags), UINT64_MAX),
                transfer);
  });
}

VERBENA_EXPORT int verbena_write(verbena_client* client, verbena_object object, uint64_t offset,
                                 const void* buffer, size_t bytes,
                                 const verbena_io_options* options, verbena_transfer* transfer) {
  return blocking(client, [&](Client& to) {
    ObjectRef into;
    verbena_io_options taken;
    int status = first_of(take_object(object, into), take(options, taken), check_room(transfer),
                          check_memory(buffer, bytes));
    if (status == VERBENA_OK) status = check_flags(taken.flags, kWriteFlags);
    if (status != VERBENA_OK) return status;
    return tell(client::write_parts(to, into, offset, memory_of(buffer, bytes),
                                    write_options(taken.flags, taken.crc), UINT64_MAX),
                transfer);
  });
}

VERBENA_EXPORT int verbena_put(verbena_client* client, verbena_object object, const void* buffer,
                               size_t bytes, const verbena_io_options* options,
                               verbena_transfer* transfer) {
  return blocking(client, [&](Client& to) {
    ObjectRef into;
    verbena_io_options taken;
    int status = first_of(take_object(object, into), take(options, taken), check_room(transfer),
                          check_memory(buffer, bytes));
    if (status == VERBENA_OK) status = check_flags(taken.flags, kPutFlags);
    if (status != VERBENA_OK) return status;
    return tell(
        client::put_whole(to, into, memory_of(buffer, bytes), put_options(taken.flags, taken.crc)),
        transfer);
  });
}

VERBENA_EXPORT int verbena_get(verbena_client* client, verbena_object object, void** data,
                               size_t* bytes, verbena_transfer* transfer) {
  return blocking(client, [&](Client& to) {
    ObjectRef from;
    const int status = first_of(take_object(object, from), check_room(transfer));
    if (status != VERBENA_OK) return status;
    if (data == nullptr || bytes == nullptr) {
      return failed(VERBENA_INVALID, "there is no place for the data or its size");
    }
    auto whole = client::get_whole(to, from);
    if (!whole) return failed(whole.error());
    *data = whole->memory.release();
    *bytes = whole->transferred.bytes;
    return tell(whole->transferred, transfer);
  });
}

VERBENA_EXPORT void verbena_free(void* data) { std::free(data); }

VERBENA_EXPORT uint32_t verbena_crc32(const void* data, size_t bytes) {
  if (data == nullptr) bytes = 0;
  return crc32_finish(crc32_msb_update(kCrc32Start, memory_of(data, bytes)));
}

VERBENA_EXPORT uint32_t verbena_crc32_join(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b) {
  return crc32_msb_combine(crc_a, crc_b, bytes_b);
}
