// SPDX-License-Identifier: Apache-2.0
// Opening a store again, from the superblocks to the first superblock of the new opening.
#include "store/recovery.h"

#include <algorithm>

#include <fmt/format.h>

#include "store/mark.h"

namespace verbena::store {
Result<void> StoreImpl::Recovery::run() {
  if (const auto done = read_root(); !done) return done;
  if (const auto done = claim_log(); !done) return done;
  if (const auto done = read_index(); !done) return done;
  if (const auto done = read_log(); !done) return done;
  if (const auto done = take_over(); !done) return done;
  return store_.options_.read_only ? Result<void>{} : start();
}

// The chunks lie within one block that the medium has. It may have lost that (a file is missing,
// or was cut off), if the store is only read: then they are damaged, and the others are not.
bool StoreImpl::Recovery::possible(const Run& run) {
  const uint32_t per_block = store_.space_.chunks_per_block();
  const uint64_t block = run.chunk / per_block;
  if (!is_there(block) && block < Space::kMaxBlocks) lacking_ = true;
  return run.chunk % per_block + run.count <= per_block && may_name(block);
}

bool StoreImpl::Recovery::is_there(uint64_t block) const {
  return block < Space::kMaxBlocks && store_.backend_->has(static_cast<uint32_t>(block));
}

bool StoreImpl::Recovery::may_name(uint64_t block) const {
  return is_there(block) || (store_.options_.read_only && block < Space::kMaxBlocks);
}

Result<void> StoreImpl::Recovery::read_root() {
  if (store_.backend_->existing() < 2) {
    return fail(Error{Code::kNoStore, "not a store: too small to hold superblocks", {}});
  }
  if (const auto done = log_space_.claim(0, 1); !done) return done;
  if (const auto done = load_all(0); !done) return done;
  if (const auto done = load_all(1); !done) return done;
  const auto roots = read_roots(
      as_chunk(log_space_.superblock_a()), as_chunk(log_space_.superblock_b()),
      [this](const Superblock& root, const Superblock& other) { return support(root, other); });
  if (!roots) return fail(roots.error());
  roots_ = *roots;
  root_ = roots->root;
  const uint32_t per_block = space().chunks_per_block();
  if (root_.chunks_per_block != per_block) {
    return fail(
        Error{Code::kInvalid,
              fmt::format("the store has blocks of {} chunks but was opened with blocks of {}",
                          root_.chunks_per_block, per_block),
              {}});
  }
  note_copy(roots->a, 0);
  note_copy(roots->b, per_block);
  store_.tag_ = root_.store;
  return {};
}

void StoreImpl::Recovery::note_copy(RootCopy state, uint64_t chunk) {
  if (state == RootCopy::kCurrent || state == RootCopy::kBeside) return;
  (state == RootCopy::kTorn ? report_.incomplete : report_.damage)
      .push_back(root_damage(chunk, state));
  irregular_ = true;
}

// How far the medium has what this superblock lists, and not the other.
RootSupport StoreImpl::Recovery::support(const Superblock& root, const Superblock& other) {
  const uint32_t per_block = space().chunks_per_block();
  RootSupport found;
  if (root.chunks_per_block != per_block) return {0, 0, false, false};
  std::array<std::vector<uint8_t>, 2> bytes{std::vector<uint8_t>(kChunkBytes),
                                            std::vector<uint8_t>(kChunkBytes)};
  size_t turn = 0;  // both copies of a chunk are looked at together
  const auto memory = [&](uint64_t chunk) -> const uint8_t* {
    const uint64_t block = chunk / per_block;
    std::vector<uint8_t>& to = bytes[turn++ % 2];
    const bool there =
        is_there(block) && store_.backend_->read_medium(static_cast<uint32_t>(block),
                                                        chunk % per_block * kChunkBytes, to);
    return there ? to.data() : nullptr;
  };
  for (const bool log : {false, true}) {
    for (const Extent& extent : log ? root.log : root.checkpoint) {
      const auto listed = [&](const Extent& one) { return one.txn == extent.txn; };
      const bool exclusive =
          std::ranges::none_of(other.log, listed) && std::ranges::none_of(other.checkpoint, listed);
      const uint16_t flag = log ? kFlagLog : kFlagCheckpoint;
      for (const LogChunk& chunk : read_extents(root, {&extent, 1}, flag, memory)) {
        const uint64_t good = uint64_t{chunk.a} + uint64_t{chunk.b};
        found.valid += good;
        if (exclusive) found.exclusive += good;
        const uint64_t end = root.closed() ? root.end : root.durable + 1;
        const bool needed = !log || (chunk.sequence >= root.replay_from && chunk.sequence < end);
        if (needed && good == 0) found.possible = false;
        if (good < 2 && (needed || good > 0)) found.whole = false;
      }
    }
  }
  return found;
}

// What cannot be read is like what is damaged, and there is a second copy; but a store is not
// written to while its medium fails.
Result<void> StoreImpl::Recovery::load_all(uint32_t position) {
  const uint32_t per_block = space().chunks_per_block();
  const uint64_t first = uint64_t{position} * per_block;
  auto loaded = space().load(first, per_block);
  if (loaded || !store_.options_.read_only) return loaded;
  for (uint32_t i = 0; i < per_block; ++i) static_cast<void>(space().load(first + i, 1));
  return {};
}

Result<void> StoreImpl::Recovery::claim_log() {
  uint64_t behind = 0;
  for (const Extent& extent : root_.log) {
    if (extent.sequence < std::max<uint64_t>(behind, 1) || root_.replay_from == 0) {
      return fail(damaged_log("the superblock lists log chunks out of order",
                              {{}, 0, 0, "superblock", "chunks in order", "out of order"}));
    }
    behind = extent.sequence + extent.count;
  }
  for (const auto* extents : {&root_.checkpoint, &root_.log}) {
    for (const Extent& extent : *extents) {
      const bool may = may_name(extent.block_a) && may_name(extent.block_b);
      if (may) {
        if (!is_there(extent.block_a) || !is_there(extent.block_b)) space().lack();
        if (const auto done = log_space_.claim(extent.block_a, extent.block_b); !done) return done;
      }
      if (!may || !log_space_.take(extent)) {
        return fail(damaged_log("the superblock refers to log chunks that are not in the store",
                                {{}, 0, 0, "superblock", "chunks of the log", "missing"}));
      }
      if (const auto done = load_all(extent.block_a); !done) return done;
      if (const auto done = load_all(extent.block_b); !done) return done;
    }
  }
  return {};
}

// The objects and their space become the store's.
Result<void> StoreImpl::Recovery::take_over() {
  const WriteLock catalog(store_.catalog_.lock());
  for (auto& [number, object] : replay_.objects()) {
    object->lock.assert_held();  // nobody else's yet
    if (const auto done = store_.hold_chunks(*object); !done) {
      if (!partial()) return done;
      // What an older state refers to may be in use by others.
      object->table.clear([](const Run&) {});
      ObjectDoubt doubt;
      doubt.runs.push_back({0, (object->size + kDataBytes - 1) / kDataBytes});
      report_.lost.objects.add(number, std::move(doubt));
    }
    store_.mappings_ += object->table.runs();
    store_.object_bytes_ += table_bytes(object->name) + object->content.size();
    store_.catalog_.insert(object);
  }
  if (store_.on_demand()) {
    store_.hidden_.insert(replay_.changed().begin(), replay_.changed().end());
    for (const ObjectRef& object : replay_.removed()) store_.hidden_.insert(object->number);
    note_damaged();
  }
  if (!store_.options_.read_only) {
    for (const uint64_t number : replay_.changed()) {
      const auto object = replay_.objects().find(number);
      if (object != replay_.objects().end()) changed(*object->second);
    }
    for (const ObjectRef& object : replay_.removed()) changed(*object);
  }
  report_.objects = replay_.objects().size();
  report_.mappings = store_.mappings_;
  store_.next_number_ = replay_.next_number();
  store_.root_ = root_;
  store_.root_copies_ = {roots_.a, roots_.b};
  store_.durable_when_opened_ = watermark_;
  return {};
}

// By the log: it is in the next table.
void StoreImpl::Recovery::changed(Object& object) {
  if (object.counted_in == Log::kFirstPeriod) return;
  object.counted_in = Log::kFirstPeriod;
  object.lock.assert_held();  // nobody else works with the store yet
  store_.mark_dirty(object);
  table_bytes_ += table_bytes(object);
}

// Objects that the log changed, and whose state is lost, under the names and ids they have now.
void StoreImpl::Recovery::note_damaged() {
  for (const auto& [number, damaged] : replay_.damaged()) {
    const auto stored = unloaded_.find(number);
    const bool has_state = stored != unloaded_.end();
    if (damaged.removed || has_state || damaged.id) store_.hidden_.insert(number);
    if (damaged.removed) continue;
    if (damaged.id || has_state) {
      store_.damaged_ids_.emplace(damaged.id ? *damaged.id : stored->second.first, damaged.error);
    }
    if (damaged.name || has_state) {
      const std::string& name = damaged.name ? *damaged.name : stored->second.second;
      if (!name.empty()) store_.damaged_names_.emplace(name, damaged.error);
    }
  }
}

// For writing: what a killed process left in memory is made durable, then a new epoch.
Result<void> StoreImpl::Recovery::start() {
  // No store gets as far as the others; but a log may say so.
  constexpr uint64_t kFar = uint64_t{1} << 62;
  if (root_.epoch() >= kMaxEpoch || root_.generation >= kFar || next_ >= kFar ||
      replay_.next_number() >= kFar) {
    return fail(
        Error{Code::kFull,
              "the store cannot be opened for writing again: one of its counters has reached its "
              "limit; open it read-only and copy its objects to a new store",
              {}});
  }
  const auto mark = draw_mark(store_.options_.random, root_.epoch() + 1);
  if (!mark) return fail(mark.error());
  if (const auto done = mend_root(); !done) return done;
  // Flushing would not do: what a sync has failed to write once is not dirty any more, and yet
  // only in memory.
  for (const Piece& piece : tail_) {
    store_.persist_.rewrite(PersistPoint::kTailData, space().memory(piece.chunk),
                            size_t{piece.count} * kChunkBytes);
  }
  // A chunk that only has a watermark is gone on from.
  for (const LogChunk& chunk : log_) {
    if (chunk.sequence <= watermark_) continue;
    const auto rewrite = [&](PersistPoint point, bool good, uint64_t number) {
      if (good) store_.persist_.rewrite(point, space().memory(number), kChunkBytes);
    };
    rewrite(PersistPoint::kTailLogA, chunk.a, chunk.chunk_a);
    rewrite(PersistPoint::kTailLogB, chunk.b, chunk.chunk_b);
  }
  if (store_.options_.cache) root_.version = kCacheVersion;
  // What is flushed here is not durable yet when the first superblock is.
  root_.durable = watermark_;
  store_.log_ = std::make_unique<Log>(space(), store_.persist_, std::move(log_space_),
                                      std::move(root_), next_);
  // A full store is opened all the same: what removes can go on.
  if (const auto room = store_.log_->provide(table_bytes_); !room) {
    const Code why = room.error().code;
    if (why != Code::kFull && why != Code::kLogFull) return room;
    irregular_ = true;
  }
  store_.set_mark(*mark);
  const WriteLock world(store_.world_);
  return irregular_ ? store_.write_index(bad_tables_, *mark) : store_.log_->start(*mark);
}

// A superblock that is damaged, older, or in memory alone (the process was killed before it was
// flushed) becomes like the other one before anything else is written. Otherwise a power cut
// while the good one is written would leave none, and what the older one names would be used
// again.
Result<void> StoreImpl::Recovery::mend_root() {
  uint8_t* const a = log_space_.superblock_a();
  uint8_t* const b = log_space_.superblock_b();
  // As they are first: a good one may be in memory alone. Not more than one of them is, so that
  // the other survives if the power fails while both are written.
  const auto rewrite = [&](PersistPoint point, RootCopy state, uint8_t* copy) {
    if (state != RootCopy::kCurrent && state != RootCopy::kBeside) return;
    store_.persist_.rewrite(point, copy, kChunkBytes);
  };
  rewrite(PersistPoint::kTailSuperA, roots_.a, a);
  rewrite(PersistPoint::kTailSuperB, roots_.b, b);
  if (const auto done = store_.persist_.fence(PersistPoint::kTailSuperFence); !done) return done;
  const bool current_a = roots_.a == RootCopy::kCurrent;
  if (current_a && roots_.b == RootCopy::kCurrent) return {};
  uint8_t* const other = current_a ? b : a;
  encode(root_, current_a ? root_.chunks_per_block : 0,
         std::span<uint8_t, kChunkBytes>(other, kChunkBytes));
  store_.persist_.flush(PersistPoint::kMendSuper, other, kChunkBytes);
  return store_.persist_.fence(PersistPoint::kMendFence);
}

Result<void> StoreImpl::recover(OpenReport& report) {
  if (!persistent_) {
    return fail(
        Error{Code::kNoStore, "the medium is not persistent, so there is no store to open", {}});
  }
  return Recovery(*this, report).run();
}

}  // namespace verbena::store
