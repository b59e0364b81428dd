// SPDX-License-Identifier: Apache-2.0
#include "client/remote_objects.h"

#include <algorithm>

#include "client/parts.h"
#include "store/crc_parts.h"

namespace verbena::client {
namespace {

store::Code code_of(const Error& error) {
  using protocol::Status;
  switch (error.code) {
    case Code::kAnswered:    break;
    case Code::kUnreachable:
    case Code::kUnknown:
    case Code::kRefused:
    case Code::kNoFabric:
    case Code::kCancelled:   return store::Code::kUnreachable;
    case Code::kCorrupted:   return store::Code::kDamaged;
    case Code::kInvalid:     return store::Code::kInvalid;
    case Code::kLocal:       return store::Code::kIo;
  }
  switch (error.status) {
    case Status::kNotFound:    return store::Code::kNotFound;
    case Status::kExists:      return store::Code::kExists;
    case Status::kFull:        return store::Code::kFull;
    case Status::kNoMemory:    return store::Code::kNoMemory;
    case Status::kDamaged:
    case Status::kCorrupted:   return store::Code::kDamaged;
    case Status::kConflict:    return store::Code::kConflict;
    case Status::kReadOnly:    return store::Code::kReadOnly;
    case Status::kUnsupported: return store::Code::kUnsupported;
    case Status::kBusy:
    case Status::kTransfer:    return store::Code::kUnreachable;
    case Status::kIo:
    case Status::kInternal:    return store::Code::kIo;
    default:                   return store::Code::kInvalid;
  }
}

std::unexpected<store::Error> failed(const Error& error) { return fail(store_error(error)); }
store::Result<void> done(const Result<void>& result) {
  if (!result) return failed(result.error());
  return {};
}

store::ObjectInfo info_of(ObjectInfo info) {
  store::ObjectInfo object;
  object.id = info.id;
  object.name = std::move(info.name);
  object.size = info.size;
  object.chunks = info.chunks;
  object.segments = info.segments;
  object.content = info.content;
  object.created_ns = info.created_ns;
  object.modified_ns = info.modified_ns;
  return object;
}

}  // namespace

store::Error store_error(const Error& error) { return {code_of(error), error.what, {}}; }

store::Result<void> RemoteObjects::create_object(ObjectId id, std::string_view name) {
  const auto created = client_->create(name, id);
  if (!created) return failed(created.error());
  return {};
}
store::Result<ObjectId> RemoteObjects::find(std::string_view name) const {
  const auto info = client_->stat(ObjectRef::by(name));
  if (!info) return failed(info.error());
  return info->id;
}
store::Result<void> RemoteObjects::remove(ObjectId id) {
  return done(client_->remove(ObjectRef::by(id)));
}
store::Result<void> RemoteObjects::rename(ObjectId id, std::string_view name) {
  return done(client_->rename(ObjectRef::by(id), name));
}
store::Result<void> RemoteObjects::replace(ObjectId id, ObjectId by) {
  return done(client_->replace(ObjectRef::by(id), ObjectRef::by(by)));
}
store::Result<void> RemoteObjects::truncate(ObjectId id, uint64_t size) {
  return done(client_->truncate(ObjectRef::by(id), size));
}
store::Result<store::ObjectInfo> RemoteObjects::stat(ObjectId id) const {
  auto info = client_->stat(ObjectRef::by(id));
  if (!info) return failed(info.error());
  return info_of(std::move(*info));
}

store::Result<std::vector<store::ObjectInfo>> RemoteObjects::list(
    const std::optional<store::Cursor>& after, size_t limit,
    std::vector<store::ListLoss>* /*lost*/) const {
  std::vector<store::ObjectInfo> objects;
  ObjectInfo last;
  if (after) {
    last.id = after->id;
    last.name = after->name;
  }
  for (bool more = true; more && objects.size() < limit;) {
    const auto wanted = static_cast<uint16_t>(std::min<size_t>(limit - objects.size(), 512));
    auto page = client_->list(after || !objects.empty() ? &last : nullptr, wanted);
    if (!page) return failed(page.error());
    more = page->more && !page->objects.empty();
    for (ObjectInfo& object : page->objects) {
      last = object;
      objects.push_back(info_of(std::move(object)));
    }
  }
  return objects;
}

store::Result<void> RemoteObjects::write(ObjectId id, uint64_t offset,
                                         std::span<const uint8_t> bytes) {
  const auto written = write_parts(*client_, ObjectRef::by(id), offset, bytes, {}, kPartBytes);
  if (!written) return failed(written.error());
  return {};
}

store::Result<size_t> RemoteObjects::read(ObjectId id, uint64_t offset, std::span<uint8_t> bytes,
                                          uint32_t* crc) const {
  const auto read = read_parts(*client_, ObjectRef::by(id), offset, bytes, {}, kPartBytes);
  if (!read) return failed(read.error());
  if (crc != nullptr) *crc = read->crc;
  return read->bytes;
}

store::Result<uint32_t> RemoteObjects::stored_crc(ObjectId id, uint64_t offset,
                                                  uint64_t length) const {
  uint32_t crc = store::crc_of_zeros(0);
  for (uint64_t done = 0; done < length;) {
    const auto part = client_->stored_crc(ObjectRef::by(id), offset + done, length - done);
    if (!part) return failed(part.error());
    if (part->bytes == 0 || part->bytes > length - done) {
      return fail(
          store::Error{store::Code::kInvalid, "the range is past the end of the object", {}});
    }
    crc = store::crc_join(crc, part->crc, part->bytes);
    done += part->bytes;
  }
  return crc;
}

store::Result<void> RemoteObjects::clone(const store::CloneRequest& request) {
  const auto cloned = client_->clone(ObjectRef::by(request.from), ObjectRef::by(request.to),
                                     {.from_offset = request.from_offset,
                                      .length = request.length,
                                      .to_offset = request.to_offset,
                                      .allow_existing = request.allow_existing,
                                      .to_name = request.to_name});
  if (!cloned) return failed(cloned.error());
  return {};
}
store::Result<store::BehindReport> RemoteObjects::go_behind(const std::optional<ObjectId>& id,
                                                            store::BehindAction action) {
  const auto done = client_->go_behind(id ? ObjectRef::by(*id) : ObjectRef{},
                                       static_cast<protocol::BehindAction>(action));
  if (!done) return failed(done.error());
  return store::BehindReport{done->only_here, done->in_both, done->behind, done->evicted,
                             done->flushed};
}
store::Result<void> RemoteObjects::flush() { return done(client_->flush()); }

store::Result<store::RangeId> RemoteObjects::register_range(ObjectId id, uint64_t offset,
                                                            uint64_t length, store::Access access) {
  const auto wanted = access == store::Access::kWrite ? protocol::RangeAccess::kWrite
                                                      : protocol::RangeAccess::kRead;
  const auto range = client_->register_range(ObjectRef::by(id), offset, length, wanted);
  if (!range) return failed(range.error());
  return *range;
}
store::Result<void> RemoteObjects::unregister_range(store::RangeId range) {
  return done(client_->unregister_range(range));
}

}  // namespace verbena::client
