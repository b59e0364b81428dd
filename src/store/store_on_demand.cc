// SPDX-License-Identifier: Apache-2.0
// A store that is only read, and of whose index only what is asked for: opening it costs the log,
// and an object what that object costs.
#include <algorithm>

#include <fmt/format.h>

#include "store/log_reader.h"
#include "store/store_impl.h"

namespace verbena::store {
namespace {

Error bad_runs(const ObjectRecord& record) {
  return damaged_log(
      fmt::format("the segments of object {}:{} make no sense", record.id.high, record.id.low),
      {record.id, 0, 0, "record", "segments in order, within the object", "others"});
}

}  // namespace

Result<ObjectRef> StoreImpl::load(const Tables::Found& found) const {
  const ObjectRecord& record = found.object;
  ObjectRef object(new Object(record.number, record.id, record.created_ns));
  const WriteLock lock(object->lock);
  object->name = record.name;
  object->size = record.size;
  object->modified_ns = record.modified_ns;
  object->stored = true;
  object->content = record.content;
  object->content_crc = record.crc;
  object->behind = record.behind;
  object->under = under_of(record.under);
  if (const auto sound = check_content(*object); !sound) return fail(sound.error());
  std::vector<Run> runs;
  bool good = true;
  uint64_t chunks = 0;
  uint64_t end = 0;
  const uint32_t per_block = space_.chunks_per_block();
  const Table& table = tables_.all()[found.source];
  const auto done = table.runs(record.number, record.runs, [&](const MapRecord& map) {
    for (const Run& run : map.runs) {
      good = good && run.index >= end && runs.size() < record.runs &&
             (run.held == Held::kHere || record.behind.version != 0) &&
             (!run.has_chunks() || (run.chunk % per_block + run.count <= per_block &&
                                    run.chunk / per_block < Space::kMaxBlocks));
      if (!good) return;
      end = run.index + run.count;
      if (run.has_chunks()) chunks += run.count;
      runs.push_back(run);
    }
  });
  if (!done) return fail(done.error());
  if (!good || runs.size() != record.runs || chunks != record.chunks ||
      end > (record.size + kDataBytes - 1) / kDataBytes) {
    return fail(bad_runs(record));
  }
  if (!runs.empty()) {
    SegmentTable::Change change;
    object->table.prepare(0, kMaxIndex, runs, change);
    object->table.apply(change, [](const Run&) {});
  }
  return object;
}

Result<void> StoreImpl::hold_chunks(const Object& object) const {
  Result<void> held;
  object.table.for_each(0, kMaxIndex, [&](const Run& run) {
    const auto position = static_cast<uint32_t>(run.chunk / space_.chunks_per_block());
    if (!backend_->has(position)) space_.lack();
    held = space_.claim_data(position);
    if (held && !space_.holds(run.chunk, run.count)) {
      held =
          fail(damaged_log(fmt::format("object {}:{} refers to chunks that belong to the log",
                                       object.id.high, object.id.low),
                           {object.id, run.index * kDataBytes, run.chunk, "chunk", "data", "log"}));
    }
    if (held && !space_.lacks(run.chunk)) space_.count(run.chunk, run.count);
    return held.has_value();
  });
  return held;
}

Result<ObjectRef> StoreImpl::fetch(ObjectId id) const {
  if (const auto lost = damaged_ids_.find(id); lost != damaged_ids_.end()) {
    return fail(lost->second);
  }
  const auto found = tables_.find_by(id, hidden_);
  if (!found) return fail(found.error());
  if (!*found) return fail(no_such(id));
  auto object = load(**found);
  if (!object) return object;
  const ReadLock lock((*object)->lock);
  const WriteLock catalog(catalog_.lock());
  // Another thread may have been quicker.
  if (Object* const there = catalog_.by_id(id)) return ObjectRef(there);
  if (const auto done = hold_chunks(**object); !done) return fail(done.error());
  catalog_.insert(*object);
  return object;
}

Result<ObjectId> StoreImpl::find(std::string_view name) const {
  if (const auto id = catalog_.named(name)) return *id;
  const Error none{Code::kNotFound, fmt::format("no object named '{}'", name), {}};
  if (!on_demand() || name.empty()) return fail(none);
  if (const auto lost = damaged_names_.find(name); lost != damaged_names_.end()) {
    return fail(lost->second);
  }
  const auto found = tables_.find_by(name, hidden_);
  if (!found) return fail(found.error());
  if (!*found) return fail(none);
  return (*found)->object.id;
}

}  // namespace verbena::store
