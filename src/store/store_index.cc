// SPDX-License-Identifier: Apache-2.0
// The index between memory and medium: what changed goes into a table, and objects come out of
// them.
#include <algorithm>

#include <fmt/format.h>

#include "store/log_reader.h"
#include "store/replay.h"
#include "store/store_impl.h"
#include "store/table_objects.h"

namespace verbena::store {

uint64_t StoreImpl::index_bytes() const {
  return mappings_.load(std::memory_order_relaxed) * kRunInTable +
         object_bytes_.load(std::memory_order_relaxed);
}

void StoreImpl::mark_dirty(Object& object) {
  if (options_.cache) note_unflushed(object);
  if (!persistent_ || folds_log_ || object.dirty) return;
  object.dirty = true;
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

// The list; it stays unless it was written.
class StoreImpl::Changes {
 public:
  explicit Changes(StoreImpl& store) : store_(store) {
    for (Object* object = store.dirty_objects_.load(std::memory_order_acquire); object != nullptr;
         object = object->next_dirty) {
      objects_.push_back(object);
    }
  }

  void write(TableWriter& to) const { write_objects({objects_.begin(), objects_.end()}, to); }

  // They are in a table now.
  void done() noexcept {
    store_.dirty_objects_.store(nullptr, std::memory_order_relaxed);
    for (Object* const object : objects_) {
      object->lock.assert_shared();  // alone in the world
      object->stored = !object->removed;
      object->next_dirty = nullptr;
      object->dirty = false;
      const ObjectRef last = ObjectRef::adopt(object);
    }
  }

 private:
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

// The log so far, read as an opening would read it: no object is looked at, and so nobody waits.
// What is appended meanwhile is behind the cut.
Result<void> StoreImpl::fold_log(bool all) {
  auto done = [&]() VERBENA_REQUIRES(checkpointing_) -> Result<void> {
    try {
      const auto cut = log_->cut();
      if (!cut) return fail(cut.error());
      if (options_.while_folding) options_.while_folding();
      return write_cut(*cut, all);
    } catch (const std::bad_alloc&) {
      return fail(Error{Code::kNoMemory, "out of memory", {}});
    }
  }();
  if (!done) log_->give_up();
  return done;
}

Result<void> StoreImpl::write_cut(const Log::Cut& cut, bool all) {
  MemoryTable memory;
  if (const auto done = fold(cut, memory); !done) return done;
  const Table newest(memory.finish(), memory);
  return log_->checkpoint({.newest = newest,
                           .tables = tables_,
                           .next_number = next_number_.load(),
                           .index_bytes = index_bytes(),
                           .all = all,
                           .end = cut.end});
}

// The objects that these log chunks change, as they are behind them.
Result<void> StoreImpl::fold(const Log::Cut& cut, TableWriter& to) const {
  Replay replay([](const Run&) { return true; }, UINT64_MAX / 2, UINT64_MAX / 2);
  replay.load_by([this](uint64_t number) -> Result<ObjectRef> {
    const auto found = tables_.find(number);
    if (!found) return fail(found.error());
    if (!*found) return fail(Error{Code::kNotFound, {}, {}});
    return load(**found);
  });
  const ChunkMemory memory = [this](uint64_t chunk) { return space_.memory(chunk); };
  std::vector<Record> transaction;
  for (const Extent& extent : cut.root.log) {
    for (uint32_t i = 0; i < extent.count; ++i) {
      const uint64_t sequence = extent.sequence + i;
      if (sequence < cut.root.replay_from || sequence >= cut.end) continue;
      const LogChunk chunk = read_chunk(cut.root.store, cut.root.chunks_per_block, extent, i,
                                        kFlagLog, memory, Copies::kFirstGood);
      const auto wrong = [&](const std::string& why) {
        return fail(damaged_log(fmt::format("chunk {} of the log: {}", sequence, why),
                                log_damage("log", chunk.chunk_a, sequence)));
      };
      if (chunk.good == nullptr) return wrong("not valid");
      for (RecordReader reader(chunk.records()); !reader.done();) {
        const auto record = reader.next();
        if (!record) return wrong(name_of(record.error()));
        const auto* const commit = std::get_if<CommitRecord>(&*record);
        if (commit == nullptr) {
          transaction.push_back(*record);
          continue;
        }
        for (const Record& each : transaction) {
          if (const auto applied = replay.apply(each); !applied) return wrong(applied.error());
        }
        transaction.clear();
        replay.touched_at(commit->time_ns);
      }
    }
  }
  if (!replay.damaged().empty()) return fail(replay.damaged().begin()->second.error);
  std::vector<uint64_t> numbers = replay.changed();
  std::ranges::sort(numbers);
  numbers.erase(std::ranges::unique(numbers).begin(), numbers.end());
  std::vector<const Object*> objects;
  for (const uint64_t number : numbers) {
    const auto found = replay.objects().find(number);
    if (found != replay.objects().end()) objects.push_back(found->second.get());
  }
  for (const ObjectRef& object : replay.removed()) objects.push_back(object.get());
  write_objects(std::move(objects), to);
  return {};
}

}  // namespace verbena::store
