// SPDX-License-Identifier: Apache-2.0
// Objects as wholes: made, removed, renamed, replaced, truncated, listed.
#include <cstring>

#include <fmt/format.h>

#include "store/crc_parts.h"
#include "store/store_impl.h"

namespace verbena::store {
namespace {

Error name_taken(std::string_view name) {
  return {Code::kExists, fmt::format("another object has the name '{}'", name), {}};
}

}  // namespace

Error StoreImpl::bad_name() {
  return {Code::kInvalid,
          fmt::format("invalid object name: a name is UTF-8 without control characters, at most {} "
                      "bytes",
                      kMaxNameBytes),
          {}};
}

Error StoreImpl::no_such(ObjectId id) {
  return {Code::kNotFound, fmt::format("object {}:{} does not exist", id.high, id.low), {}};
}

Error StoreImpl::mismatch(ObjectId id, const Extents& range, uint32_t expected, uint32_t actual) {
  Damage found{id,
               range.offset,
               0,
               "message CRC",
               fmt::format("{:#x}", expected),
               fmt::format("{:#x}", actual)};
  return {Code::kDamaged,
          fmt::format("data for object {}:{} at offset {} does not match its CRC: CRC is {}, "
                      "expected {}; nothing was written",
                      id.high, id.low, range.offset, found.actual, found.expected),
          found};
}

Result<void> StoreImpl::check_range(uint64_t offset, uint64_t length) {
  if (offset <= kMaxSize && length <= kMaxSize - offset) return {};
  return fail(Error{Code::kInvalid,
                    fmt::format("{} bytes at offset {} exceed the maximum object size of {} bytes",
                                length, offset, kMaxSize),
                    {}});
}

Result<void> StoreImpl::may_write(ObjectId id, uint64_t offset, uint64_t length,
                                  ClientId client) const {
  return options_.enforce_ranges ? ranges_.check_write(client, id, offset, length) : Result<void>{};
}

Result<ObjectRef> StoreImpl::find(ObjectId id) const {
  ObjectRef object = catalog_.find(id);
  if (object) return object;
  return on_demand() ? fetch(id) : fail(no_such(id));
}

Result<void> StoreImpl::create_object(ObjectId id, std::string_view name) {
  if (!good_name(name)) return fail(bad_name());
  return attempt(0, [&]() -> Result<void> {
    const uint64_t time = now();
    const ObjectRef object(new Object(next_number_.fetch_add(1), id, time));
    object->name = name;
    const WriteLock lock(object->lock);
    const WriteLock catalog(catalog_.lock());
    return add_object(object, kMaxSmallBytes, 0,
                      [&](Log::Entry& entry) { entry.commit(next_txn(), time); });
  });
}

Result<void> StoreImpl::add_object(const ObjectRef& object, size_t bytes, uint64_t more_runs,
                                   const std::function<void(Log::Entry&)>& append) {
  if (catalog_.by_id(object->id) != nullptr) {
    return fail(Error{Code::kExists,
                      fmt::format("object {}:{} already exists", object->id.high, object->id.low),
                      {}});
  }
  if (catalog_.by_name(object->name) != nullptr) return fail(name_taken(object->name));
  if (catalog_.count() >= options_.max_objects) {
    return fail(
        Error{Code::kFull,
              fmt::format("the store has {} objects, which is the maximum; remove objects, or "
                          "open the store with a higher max_objects",
                          options_.max_objects),
              {}});
  }
  catalog_.insert(object);
  const uint64_t bytes_of_object = table_bytes(*object);
  if (log_) {
    try {
      auto entry = log_->begin(kMaxCreateBytes + bytes, {growth_of(*object, more_runs)});
      if (!entry) {
        catalog_.erase(*object);
        return fail(entry.error());
      }
      (*entry)->create({object->number, object->id, object->created_ns, object->name});
      append(*entry);
    } catch (...) {
      catalog_.erase(*object);
      throw;
    }
  }
  object_bytes_.fetch_add(bytes_of_object, std::memory_order_relaxed);
  mark_dirty(*object);
  return {};
}

// It would still be there under its name, and come back from there.
Result<void> StoreImpl::check_alone(const Object& object) const {
  if (options_.cache || object.behind == Behind{}) return {};
  return fail(Error{Code::kUnsupported,
                    "the object is also behind this store, which is a cache: it can be removed or "
                    "renamed only while that is there (verbena serve --backend)",
                    {}});
}

Result<void> StoreImpl::remove(ObjectId id) {
  return attempt_to_free([&]() -> Result<void> {
    const auto object = find(id);
    if (!object) return fail(object.error());
    const WriteLock lock((*object)->lock);
    if ((*object)->removed) return fail(no_such(id));
    if (const auto alone = check_alone(**object); !alone) return alone;
    const WriteLock catalog(catalog_.lock());
    if (log_) {
      auto entry =
          log_->begin(2 * kMaxSmallBytes, {growth_of_removed(**object)}, Log::Room::kPreferred);
      if (!entry) return fail(entry.error());
      (*entry)->remove({(*object)->number});
      entry->commit(next_txn(), now());
    }
    forget(**object);
    return {};
  });
}

// After its DELETE is in the log.
void StoreImpl::forget(Object& object) {
  object_bytes_.fetch_sub(table_bytes(object.name), std::memory_order_relaxed);
  drop_content(object);
  mappings_.fetch_sub(object.table.runs(), std::memory_order_relaxed);
  object.removed = true;
  mark_dirty(object);
  object.table.clear([&](const Run& run) { drop_run(run); });
  catalog_.erase(object);
  ranges_.drop(object.id);
}

Result<void> StoreImpl::rename(ObjectId id, std::string_view name) {
  if (!good_name(name)) return fail(bad_name());
  return attempt(0, [&]() -> Result<void> {
    std::string copy(name);
    std::string again(name);
    const auto object = find(id);
    if (!object) return fail(object.error());
    // Both locks: who has either may read the name.
    const WriteLock lock((*object)->lock);
    if ((*object)->removed) return fail(no_such(id));
    if (const auto alone = check_alone(**object); !alone) return alone;
    const WriteLock catalog(catalog_.lock());
    if ((*object)->name == name) return {};
    if (catalog_.by_name(name) != nullptr) return fail(name_taken(name));
    const bool moves = (*object)->behind != Behind{};
    PlaceBehind place = moves ? place_renamed(**object, name) : PlaceBehind{};
    if (log_) {
      const size_t more = moves ? kMaxFlushedBytes : 0;
      auto entry = log_->begin(kMaxCreateBytes + kMaxSmallBytes + more,
                               {growth_of(**object, 0, 2 * name.size() + more)});
      if (!entry) return fail(entry.error());
      (*entry)->rename({(*object)->number, name});
      if (moves) (*entry)->flushed({(*object)->number, place.behind, view_of(place.under)});
      entry->commit(next_txn(), now());
    }
    if (moves) {
      (*object)->behind = place.behind;
      (*object)->under = std::move(place.under);
      ++(*object)->adopted;
    }
    object_bytes_.fetch_add(2 * (name.size() - (*object)->name.size()), std::memory_order_relaxed);
    catalog_.rename(**object, std::move(copy), std::move(again));
    mark_dirty(**object);
    return {};
  });
}

Result<void> StoreImpl::replace(ObjectId id, ObjectId by, ClientId client) {
  if (id == by) return fail(Error{Code::kInvalid, "an object cannot replace itself", {}});
  return attempt_to_free([&]() -> Result<void> {
    const auto object = find(id);
    if (!object) return fail(object.error());
    const auto other = find(by);
    if (!other) return fail(other.error());
    Object& to = **object;
    Object& from = **other;
    const TwoObjectsLock locks(to, from);
    if (to.removed) return fail(no_such(id));
    if (from.removed) return fail(no_such(by));
    if (const auto alone = check_alone(from); !alone) return alone;
    const uint64_t length = std::max(to.size, from.size);
    if (const auto may = may_write(id, 0, length, client); !may) return may;
    const WriteLock catalog(catalog_.lock());
    const uint64_t time = now();
    const bool takes = from.behind.version != 0;  // what is behind, too
    PlaceBehind place = place_replaced(to, from);
    if (log_) {
      const size_t more = place.under ? kMaxFlushedBytes : 0;
      const Log::Growth grown{to.counted_in, table_bytes(to.name),
                              from.table.runs() * kRunInTable + from.content.size() + more};
      auto entry = log_->begin(kMaxContentBytes + 6 * kMaxSmallBytes + more,
                               {grown, growth_of_removed(from)}, Log::Room::kPreferred);
      if (!entry) return fail(entry.error());
      if (takes) {
        (*entry)->take({from.number, to.number});
      } else {
        (*entry)->truncate({to.number, 0});
        const uint64_t count = from.content.empty() ? (from.size + kDataBytes - 1) / kDataBytes : 0;
        if (!from.content.empty()) (*entry)->content({to.number, from.content_crc, from.content});
        if (count > 0) (*entry)->clone({from.number, 0, to.number, 0, count, from.size});
        (*entry)->remove({from.number});
      }
      if (takes || to.under) {
        (*entry)->flushed({to.number, place.behind, view_of(place.under)});
      }
      entry->commit(next_txn(), time);
    }
    to.table.swap(from.table);
    to.behind = place.behind;
    to.under = std::move(place.under);
    ++to.reshaped;
    ++to.adopted;
    to.content.swap(from.content);
    std::swap(to.content_crc, from.content_crc);
    to.size = from.size;
    to.modified_ns = time;
    mark_dirty(to);
    forget(from);  // with what `to` had
    return {};
  });
}

Result<void> StoreImpl::truncate(ObjectId id, uint64_t size, ClientId client) {
  if (const auto fine = check_range(size, 0); !fine) return fine;
  return attempt_to_free([&]() -> Result<void> {
    const auto found = find(id);
    if (!found) return fail(found.error());
    Object& object = **found;
    const WriteLock lock(object.lock);
    if (object.removed) return fail(no_such(id));
    const uint64_t low = std::min(size, object.size);
    if (const auto may = may_write(id, low, std::max(size, object.size) - low, client); !may) {
      return may;
    }
    return size == object.size ? Result<void>{} : cut(object, size);
  });
}

Result<void> StoreImpl::cut(Object& object, uint64_t size) {
  if (const auto done = cut_content(object, size); !done || *done) {
    return done ? Result<void>{} : fail(done.error());
  }
  Scratch& scratch = Scratch::mine();
  scratch.pieces.clear();
  scratch.runs.clear();
  Fresh fresh(space_, scratch.pieces);
  const uint64_t index = size / kDataBytes;
  const auto keep = static_cast<uint32_t>(size % kDataBytes);
  const uint64_t txn = next_txn();
  // A chunk that ends in the middle is written anew, for what follows must be zeros.
  const Run* const run = object.table.find(index);
  const bool rewrite = size < object.size && keep > 0 && run != nullptr && run->index <= index;
  if (rewrite) {
    if (const auto got = space_.allocate(1, scratch.pieces, Space::Purpose::kShrink); !got) {
      return got;
    }
    const uint64_t id = scratch.pieces.front().chunk;
    if (const auto loaded = space_.load(id, 1); !loaded) return loaded;
    uint8_t* const chunk = space_.memory(id);
    const auto crc =
        copy_out(object, *run, static_cast<uint32_t>(index - run->index), 0, keep, chunk, true);
    if (!crc) return fail(crc.error());
    std::memset(chunk + keep, 0, kDataBytes - keep);
    seal_data(chunk, id, {object.number, index, txn}, keep,
              crc_zeros_after(*crc, kDataBytes - keep));
    append_runs(object, index, scratch.pieces, txn, scratch.runs);
    persist_pieces(scratch.pieces);
  }
  const bool shrink = size < object.size;
  if (shrink) {
    object.table.prepare(rewrite || keep == 0 ? index : index + 1, kMaxIndex, scratch.runs,
                         scratch.change);
  }
  const uint64_t time = now();
  if (log_) {
    auto entry =
        log_->begin(4 * kMaxSmallBytes, {growth_of_cut(object, size)}, Log::Room::kPreferred);
    if (!entry) return fail(entry.error());
    (*entry)->truncate({object.number, size});
    (*entry)->map(object.number, size, scratch.runs);
    entry->commit(txn, time);
  }
  if (shrink) apply(object, scratch.change);
  drop_content(object);  // of which nothing is left
  fresh.keep();
  note_dirty(scratch.pieces);
  object.note_reshaped();
  object.size = size;
  object.modified_ns = time;
  mark_dirty(object);
  return {};
}

std::optional<ObjectInfo> StoreImpl::info_of(const Object& object) const {
  ObjectInfo info;
  info.name = catalog_.name_of(object);
  const ReadLock lock(object.lock);
  if (object.removed) return std::nullopt;
  info.id = object.id;
  info.number = object.number;
  info.size = object.size;
  info.chunks = object.table.chunks();
  info.segments = object.table.runs();
  info.content = object.content.size();
  info.behind = object.table.parts_behind();
  info.only_here = object.table.chunks() - object.table.chunks_in_both();
  info.flushed = object.is_flushed();
  info.created_ns = object.created_ns;
  info.modified_ns = object.modified_ns;
  return info;
}

Result<ObjectInfo> StoreImpl::stat(ObjectId id) const {
  const auto object = find(id);
  if (!object) return fail(object.error());
  const auto info = info_of(**object);
  if (!info) return fail(no_such(id));
  return *info;
}

Result<std::vector<ObjectInfo>> StoreImpl::list(const std::optional<Cursor>& after, size_t limit,
                                                std::vector<ListLoss>* lost) const {
  if (on_demand()) return list_on_demand(after, limit, lost);
  std::vector<ObjectInfo> infos;
  // Those that were removed meanwhile make room for the next: an empty page is the end.
  std::optional<Cursor> last = after;
  while (infos.size() < limit) {
    const size_t wanted = limit - infos.size();
    const auto page = catalog_.page(last, wanted, &last);
    for (const ObjectRef& object : page) {
      if (auto info = info_of(*object)) infos.push_back(std::move(*info));
    }
    if (page.size() < wanted) break;
  }
  return infos;
}

Result<std::vector<SegmentInfo>> StoreImpl::segments(ObjectId id, uint64_t offset,
                                                     size_t limit) const {
  const auto object = find(id);
  if (!object) return fail(object.error());
  const ReadLock lock((*object)->lock);
  std::vector<SegmentInfo> segments;
  const uint64_t object_size = (*object)->size;
  if (offset >= object_size) return segments;
  if (!(*object)->content.empty()) segments.push_back({0, object_size, 0, 0, {}, false});
  (*object)->table.for_each(offset / kDataBytes, kMaxIndex, [&](const Run& run) {
    if (segments.size() == limit) return false;
    const uint64_t begin = run.index * kDataBytes;
    const uint64_t size = std::min(uint64_t{run.count} * kDataBytes, object_size - begin);
    segments.push_back(
        {begin, size, run.chunk, run.count, run.birth, space_.any_shared(run.chunk, run.count)});
    return true;
  });
  return segments;
}

}  // namespace verbena::store
