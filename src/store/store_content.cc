// SPDX-License-Identifier: Apache-2.0
// Objects of few bytes have no chunk: their content is in memory, in the log and in tables, with
// its CRC.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "store/crc_parts.h"
#include "store/store_impl.h"

namespace verbena::store {
namespace {

std::span<const uint8_t> bytes_of(const std::string& content) {
  return {reinterpret_cast<const uint8_t*>(content.data()), content.size()};
}

}  // namespace

bool StoreImpl::may_have_content(const Object& object, uint64_t end) const {
  return persistent_ && options_.checksums && object.table.runs() == 0 &&
         std::max(object.size, end) <= kMaxContentBytes;
}

Result<void> StoreImpl::check_content(const Object& object) {
  const uint32_t crc = crc_of(bytes_of(object.content));
  if (object.content.empty() || crc == object.content_crc) return {};
  const Damage damage{object.id,
                      0,
                      0,
                      "content CRC",
                      fmt::format("{:#x}", object.content_crc),
                      fmt::format("{:#x}", crc)};
  return fail(Error{Code::kDamaged,
                    fmt::format("object {}:{} is damaged in memory: content CRC is {}, expected {}",
                                object.id.high, object.id.low, damage.actual, damage.expected),
                    damage});
}

// The record in the log is all there is of it on the medium.
Result<void> StoreImpl::set_content(Object& object, std::string content, uint32_t crc) {
  const uint64_t time = now();
  if (log_) {
    auto entry =
        log_->begin(kMaxContentBytes + 3 * kMaxSmallBytes, {growth_of(object, 0, content.size())});
    if (!entry) return fail(entry.error());
    (*entry)->content({object.number, crc, content});
    entry->commit(next_txn(), time);
  }
  object_bytes_.fetch_add(content.size() - object.content.size(), std::memory_order_relaxed);
  object.note_reshaped();
  object.size = content.size();
  object.modified_ns = time;
  object.content = std::move(content);
  object.content_crc = crc;
  mark_dirty(object);
  return {};
}

void StoreImpl::drop_content(Object& object) noexcept {
  object_bytes_.fetch_sub(object.content.size(), std::memory_order_relaxed);
  object.content.clear();
  object.content_crc = 0;
}

Result<bool> StoreImpl::write_content(Object& object, const Extents& range, ByteSource& source,
                                      ClientId client) {
  const WriteLock lock(object.lock);
  if (object.removed) return fail(no_such(object.id));
  const uint64_t end = range.offset + range.length;
  if (!may_have_content(object, end)) return false;
  if (const auto may = may_write(object.id, range.offset, range.length, client); !may) {
    return fail(may.error());
  }
  // What stays is proven right before it goes under a new CRC.
  if (const auto sound = check_content(object); !sound) return fail(sound.error());
  std::string content = object.content;
  content.resize(std::max(object.size, end));
  auto* const bytes = reinterpret_cast<uint8_t*>(content.data());
  const auto part = source.fetch(bytes + range.offset, 0, range.length);
  if (!part) return fail(part.error());
  if (const auto done = source.verify(object.id); !done) return fail(done.error());
  const uint32_t head = crc_of({bytes, range.offset});
  const uint32_t tail = crc_of({bytes + end, content.size() - end});
  const uint32_t crc = crc_join(crc_join(head, *part, range.length), tail, content.size() - end);
  if (const auto done = set_content(object, std::move(content), crc); !done) {
    return fail(done.error());
  }
  return true;
}

// Its content becomes a chunk, for something that works with chunks.
Result<void> StoreImpl::spill(Object& object) {
  if (object.content.empty()) return {};
  if (const auto sound = check_content(object); !sound) return sound;
  std::vector<Piece> pieces;
  Fresh fresh(space_, pieces);
  if (const auto got = space_.allocate(1, pieces, Space::Purpose::kShrink); !got) return got;
  const uint64_t id = pieces.front().chunk;
  if (const auto loaded = space_.load(id, 1); !loaded) return loaded;
  if (const auto room = room_for_runs(SegmentTable::growth(1)); !room) return room;
  const uint64_t txn = next_txn();
  const size_t size = object.content.size();
  uint8_t* const chunk = space_.memory(id);
  std::ranges::copy(bytes_of(object.content), chunk);
  std::memset(chunk + size, 0, kDataBytes - size);
  seal_data(chunk, id, {object.number, 0, txn}, static_cast<uint32_t>(size),
            crc_zeros_after(object.content_crc, kDataBytes - size));
  std::vector<Run> runs;
  append_runs(object, 0, pieces, txn, runs);
  SegmentTable::Change change;
  object.table.prepare(0, 1, runs, change);
  persist_pieces(pieces);
  if (log_) {
    auto entry = log_->begin(kRunBytes + 2 * kMaxSmallBytes, {growth_of(object, 1)});
    if (!entry) return fail(entry.error());
    (*entry)->map(object.number, object.size, runs);
    entry->commit(txn, object.modified_ns);
  }
  apply(object, change);
  drop_content(object);
  fresh.keep();
  note_dirty(pieces);
  mark_dirty(object);
  return {};
}

// If it has content. False: what remains to be done is for chunks.
Result<bool> StoreImpl::cut_content(Object& object, uint64_t size) {
  if (object.content.empty() || size == 0) return false;
  if (size > kMaxContentBytes) {
    if (const auto done = spill(object); !done) return fail(done.error());
    return false;
  }
  if (const auto sound = check_content(object); !sound) return fail(sound.error());
  std::string content = object.content;
  content.resize(size);
  const uint32_t crc = crc_of(bytes_of(content));
  if (const auto done = set_content(object, std::move(content), crc); !done) {
    return fail(done.error());
  }
  return true;
}

// Few bytes are copied: sharing a chunk would take more.
Result<bool> StoreImpl::clone_content(const CloneRequest& request, uint64_t length,
                                      const Object& from, const ObjectRef& to, bool made) {
  const uint64_t end = request.to_offset + length;
  if (from.content.empty() || length == 0 || !may_have_content(*to, end)) return false;
  if (const auto sound = check_content(from); !sound) return fail(sound.error());
  if (const auto sound = check_content(*to); !sound) return fail(sound.error());
  std::string content = to->content;
  content.resize(std::max(to->size, end));
  content.replace(request.to_offset, length, from.content, request.from_offset, length);
  const uint32_t crc = crc_of(bytes_of(content));
  if (!made) {
    const auto done = set_content(*to, std::move(content), crc);
    return done ? Result<bool>(true) : fail(done.error());
  }
  to->size = content.size();
  to->modified_ns = to->created_ns;
  to->content = std::move(content);
  to->content_crc = crc;
  const WriteLock catalog(catalog_.lock());
  const auto added =
      add_object(to, kMaxContentBytes + 3 * kMaxSmallBytes, 0, [&](Log::Entry& entry) {
        to->lock.assert_held();
        entry->content({to->number, crc, to->content});
        entry.commit(next_txn(), to->modified_ns);
      });
  return added ? Result<bool>(true) : fail(added.error());
}

Result<uint32_t> StoreImpl::copy_content(const Object& object, const Extents& range,
                                         uint8_t* to) const {
  if (const auto sound = check_content(object); !sound) return fail(sound.error());
  return crc_copy(to, bytes_of(object.content).subspan(range.offset, range.length));
}

}  // namespace verbena::store
