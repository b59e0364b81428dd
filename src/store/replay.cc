// SPDX-License-Identifier: Apache-2.0
#include "store/replay.h"

#include <algorithm>

#include <fmt/format.h>

#include "store/crc_parts.h"

namespace verbena::store {
namespace {

// Numbers of objects are below this: no store makes so many, and there is always a next one.
constexpr uint64_t kMaxNumber = uint64_t{1} << 63;

std::unexpected<std::string> unknown(const char* what, uint64_t number) {
  return fail(
      fmt::format("{} record refers to object number {}, which does not exist", what, number));
}

}  // namespace

verbena::Result<void, std::string> Replay::apply(const Record& record) {
  if (load_) return apply_on_demand(record);
  return std::visit([this](const auto& one) { return on(one); }, record);
}

// An object whose state is lost is damaged, and so is what is cloned or taken from it. Others are
// not.
Replay::Outcome Replay::apply_on_demand(const Record& record) {
  const uint64_t number = changed_by(record);
  auto known = damaged_.find(number);
  if (known == damaged_.end()) {
    load_error_.reset();
    auto done = std::visit([this](const auto& one) { return on(one); }, record);
    if (done || !load_error_) return done;
    const Error error = *load_error_;
    static_cast<void>(look_up(number));  // for its name and id, if what is lost is another's
    damage(number, error);
    known = damaged_.find(number);
  }
  if (const auto* const rename = std::get_if<RenameRecord>(&record)) {
    known->second.name = rename->name;
  }
  if (std::holds_alternative<DeleteRecord>(record)) known->second.removed = true;
  // The other one is gone all the same.
  if (const auto* const take = std::get_if<TakeRecord>(&record)) {
    return apply_on_demand(DeleteRecord{take->from});
  }
  return {};
}

void Replay::damage(uint64_t number, const Error& error) {
  Damaged& damaged = damaged_[number];
  damaged.error = error;
  const auto found = objects_.find(number);
  if (found == objects_.end()) return;
  const Object& object = *found->second;
  object.lock.assert_held();
  damaged.id = object.id;
  damaged.name = object.name;
  runs_ -= object.table.runs();
  ids_.erase(object.id);
  if (!object.name.empty()) names_.erase(object.name);
  objects_.erase(found);
}

Object* Replay::look_up(uint64_t number) {
  const auto found = objects_.find(number);
  if (found != objects_.end()) return found->second.get();
  if (!load_) return nullptr;
  auto loaded = load_(number);
  if (!loaded) {
    if (loaded.error().code != Code::kNotFound) load_error_ = loaded.error();
    return nullptr;
  }
  (*loaded)->lock.assert_held();
  runs_ += (*loaded)->table.runs();
  return objects_.emplace(number, std::move(*loaded)).first->second.get();
}

Object* Replay::find(uint64_t number) {
  Object* const object = look_up(number);
  if (object == nullptr) return nullptr;
  touched_.push_back(number);
  changed_.push_back(number);
  return object;
}

Replay::Outcome Replay::add(const ObjectRecord& record) {
  const CreateRecord create{record.number, record.id, record.created_ns, record.name};
  if (const auto done = on(create); !done) return done;
  changed_.pop_back();
  Object& object = *objects_.find(record.number)->second;
  object.lock.assert_held();
  object.size = record.size;
  object.modified_ns = record.modified_ns;
  object.stored = true;
  object.behind = record.behind;
  object.under = under_of(record.under);
  return set_content(object, record.crc, record.content);
}

// Empty: it has none.
Replay::Outcome Replay::set_content(Object& object, uint32_t crc, std::string_view content) {
  if (!content.empty() &&
      crc_of({reinterpret_cast<const uint8_t*>(content.data()), content.size()}) != crc) {
    return fail(
        fmt::format("the content of object number {} does not match its CRC", object.number));
  }
  object.content = content;
  object.content_crc = crc;
  return {};
}

Replay::Outcome Replay::add(const MapRecord& record) {
  const auto done = on(record);
  if (done) {
    touched_.pop_back();
    changed_.pop_back();
  }
  return done;
}

Replay::Outcome Replay::check(const NameRecord& record) const {
  const auto found = objects_.find(record.number);
  if (found != objects_.end() && found->second->name == record.name &&
      (!record.name.empty() || found->second->id == record.id)) {
    return {};
  }
  return fail(fmt::format("NAME record '{}' for object number {}, which has another", record.name,
                          record.number));
}

Replay::Outcome Replay::check(const IdRecord& record) const {
  const auto found = objects_.find(record.number);
  if (found != objects_.end() && found->second->id == record.id) return {};
  return fail(fmt::format("ID record {}:{} for object number {}, which has another", record.id.high,
                          record.id.low, record.number));
}

std::optional<uint64_t> Replay::holder(std::string_view name) const {
  const auto found = name.empty() ? names_.end() : names_.find(name);
  return found == names_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<uint64_t> Replay::holder(ObjectId id) const {
  const auto found = ids_.find(id);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

void Replay::touched_at(uint64_t time_ns) {
  for (const uint64_t number : touched_) {
    const auto found = objects_.find(number);
    if (found == objects_.end()) continue;
    found->second->lock.assert_held();
    found->second->modified_ns = time_ns;
  }
  touched_.clear();
}

Replay::Outcome Replay::assign(Object& object, uint64_t first, uint64_t end,
                               std::span<const Run> runs) {
  if (runs_ + runs.size() > max_runs_) {
    too_many_ = true;
    return fail(fmt::format("the objects have more than {} segments", max_runs_));
  }
  runs_ -= object.table.runs();
  object.table.prepare(first, end, runs, change_);
  object.table.apply(change_, [](const Run&) {});
  runs_ += object.table.runs();
  return {};
}

// The size of an object whose chunks before `end` are set: only TRUNCATE makes one smaller, and
// nothing lies behind it.
Replay::Outcome Replay::grow(Object& object, const char* what, uint64_t end, uint64_t size) {
  const uint64_t chunks = (size + kDataBytes - 1) / kDataBytes;
  if (size > kMaxSize || size < object.size || end > chunks) {
    return fail(
        fmt::format("{} record does not fit the object: size {} bytes, chunks below {}; the object "
                    "has {} bytes",
                    what, size, end, object.size));
  }
  object.size = size;
  return {};
}

Replay::Outcome Replay::on(const CreateRecord& record) {
  if (objects_.size() >= max_objects_) {
    too_many_ = true;
    return fail(fmt::format("there are more than {} objects", max_objects_));
  }
  if (objects_.contains(record.number) || record.number >= kMaxNumber) {
    return fail(fmt::format("CREATE record has object number {}, which is in use or out of range",
                            record.number));
  }
  if (holder(record.name)) {
    return fail(
        fmt::format("CREATE record has the name '{}', which another object has", record.name));
  }
  if (!ids_.try_emplace(record.id, record.number).second) {
    return fail(fmt::format("CREATE record has the id {}:{}, which another object has",
                            record.id.high, record.id.low));
  }
  if (!record.name.empty()) names_.try_emplace(std::string(record.name), record.number);
  ObjectRef object(new Object(record.number, record.id, record.time_ns));
  object->name = record.name;
  objects_.emplace(record.number, std::move(object));
  changed_.push_back(record.number);
  next_number_ = std::max(next_number_, record.number + 1);
  return {};
}

Replay::Outcome Replay::on(const MapRecord& record) {
  Object* const object = find(record.number);
  if (object == nullptr) return unknown("MAP", record.number);
  object->lock.assert_held();
  for (const Run& run : record.runs) {
    if (run.held != Held::kHere && object->behind.version == 0) {
      return fail(fmt::format(
          "MAP record refers to what is behind object number {}, but nothing is", record.number));
    }
    if (run.has_chunks() && !possible_(run)) {
      return fail(fmt::format("MAP record refers to chunks {} to {}, which are not in the store",
                              run.chunk, run.chunk + run.count - 1));
    }
    const uint64_t end = run.index + run.count;
    if (const auto done = grow(*object, "MAP", end, record.size); !done) return done;
    if (const auto done = assign(*object, run.index, end, {&run, 1}); !done) return done;
  }
  return set_content(*object, 0, {});
}

Replay::Outcome Replay::on(const ContentRecord& record) {
  Object* const object = find(record.number);
  if (object == nullptr) return unknown("CONTENT", record.number);
  object->lock.assert_held();
  if (const auto done = assign(*object, 0, kMaxIndex, {}); !done) return done;
  object->note_reshaped();
  object->size = record.content.size();
  return set_content(*object, record.crc, record.content);
}

Replay::Outcome Replay::on(const TruncateRecord& record) {
  Object* const object = find(record.number);
  if (object == nullptr) return unknown("TRUNCATE", record.number);
  object->lock.assert_held();
  if (record.size > kMaxSize) {
    return fail(fmt::format("TRUNCATE record has a size of {} bytes; the maximum is {}",
                            record.size, kMaxSize));
  }
  if (!object->content.empty() && record.size != 0) {
    return fail(
        fmt::format("TRUNCATE record for object number {}, which has no chunks", record.number));
  }
  if (const auto done = set_content(*object, 0, {}); !done) return done;
  const uint64_t end = (record.size + kDataBytes - 1) / kDataBytes;
  const bool shrinks = record.size < object->size;
  object->note_reshaped();
  object->size = record.size;
  return shrinks ? assign(*object, end, kMaxIndex, {}) : Outcome{};
}

Replay::Outcome Replay::on(const CloneRecord& record) {
  const Object* const from = look_up(record.from);
  if (from == nullptr) return unknown("CLONE", record.from);
  Object* const to = find(record.to);
  if (to == nullptr) return unknown("CLONE", record.to);
  from->lock.assert_held();
  to->lock.assert_held();
  if (!from->content.empty() || !to->content.empty()) {
    return fail(fmt::format("CLONE record for object number {}, which has no chunks",
                            from->content.empty() ? record.to : record.from));
  }
  const uint64_t end = record.to_index + record.count;
  // Of no chunks: the size alone.
  if (const auto done = grow(*to, "CLONE", record.count == 0 ? 0 : end, record.size); !done) {
    return done;
  }
  std::vector<Run> runs;
  bool all_here = true;
  from->table.for_all(record.from_index, record.from_index + record.count, [&](const Run& run) {
    all_here = all_here && run.has_chunks();
    runs.push_back(run);
    runs.back().index = run.index - record.from_index + record.to_index;
    runs.back().held = Held::kHere;
    return all_here;
  });
  if (!all_here) {
    return fail(fmt::format("CLONE record for object number {}, of which parts are only behind",
                            record.from));
  }
  to->note_reshaped();
  return assign(*to, record.to_index, end, runs);
}

Replay::Outcome Replay::on(const DeleteRecord& record) {
  Object* const object = look_up(record.number);
  if (object == nullptr) return unknown("DELETE", record.number);
  object->lock.assert_held();
  runs_ -= object->table.runs();
  ids_.erase(object->id);
  if (!object->name.empty()) names_.erase(object->name);
  const auto found = objects_.find(record.number);
  if (object->stored) {
    object->removed = true;
    object->table.clear([](const Run&) {});
    removed_.push_back(std::move(found->second));
  }
  objects_.erase(found);
  return {};
}

Replay::Outcome Replay::on(const RenameRecord& record) {
  Object* const object = find(record.number);
  if (object == nullptr) return unknown("RENAME", record.number);
  touched_.pop_back();  // its bytes are not modified
  if (!record.name.empty() && !names_.try_emplace(std::string(record.name), record.number).second) {
    return fail(
        fmt::format("RENAME record has the name '{}', which another object has", record.name));
  }
  if (!object->name.empty()) names_.erase(object->name);
  object->name = record.name;
  return {};
}

Replay::Outcome Replay::on(const FlushedRecord& record) {
  Object* const object = find(record.number);
  if (object == nullptr) return unknown("FLUSHED", record.number);
  object->lock.assert_held();
  touched_.pop_back();  // its bytes are not modified
  if (record.behind.version == 0) {
    if (object->table.parts_behind() > 0) {
      return fail(fmt::format("FLUSHED record for object number {}, of which parts are only behind",
                              record.number));
    }
    object->table.hold_here();
  }
  object->behind = record.behind;
  object->under = under_of(record.under);
  return {};
}

// What the one had behind is said by a FLUSHED that follows.
Replay::Outcome Replay::on(const TakeRecord& record) {
  Object* const from = look_up(record.from);
  if (from == nullptr) return unknown("TAKE", record.from);
  Object* const to = find(record.to);
  if (to == nullptr) return unknown("TAKE", record.to);
  from->lock.assert_held();
  to->lock.assert_held();
  to->table.swap(from->table);
  to->content.swap(from->content);
  std::swap(to->content_crc, from->content_crc);
  to->size = from->size;
  to->behind = from->behind;
  to->under.reset();
  return on(DeleteRecord{record.from});
}

Replay::Outcome Replay::on(const CommitRecord& /*record*/) { return {}; }

}  // namespace verbena::store
