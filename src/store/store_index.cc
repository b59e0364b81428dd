// SPDX-License-Identifier: Apache-2.0
// The index between memory and medium: what changed goes into a table, and objects come out of
// them.
#include <algorithm>

#include <fmt/format.h>

#include "store/store_impl.h"

namespace verbena::store {

uint64_t StoreImpl::table_with(const Object& object, uint64_t more_runs,
                               uint64_t more_bytes) const {
  const uint64_t its = object.dirty.load(std::memory_order_relaxed) ? 0 : table_bytes(object);
  return dirty_bytes_.load(std::memory_order_relaxed) + its + more_runs * kRunInTable + more_bytes;
}

uint64_t StoreImpl::index_bytes() const {
  return mappings_.load(std::memory_order_relaxed) * kRunInTable +
         object_bytes_.load(std::memory_order_relaxed);
}

void StoreImpl::mark_dirty(Object& object, uint64_t more_runs, uint64_t more_bytes) {
  if (!persistent_) return;
  const bool before = object.dirty.exchange(true, std::memory_order_relaxed);
  const uint64_t more =
      before ? more_runs * kRunInTable + more_bytes : table_bytes(object) + more_bytes;
  dirty_bytes_.fetch_add(more, std::memory_order_relaxed);
  if (before) return;
  object.references.fetch_add(1, std::memory_order_relaxed);
  // Release pairs with the exchange of who takes the list.
  object.next_dirty = dirty_objects_.load(std::memory_order_relaxed);
  while (!dirty_objects_.compare_exchange_weak(
      object.next_dirty, &object, std::memory_order_release, std::memory_order_relaxed)) {}
}

void StoreImpl::drop_dirty() noexcept {
  Object* next = dirty_objects_.exchange(nullptr, std::memory_order_acquire);
  while (next != nullptr) {
    Object* const object = std::exchange(next, next->next_dirty);
    const ObjectRef last = ObjectRef::adopt(object);
  }
}

// The list, in order of objects' numbers; put back unless it was written.
class StoreImpl::Changes {
 public:
  explicit Changes(StoreImpl& store) : store_(store) {
    for (Object* object = store.dirty_objects_.load(std::memory_order_acquire); object != nullptr;
         object = object->next_dirty) {
      objects_.push_back(object);
    }
    std::ranges::sort(objects_, {}, &Object::number);
  }

  void write(TableWriter& to) const {
    to.begin(Section::kObjects);
    for (const Object* const object : objects_) write_state(*object, to);
    to.begin(Section::kRuns);
    for (const Object* const object : objects_) write_runs(*object, to);
    auto there = objects_;
    std::erase_if(there, [](const Object* object) { return object->removed; });
    to.begin(Section::kNames);
    std::ranges::sort(there, {}, [](const Object* object) {
      return std::pair(std::string_view(object->name), listed_id(*object));
    });
    for (const Object* const object : there) {
      to.name({object->name, listed_id(*object), object->number});
    }
    to.begin(Section::kIds);
    std::ranges::sort(there, {}, &Object::id);
    for (const Object* const object : there) to.id({object->id, object->number});
  }

  // They are in a table now.
  void done() noexcept {
    store_.dirty_objects_.store(nullptr, std::memory_order_relaxed);
    store_.dirty_bytes_.store(0, std::memory_order_relaxed);
    for (Object* const object : objects_) {
      object->stored = !object->removed;
      object->next_dirty = nullptr;
      object->dirty.store(false, std::memory_order_relaxed);
      const ObjectRef last = ObjectRef::adopt(object);
    }
  }

 private:
  static ObjectId listed_id(const Object& object) {
    return object.name.empty() ? object.id : ObjectId{};
  }
  static void write_state(const Object& object, TableWriter& to) {
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
                 .content = object.content});
    } else if (object.stored) {
      to.remove({object.number});
    }
  }
  static void write_runs(const Object& object, TableWriter& to) {
    if (object.removed) return;
    std::vector<Run> runs;
    const auto write = [&] {
      to.map(object.number, object.size, runs);
      runs.clear();
    };
    object.table.for_each(0, kMaxIndex, [&](const Run& run) {
      runs.push_back(run);
      if (runs.size() == 256) write();
      return true;
    });
    write();
  }

  StoreImpl& store_;
  std::vector<Object*> objects_;
};

Result<void> StoreImpl::write_index(bool all, std::optional<uint64_t> new_mark) {
  Changes changes(*this);
  MemoryTable memory;
  changes.write(memory);
  const Table newest(memory.finish(), memory);
  const Log::Checkpoint what{.newest = newest,
                             .tables = tables_,
                             .next_number = next_number_.load(),
                             .index_bytes = index_bytes(),
                             .all = all};
  const auto done =
      new_mark ? log_->start_with_checkpoint(*new_mark, what) : log_->checkpoint(what);
  if (done) changes.done();
  return done;
}

}  // namespace verbena::store
