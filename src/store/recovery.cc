// SPDX-License-Identifier: Apache-2.0
// A store that is opened again: superblock, checkpoint, log, and of what came last the data as
// well.
#include <algorithm>

#include <fmt/format.h>

#include "store/chunk_check.h"
#include "store/log_reader.h"
#include "store/mark.h"
#include "store/partial_replay.h"
#include "store/replay.h"
#include "store/roots.h"
#include "store/store_impl.h"
#include "store/table_merge.h"

namespace verbena::store {
namespace {

std::span<const uint8_t, kChunkBytes> as_chunk(const uint8_t* memory) {
  return std::span<const uint8_t, kChunkBytes>(memory, kChunkBytes);
}

}  // namespace

// Reads a store; what it finds goes into the parts of a StoreImpl.
class StoreImpl::Recovery {
 public:
  Recovery(StoreImpl& store, OpenReport& report)
      : store_(store),
        report_(report),
        log_space_(store.space_),
        replay_([this](const Run& run) { return possible(run); },
                most_runs(store.options_.max_mappings), store.options_.max_objects) {}

  Result<void> run() {
    if (const auto done = read_root(); !done) return done;
    if (const auto done = claim_log(); !done) return done;
    if (const auto done = read_index(); !done) return done;
    if (const auto done = read_log(); !done) return done;
    if (const auto done = take_over(); !done) return done;
    return store_.options_.read_only ? Result<void>{} : start();
  }

 private:
  [[nodiscard]] Space& space() { return store_.space_; }
  [[nodiscard]] bool partial() const { return store_.options_.partial; }

  Result<void> read_index() {
    if (partial()) return read_partial();
    return store_.on_demand() ? open_tables() : read_tables();
  }

  // Threads that write at once may have gone a little beyond the bound. And a transaction is
  // replayed piece by piece: what replaces an object is there twice before it goes.
  static uint64_t most_runs(uint64_t bound) { return 2 * (bound + bound / 8 + 1024); }

  // The chunks lie within one block that the medium has. It may have lost that (a file is missing,
  // or was cut off), if the store is only read: then they are damaged, and the others are not.
  [[nodiscard]] bool possible(const Run& run) {
    const uint32_t per_block = store_.space_.chunks_per_block();
    const uint64_t block = run.chunk / per_block;
    if (!is_there(block) && block < Space::kMaxBlocks) lacking_ = true;
    return run.chunk % per_block + run.count <= per_block && may_name(block);
  }
  [[nodiscard]] bool is_there(uint64_t block) const {
    return block < Space::kMaxBlocks && store_.backend_->has(static_cast<uint32_t>(block));
  }
  [[nodiscard]] bool may_name(uint64_t block) const {
    return is_there(block) || (store_.options_.read_only && block < Space::kMaxBlocks);
  }

  Result<void> read_root() {
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

  void note_copy(RootCopy state, uint64_t chunk) {
    if (state == RootCopy::kCurrent || state == RootCopy::kBeside) return;
    (state == RootCopy::kTorn ? report_.incomplete : report_.damage)
        .push_back(root_damage(chunk, state));
    irregular_ = true;
  }

  // How far the medium has what this superblock lists, and not the other.
  RootSupport support(const Superblock& root, const Superblock& other) {
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
        const bool exclusive = std::ranges::none_of(other.log, listed) &&
                               std::ranges::none_of(other.checkpoint, listed);
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
  Result<void> load_all(uint32_t position) {
    const uint32_t per_block = space().chunks_per_block();
    const uint64_t first = uint64_t{position} * per_block;
    auto loaded = space().load(first, per_block);
    if (loaded || !store_.options_.read_only) return loaded;
    for (uint32_t i = 0; i < per_block; ++i) static_cast<void>(space().load(first + i, 1));
    return {};
  }

  Result<void> claim_log() {
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
          if (const auto done = log_space_.claim(extent.block_a, extent.block_b); !done)
            return done;
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

  // Both copies are valid, and say different things: nobody knows which is right. Or one was put
  // there from another history of the store.
  Result<void> check_origin(const LogChunk& chunk) {
    if (chunk.differ) {
      return fail(damaged_log(fmt::format("the copies of chunk {} of the {} are different",
                                          chunk.number(), chunk.which()),
                              copies_damage(chunk)));
    }
    if (chunk.good == nullptr && (chunk.foreign_a || chunk.foreign_b)) {
      return fail(damaged_log(fmt::format("chunk {} of the {} is from another history of the store",
                                          chunk.number(), chunk.which()),
                              copy_damage(chunk, !chunk.foreign_a)));
    }
    return {};
  }

  // Whether there is one good copy. Of two, one that is not is worth saying.
  Result<void> check_copies(const LogChunk& chunk) {
    if (const auto done = check_origin(chunk); !done) return done;
    if (!chunk.a || !chunk.b) irregular_ = true;
    if (chunk.good == nullptr) {
      return fail(
          damaged_log(fmt::format("chunk {} of the {} is not valid", chunk.number(), chunk.which()),
                      copy_damage(chunk, false)));
    }
    if (!chunk.a) report_.damage.push_back(copy_damage(chunk, false));
    if (!chunk.b) report_.damage.push_back(copy_damage(chunk, true));
    return {};
  }

  Result<void> apply(const Record& record, const LogChunk& chunk) {
    if (partial()) {
      PartialReplay(replay_, report_.lost).apply(record);
      return {};
    }
    const auto applied = replay_.apply(record);
    return applied ? Result<void>{}
                   : fail(refused("the log", chunk.sequence, chunk.chunk_a, applied.error()));
  }

  // Why a record makes no sense.
  Error refused(const char* of, uint64_t sequence, uint64_t chunk, const std::string& why) {
    if (lacking_) {
      return Error{Code::kDamaged,
                   fmt::format("a file of the store is missing or was cut off: chunk {} of {}: {}; "
                               "what is left can be read, and `verbena salvage` builds a new store "
                               "from it",
                               sequence, of, why),
                   {{}, 0, chunk, "file", "blocks", "missing"}};
    }
    if (replay_.too_many()) {
      return Error{Code::kFull, "the index of the store would use too much memory: " + why, {}};
    }
    return damaged_log(fmt::format("chunk {} of {}: {}", sequence, of, why),
                       log_damage("record", chunk, sequence));
  }

  // Objects that the log changes are read from them when it does.
  Result<void> open_tables() {
    if (const auto done = store_.tables_.open(root_); !done) return done;
    replay_.number_from(store_.tables_.next_number());
    replay_.load_by([this](uint64_t number) -> Result<ObjectRef> {
      const auto found = store_.tables_.find(number);
      if (!found) return fail(found.error());
      if (!*found) return fail(Error{Code::kNotFound, {}, {}});
      auto object = store_.load(**found);
      if (!object) {
        const ObjectRecord& record = (*found)->object;
        unloaded_[number] = {record.id, std::string(record.name)};
      }
      return object;
    });
    return {};
  }

  // All objects, of each what the newest table says.
  Result<void> read_tables() {
    Result<void> origin;
    bool dispensable = false;  // what is read now
    bool lost = false;         // some of that
    const auto seen = [&](const LogChunk& chunk) {
      irregular_ = bad_tables_ = true;
      if (!origin) return;
      if (chunk.good == nullptr || chunk.differ) {
        if (dispensable) {
          lost = true;
          report_.damage.push_back(copy_damage(chunk, false));
          report_.damage.push_back(copy_damage(chunk, true));
          return;
        }
        origin = check_copies(chunk);
        return;
      }
      report_.damage.push_back(copy_damage(chunk, chunk.a));
    };
    // What was said of a lost chunk is more than that it is lost.
    const auto outcome = [&](Result<void> done) { return !done && !origin ? origin : done; };
    Tables& tables = store_.tables_;
    if (const auto done = outcome(tables.open(root_, seen)); !done) return done;
    TableMerge merge(tables.all());
    const auto add = [&](const auto& record) -> Result<void> {
      const auto added = replay_.add(record);
      return added ? Result<void>{} : fail(refused("the index", 0, 0, added.error()));
    };
    const auto objects = outcome(merge.objects([&](const Record& record, size_t) -> Result<void> {
      const auto* const object = std::get_if<ObjectRecord>(&record);
      return object == nullptr ? Result<void>{} : add(*object);
    }));
    if (!objects) return objects;
    const auto runs =
        outcome(merge.others(Section::kRuns, [&](const Record& record, size_t) -> Result<void> {
          return add(std::get<MapRecord>(record));
        }));
    if (!runs) return runs;
    // Names and ids have no more to say, so a store is read without them; but it is not written to
    // with damage in it unseen.
    dispensable = store_.options_.read_only;
    for (const Section section : {Section::kNames, Section::kIds}) {
      uint64_t count = 0;
      const auto check = [&](const Record& record, size_t) -> Result<void> {
        ++count;
        const auto* const name = std::get_if<NameRecord>(&record);
        const auto same =
            name != nullptr ? replay_.check(*name) : replay_.check(std::get<IdRecord>(record));
        return same ? Result<void>{} : fail(refused("the index", 0, 0, same.error()));
      };
      lost = false;
      const auto done = outcome(merge.others(section, check));
      if (!done && lost) continue;
      if (!done) return done;
      if (count != replay_.objects().size()) {
        return fail(refused("the index", 0, 0, "an object has no NAME or no ID record"));
      }
    }
    replay_.number_from(tables.next_number());
    return {};
  }

  // What can be read of the tables: what is certain first.
  Result<void> read_partial() {
    const auto seen = [&](const LogChunk& chunk) {
      if (chunk.good != nullptr && !chunk.differ) {
        report_.damage.push_back(copy_damage(chunk, chunk.a));
      } else {
        note_lost(chunk);
      }
    };
    if (const auto done = store_.tables_.open_partial(root_, seen); !done) return done;
    std::vector<PartialTable> tables;
    for (size_t i = 0; i < store_.tables_.count(); ++i) {
      tables.emplace_back(store_.tables_.stored(i));
      replay_.number_from(store_.tables_.stored(i).head().next_number);
    }
    for (const PartialTable& table : tables) {
      for (const Record& record : table.records(Section::kRuns)) {
        for (const Run& run : std::get<MapRecord>(record).runs) {
          last_txn_ = std::max(last_txn_, run.birth.txn);
        }
      }
    }
    const auto added = PartialReplay(replay_, report_.lost).add(PartialIndex(tables));
    return added ? Result<void>{} : fail(refused("the index", 0, 0, added.error()));
  }

  void note_lost(const LogChunk& chunk) {
    for (const bool copy_b : {false, true}) {
      report_.lost.chunks.push_back(copy_damage(chunk, copy_b));
    }
  }

  [[nodiscard]] static Error bad_record(const LogChunk& chunk, RecordFault fault) {
    return damaged_log(fmt::format("record in chunk {} of the log is not valid: {}", chunk.sequence,
                                   name_of(fault)),
                       log_damage("record", chunk.chunk_a, chunk.sequence));
  }

  Result<void> read_log() {
    log_ = read_extents(root_, root_.log, kFlagLog, memory_);
    // Behind the end of a log that was closed there is nothing.
    if (root_.closed()) {
      std::erase_if(log_, [this](const LogChunk& chunk) { return chunk.sequence >= root_.end; });
    }
    watermark_ = roots_.closed ? root_.end - 1 : find_watermark(root_, log_);
    next_ = root_.replay_from;
    bool ended = false;
    for (const LogChunk& chunk : log_) {
      if (chunk.sequence < root_.replay_from) continue;
      if (chunk.sequence <= watermark_) {
        if (chunk.sequence != next_ && !partial()) return fail(missing(next_));
        if (chunk.sequence != next_) lose_log(chunk.sequence);
        const auto there = check_copies(chunk);
        if (!there && !partial()) return there;
        if (!there) {
          note_lost(chunk);
          lose_log(chunk.sequence + 1);
          continue;
        }
      } else if (const auto done = check_tail(chunk); !done) {
        return done;
      }
      if (chunk.good != nullptr) seen_ = std::max(seen_, chunk.sequence);
      // Of what comes behind the end nothing counts; but it was written, and is not written again.
      if (ended || chunk.good == nullptr || chunk.sequence != next_) {
        ended = true;
        continue;
      }
      const auto all = replay_chunk(chunk);
      if (!all) return fail(all.error());
      if (!*all) ended = true;
      next_ = chunk.sequence + 1;
      ++report_.log_chunks;
    }
    if (next_ <= watermark_ && !partial()) return fail(missing(next_));
    if (next_ <= watermark_) lose_log(std::max(watermark_, watermark_ + 1));
    // A transaction that reaches into a chunk that is not there.
    if (!pending_.empty()) {
      irregular_ = true;
      if (report_.dropped_transactions == 0) report_.dropped_transactions = 1;
    }
    if (seen_ >= next_) irregular_ = true;
    next_ = std::max(next_, seen_ + 1);
    report_.clean = roots_.closed;
    return {};
  }

  // For salvage: goes on with this chunk. What began before it cannot be finished.
  void lose_log(uint64_t sequence) {
    IndexLoss& lost = report_.lost;
    if (lost.log.empty()) {
      lost.from_txn = std::max(last_txn_, root_.log.empty() ? 0 : root_.log.front().txn);
    }
    lost.log.push_back({next_, sequence});
    next_ = sequence;
    lost.unknown.push_back({replay_.next_number(), kEveryNumber});
    for (const Record& record : pending_) PartialReplay(replay_, lost).drop(record);
    pending_.clear();
  }

  [[nodiscard]] static Error missing(uint64_t sequence) {
    return damaged_log(fmt::format("chunk {} of the log is missing", sequence),
                       log_damage("log", 0, sequence));
  }

  // Past the watermark a crash may have left one copy, or none; but not one of another history.
  Result<void> check_tail(const LogChunk& chunk) {
    if (const auto done = check_origin(chunk); !done) return done;
    if (chunk.foreign_a) {
      report_.damage.push_back(copy_damage(chunk, false));
    }
    if (chunk.foreign_b) {
      report_.damage.push_back(copy_damage(chunk, true));
    }
    if (chunk.a != chunk.b) irregular_ = true;
    return {};
  }

  // False: what follows is not on the medium.
  Result<bool> replay_chunk(const LogChunk& chunk) {
    RecordReader reader(chunk.records());
    bool bare = false;
    while (!reader.done()) {
      const auto record = reader.next();
      if (!record) return fail(bad_record(chunk, record.error()));
      const auto* const commit = std::get_if<CommitRecord>(&*record);
      if (commit == nullptr) {
        pending_.push_back(*record);
        continue;
      }
      bare = pending_.empty();
      if (chunk.sequence > watermark_ && !data_is_there()) {
        ++report_.dropped_transactions;
        irregular_ = true;
        pending_.clear();
        return false;
      }
      for (const Record& each : pending_) {
        if (const auto done = apply(each, chunk); !done) return fail(done.error());
      }
      pending_.clear();
      replay_.touched_at(commit->time_ns);
      last_txn_ = std::max(last_txn_, commit->txn);
    }
    // Their data would be looked at again by the next opening: what they have freed since cannot be
    // used before a checkpoint.
    if (chunk.sequence > watermark_ && !bare) irregular_ = true;
    return true;
  }

  // Every chunk that the transaction's MAPs name, as they name it.
  bool data_is_there() {
    for (const Record& record : pending_) {
      const auto* const map = std::get_if<MapRecord>(&record);
      if (map == nullptr) continue;
      for (const Run& run : map->runs) {
        if (!possible(run) || !is_there(run.chunk / space().chunks_per_block())) return false;
        // Behind the watermark no chunk is written twice: there cannot be more of them.
        if (report_.verified_chunks >=
            uint64_t{store_.backend_->existing()} * space().chunks_per_block()) {
          return false;
        }
        if (!space().claim_data(static_cast<uint32_t>(run.chunk / space().chunks_per_block()))) {
          return false;
        }
        if (!space().holds(run.chunk, run.count) || !space().load(run.chunk, run.count)) {
          return false;
        }
        for (uint32_t i = 0; i < run.count; ++i) {
          const uint8_t* const chunk = space().memory(run.chunk + i);
          ++report_.verified_chunks;
          if (!head_matches(chunk, run, i, store_.tag_) ||
              examine(as_chunk(chunk)) != ChunkVerdict::kGood) {
            return false;
          }
        }
        tail_.push_back({run.chunk, run.count});
      }
    }
    return true;
  }

  // The objects and their space become the store's.
  Result<void> take_over() {
    const auto catalog = store_.catalog_.lock();
    for (auto& [number, object] : replay_.objects()) {
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
  void changed(Object& object) {
    if (object.counted_in == Log::kFirstPeriod) return;
    object.counted_in = Log::kFirstPeriod;
    store_.mark_dirty(object);
    table_bytes_ += table_bytes(object);
  }

  // Objects that the log changed, and whose state is lost, under the names and ids they have now.
  void note_damaged() {
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
  Result<void> start() {
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
    return irregular_ ? store_.write_index(bad_tables_, *mark) : store_.log_->start(*mark);
  }

  // A superblock that is damaged, older, or in memory alone (the process was killed before it was
  // flushed) becomes like the other one before anything else is written. Otherwise a power cut
  // while the good one is written would leave none, and what the older one names would be used
  // again.
  Result<void> mend_root() {
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

  StoreImpl& store_;
  OpenReport& report_;
  Roots roots_;
  LogSpace log_space_;
  Replay replay_;
  ChunkMemory memory_ = [this](uint64_t chunk) { return space().memory(chunk); };
  Superblock root_;
  std::vector<LogChunk> log_;
  std::vector<Record> pending_;  // of the transaction that is being read
  // On demand: objects whose OBJECT is there, but not all their runs.
  std::map<uint64_t, std::pair<ObjectId, std::string>> unloaded_;
  std::vector<Piece> tail_;  // data past the watermark
  uint64_t watermark_ = 0;
  uint64_t next_ = 0;
  uint64_t seen_ = 0;
  uint64_t last_txn_ = 0;     // that is known so far; for salvage
  bool bad_tables_ = false;   // a copy of a chunk of theirs is not good
  bool lacking_ = false;      // blocks that there could be
  uint64_t table_bytes_ = 0;  // that what the log changed takes in the next table
  bool irregular_ = false;    // the log does not end where a chunk does, or a copy is not good
};

Result<void> StoreImpl::recover(OpenReport& report) {
  if (!persistent_) {
    return fail(
        Error{Code::kNoStore, "the medium is not persistent, so there is no store to open", {}});
  }
  return Recovery(*this, report).run();
}

}  // namespace verbena::store
