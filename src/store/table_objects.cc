// SPDX-License-Identifier: Apache-2.0
#include "store/table_objects.h"

#include <algorithm>

namespace verbena::store {
namespace {

// Objects that nobody changes meanwhile: alone in the world, or of a replay. So no locks are taken.

ObjectId listed_id(const Object& object) { return object.name.empty() ? object.id : ObjectId{}; }

void write_state(const Object& object, TableWriter& to) {
  object.lock.assert_shared();
  if (!object.removed) {
    to.object({.number = object.number,
               .id = object.id,
               .created_ns = object.created_ns,
               .modified_ns = object.modified_ns,
               .size = object.size,
               .runs = object.table.runs(),
               .chunks = object.table.chunks(),
               .name = object.name,
               .crc = object.content_crc,
               .content = object.content,
               .behind = object.behind,
               .under = view_of(object.under)});
  } else if (object.stored) {
    to.remove({object.number});
  }
}

void write_runs(const Object& object, TableWriter& to) {
  object.lock.assert_shared();
  if (object.removed) return;
  std::vector<Run> runs;
  const uint64_t size = object.size;
  const auto write = [&] {
    to.map(object.number, size, runs);
    runs.clear();
  };
  object.table.for_all(0, kMaxIndex, [&](const Run& run) {
    runs.push_back(run);
    if (runs.size() == 256) write();
    return true;
  });
  write();
}

}  // namespace

void write_objects(std::vector<const Object*> objects, TableWriter& to) {
  std::ranges::sort(objects, {}, &Object::number);
  to.begin(Section::kObjects);
  for (const Object* const object : objects) write_state(*object, to);
  to.begin(Section::kRuns);
  for (const Object* const object : objects) write_runs(*object, to);
  std::erase_if(objects, [](const Object* object) {
    object->lock.assert_shared();
    return object->removed;
  });
  to.begin(Section::kNames);
  std::ranges::sort(objects, {}, [](const Object* object) {
    return std::pair(std::string_view(object->name), listed_id(*object));
  });
  for (const Object* const object : objects) {
    to.name({object->name, listed_id(*object), object->number});
  }
  to.begin(Section::kIds);
  std::ranges::sort(objects, {}, &Object::id);
  for (const Object* const object : objects) to.id({object->id, object->number});
}

}  // namespace verbena::store
