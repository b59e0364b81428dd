// SPDX-License-Identifier: Apache-2.0
// The store's inside. Locks, in this order: world (shared by every operation, alone for a
// checkpoint that is not folded from the log), objects (by number), catalog, log, space. What can
// fail comes before the record in the log, what comes after it cannot.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <vector>

#include "store/catalog.h"
#include "store/log.h"
#include "store/persist.h"
#include "store/roots.h"
#include "store/space.h"
#include "store/store.h"
#include "store/tables.h"

namespace verbena::store {

inline constexpr size_t kRunBytes = 48;  // that a run takes in the log at most

// Where somebody else flushes: so many times flush_bytes, and who writes does it, too.
inline constexpr uint64_t kMaxDirty = 4;

inline constexpr uint64_t kRunInTable = 43;
// What an object takes in a table, without its runs: OBJECT, NAME, ID, the beginning of a MAP, and
// once it is removed a DELETE.
[[nodiscard]] inline uint64_t table_bytes(std::string_view name) { return 180 + 2 * name.size(); }
// Of one without bytes.
[[nodiscard]] inline uint64_t table_bytes_empty(const Object& object)
    VERBENA_REQUIRES_SHARED(object.lock) {
  return table_bytes(object.name) + (object.under ? object.under->name.size() + 40 : 0);
}
[[nodiscard]] inline uint64_t table_bytes(const Object& object)
    VERBENA_REQUIRES_SHARED(object.lock) {
  return table_bytes_empty(object) + object.content.size() + object.table.runs() * kRunInTable;
}

// And once it is removed.
inline constexpr uint64_t kRemovedInTable = 64;

// Where bytes of a write come from. `at` counts from the beginning of the write.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Puts n bytes there, and says what their CRC is. At most a chunk's.
  [[nodiscard]] virtual Result<uint32_t> fetch(uint8_t* to, uint64_t at, size_t n) = 0;
  // After all were fetched, each once: whether they are what was sent, by their CRC; if not, that
  // of what came.
  [[nodiscard]] virtual Result<void> verify(ObjectId object) const {
    static_cast<void>(object);
    return {};
  }
};

// Fresh chunks for the range of an object that a write touches, given back if it does not happen.
class Fresh {
 public:
  Fresh(Space& space, std::vector<Piece>& pieces) : space_(&space), pieces_(&pieces) {}
  Fresh(const Fresh&) = delete;
  Fresh& operator=(const Fresh&) = delete;
  ~Fresh() {
    if (space_ == nullptr) return;
    for (const Piece& piece : *pieces_) space_->give_back(piece);
  }
  void keep() { space_ = nullptr; }

 private:
  Space* space_;
  std::vector<Piece>* pieces_;
};

// What operations work with, kept by each thread so that none allocates.
struct Scratch {
  std::vector<Piece> pieces;
  std::vector<Run> runs;
  SegmentTable::Change change;
  std::vector<uint32_t> crcs;  // of the parts of a write
  [[nodiscard]] static Scratch& mine();
};

// The bytes of a write, in chunks of the object: [first, end), of which the first and the last may
// be covered in part.
struct Extents {
  uint64_t offset = 0;
  uint64_t length = 0;
  [[nodiscard]] uint64_t first() const { return offset / kDataBytes; }
  [[nodiscard]] uint64_t end() const { return (offset + length + kDataBytes - 1) / kDataBytes; }
  // Which bytes of chunk `index`: [from, to).
  [[nodiscard]] uint32_t from(uint64_t index) const {
    return index == first() ? static_cast<uint32_t>(offset % kDataBytes) : 0;
  }
  [[nodiscard]] uint32_t to(uint64_t index) const {
    return static_cast<uint32_t>(
        std::min<uint64_t>(kDataBytes, offset + length - index * kDataBytes));
  }
  [[nodiscard]] bool whole(uint64_t index) const {
    return from(index) == 0 && to(index) == kDataBytes;
  }
};

class StoreImpl {
 public:
  StoreImpl(std::unique_ptr<medium::Backend> backend, Options options, uint32_t chunks_per_block);
  ~StoreImpl();

  // --- as in store.h
  Result<void> create_object(ObjectId id, std::string_view name);
  Result<void> remove(ObjectId id);
  Result<void> rename(ObjectId id, std::string_view name);
  Result<void> replace(ObjectId id, ObjectId by, ClientId client);
  Result<void> truncate(ObjectId id, uint64_t size, ClientId client);
  Result<ObjectInfo> stat(ObjectId id) const;
  Result<std::vector<ObjectInfo>> list(const std::optional<Cursor>& after, size_t limit,
                                       std::vector<ListLoss>* lost = nullptr) const;
  Result<ObjectId> find(std::string_view name) const;
  Result<std::vector<SegmentInfo>> segments(ObjectId id, uint64_t offset, size_t limit) const;
  Result<void> write(ObjectId id, uint64_t offset, std::span<const uint8_t> bytes, ClientId client,
                     std::optional<uint32_t> crc);
  Result<size_t> read(ObjectId id, uint64_t offset, std::span<uint8_t> bytes, uint32_t* crc) const;
  Result<void> clone(const CloneRequest& request, ClientId client);
  Result<PreparedWrite> prepare_write(ObjectId id, uint64_t offset, uint64_t length,
                                      ClientId client);
  Result<PreparedRead> prepare_read(ObjectId id, uint64_t offset, uint64_t length) const;
  Result<void> commit(PreparedWrite::State& state, const PreparedWrite::Crcs& crcs);
  Result<PreparedFlush> prepare_flush(ObjectId id) const;
  [[nodiscard]] Result<PreparedFlush::Part> proven_part(const Object& object, const Run& run,
                                                        uint32_t i) const;
  Result<uint64_t> begin_flush(ObjectId id, uint64_t fresh);
  Result<void> end_flush(const PreparedFlush& flushed, uint64_t version);
  Result<void> found_behind(ObjectId id, uint64_t version);
  Result<void> detach(ObjectId id);
  Result<void> check_here(ObjectId id) const;
  Result<void> move_behind(ObjectId id, const std::string& name, ObjectId under, uint64_t version);
  Result<void> replaces_behind(ObjectId id, uint64_t version);
  Result<PlaceBehind> behind(ObjectId id) const;
  Result<uint64_t> evict(ObjectId id, uint64_t first, uint64_t count);
  Result<PreparedFill> prepare_fill(ObjectId id, uint64_t first, uint64_t count);
  Result<void> commit(PreparedFill::State& state, uint64_t version);
  Result<void> adopt(ObjectId id, std::string_view name, const AdoptedState& there);
  std::vector<ObjectId> take_unflushed();
  Result<void> adopt_again(ObjectId id, const AdoptedState& there);
  Result<void> flush();
  Result<void> tend();
  [[nodiscard]] Result<void> grow_ahead();
  bool would_wait() const;
  Result<void> checkpoint(bool all = false);
  Result<void> close();
  void abandon() { closed_ = true; }  // it was never opened
  SpaceInfo space_info() const;
  StoreInfo info() const;
  Result<ScrubReport> scrub(const Progress& progress);
  Result<CompactReport> compact(const Progress& progress, uint32_t slack);
  SpareSpace spare_space(uint32_t slack) const;
  [[nodiscard]] uint32_t blocks_there() const;
  // What came is not what was sent.
  [[nodiscard]] static Error mismatch(ObjectId id, const Extents& range, uint32_t expected,
                                      uint32_t actual);

  // One of these first.
  Result<void> format();
  Result<void> recover(OpenReport& report);

  // It was opened: checkpoints are folded from the log, if somebody is there to do it.
  void begin_folding() {
    folds_log_ = log_ && options_.on_due;
    if (folds_log_) drop_dirty();
  }

  [[nodiscard]] RangeRegistry& ranges() { return ranges_; }
  [[nodiscard]] const Catalog& catalog() const { return catalog_; }
  [[nodiscard]] Space& space() const { return space_; }
  [[nodiscard]] uint32_t tag() const { return tag_; }
  [[nodiscard]] medium::Backend& backend() { return *backend_; }

 private:
  friend struct PreparedWrite::State;
  friend struct PreparedRead::State;
  class Recovery;
  class Scrub;
  class Compaction;
  struct CompactPlan {
    uint64_t for_log = 0;  // blocks
    uint32_t limit = 0;    // where everything is to lie before
    uint32_t spare = 0;    // blocks behind it
  };
  // For so many chunks of data, and blocks of the log.
  [[nodiscard]] CompactPlan plan_compaction(uint64_t chunks, uint64_t log_blocks,
                                            uint32_t slack) const;

  // Runs an operation: again after what made room for it; memory that runs out is an error; then
  // flushes and checkpoints what is due.
  template <typename Op>
  auto attempt(uint64_t dirty_bytes, Op op, int rounds = 2) -> decltype(op());
  // The same for what frees space: if others take the room that was made, it is made again.
  template <typename Op>
  auto attempt_to_free(Op op) -> decltype(op()) {
    constexpr int kRounds = 30;
    return attempt(0, op, kRounds);
  }
  [[nodiscard]] Result<void> make_room(Code why);
  [[nodiscard]] Result<void> settle(uint64_t dirty_bytes);
  [[nodiscard]] Result<void> mark_closed();
  [[nodiscard]] Result<void> writable() const;
  [[nodiscard]] Result<ObjectRef> find(ObjectId id) const;
  [[nodiscard]] static Error no_such(ObjectId id);
  [[nodiscard]] static Error bad_name();
  [[nodiscard]] static Result<void> check_range(uint64_t offset, uint64_t length);
  [[nodiscard]] Result<void> may_write(ObjectId id, uint64_t offset, uint64_t length,
                                       ClientId client) const;
  [[nodiscard]] uint64_t now() const { return options_.now_ns(); }
  [[nodiscard]] uint64_t next_txn() {
    return uint64_t{epoch_of(mark_)} << kEpochShift |
           tickets_.fetch_add(1, std::memory_order_relaxed);
  }
  // Tickets count up from the mark of the opening, which no transaction has.
  void set_mark(uint64_t mark) {
    mark_ = mark;
    tickets_ = (mark & ((uint64_t{1} << kEpochShift) - 1)) + 1;
  }

  // --- objects (store_objects.cc)
  // Makes an object visible: CREATE, and what append(entry) adds, which ends the transaction.
  // `bytes` in the log beside CREATE.
  [[nodiscard]] Result<void> add_object(const ObjectRef& object, size_t bytes, uint64_t more_runs,
                                        const std::function<void(Log::Entry&)>& append)
      VERBENA_REQUIRES(object->lock, catalog_.lock());
  void forget(Object& object) VERBENA_REQUIRES(object.lock, catalog_.lock());
  [[nodiscard]] Result<void> cut(Object& object, uint64_t size) VERBENA_REQUIRES(object.lock);
  // None if it was removed meanwhile.
  [[nodiscard]] std::optional<ObjectInfo> info_of(const Object& object) const;

  // --- chunks (chunk_io.cc)
  [[nodiscard]] Error damage(const Object& object, const Run& run, uint32_t i, const uint8_t* chunk,
                             uint32_t data_crc) const;
  // Copies bytes [from, to) of chunk i of a run, having verified all of it; their CRC.
  [[nodiscard]] Result<uint32_t> copy_out(const Object& object, const Run& run, uint32_t i,
                                          uint32_t from, uint32_t to, uint8_t* out,
                                          bool want_crc) const;
  [[nodiscard]] Result<uint32_t> stored_crc(const Object& object, const Run& run, uint32_t i) const;
  void seal_data(uint8_t* chunk, uint64_t id, const Birth& birth, uint32_t length,
                 uint32_t data_crc) const;
  // Completes a chunk of which [from, to) is given, by what the object has there now.
  [[nodiscard]] Result<void> merge(const Object& object, uint64_t index, uint32_t from, uint32_t to,
                                   ByteSource& source, uint64_t at, uint8_t* chunk, uint64_t id,
                                   uint64_t txn) const VERBENA_REQUIRES_SHARED(object.lock);

  // --- writes (store_write.cc)
  // Chunks that are covered whole: nobody else sees them, so no lock is needed.
  [[nodiscard]] Result<void> fill_whole(const Object& object, const Extents& range,
                                        std::span<const Piece> pieces, ByteSource& source,
                                        uint64_t txn) const;
  // The first and last, completed by what the object has there.
  [[nodiscard]] Result<void> fill_edges(const Object& object, const Extents& range,
                                        std::span<const Piece> pieces, ByteSource& source,
                                        uint64_t txn) const VERBENA_REQUIRES_SHARED(object.lock);
  [[nodiscard]] Result<void> write_range(Object& object, const Extents& range, ByteSource& source,
                                         ClientId client);
  // Log and mapping. After success the pieces are the object's.
  [[nodiscard]] Result<void> install(Object& object, const Extents& range,
                                     std::span<const Piece> pieces, uint64_t txn)
      VERBENA_REQUIRES(object.lock);
  void persist_pieces(std::span<const Piece> pieces);
  // What an operation that does not know so before has left to be flushed.
  void note_dirty(std::span<const Piece> pieces);
  static void append_runs(const Object& object, uint64_t first, std::span<const Piece> pieces,
                          uint64_t txn, std::vector<Run>& runs);
  [[nodiscard]] Result<void> room_for_runs(uint64_t more) const;
  void drop_run(const Run& run) { space_.drop(run.chunk, run.count); }
  // Makes a prepared change of an object's table true.
  void apply(Object& object, SegmentTable::Change& change) VERBENA_REQUIRES(object.lock);

  // --- clones (store_clone.cc)
  struct ClonePlan;
  [[nodiscard]] Result<void> clone_into(const CloneRequest& request, Object& from,
                                        const ObjectRef& to, bool made, ClientId client)
      VERBENA_REQUIRES(from.lock, to->lock);
  [[nodiscard]] Result<void> copy_parts(const ClonePlan& plan, const Object& from, const Object& to,
                                        std::vector<Piece>& pieces, std::vector<Run>& runs)
      VERBENA_REQUIRES_SHARED(from.lock, to.lock);

  // --- objects of few bytes (store_content.cc)
  // Whether an object could do without chunks if it had bytes up to `end`.
  [[nodiscard]] bool may_have_content(const Object& object, uint64_t end) const
      VERBENA_REQUIRES_SHARED(object.lock);
  [[nodiscard]] static Result<void> check_content(const Object& object)
      VERBENA_REQUIRES_SHARED(object.lock);
  [[nodiscard]] Result<void> set_content(Object& object, std::string content, uint32_t crc)
      VERBENA_REQUIRES(object.lock);
  void drop_content(Object& object) noexcept VERBENA_REQUIRES(object.lock);
  // False: it is for chunks.
  [[nodiscard]] Result<bool> write_content(Object& object, const Extents& range, ByteSource& source,
                                           ClientId client);
  [[nodiscard]] Result<bool> cut_content(Object& object, uint64_t size)
      VERBENA_REQUIRES(object.lock);
  // `made`: `to` is not visible yet, and is then.
  [[nodiscard]] Result<bool> clone_content(const CloneRequest& request, uint64_t length,
                                           const Object& from, const ObjectRef& to, bool made)
      VERBENA_REQUIRES(from.lock, to->lock);
  [[nodiscard]] Result<void> spill(Object& object) VERBENA_REQUIRES(object.lock);
  // Its CRC; bytes that the object has.
  [[nodiscard]] Result<uint32_t> copy_content(const Object& object, const Extents& range,
                                              uint8_t* to) const
      VERBENA_REQUIRES_SHARED(object.lock);

  // --- what is behind (store_behind.cc, store_fill.cc)
  [[nodiscard]] static Error is_behind(const Object& object, const Run& run);
  [[nodiscard]] Result<void> check_alone(const Object& object) const
      VERBENA_REQUIRES_SHARED(object.lock);
  // These runs are of the object, and behind as well now.
  [[nodiscard]] Result<void> note_behind(Object& object, PlaceBehind place,
                                         std::span<const Run> runs) VERBENA_REQUIRES(object.lock);
  [[nodiscard]] static PlaceBehind place_renamed(const Object& object, std::string_view name)
      VERBENA_REQUIRES_SHARED(object.lock);
  [[nodiscard]] static PlaceBehind place_replaced(const Object& to, const Object& from)
      VERBENA_REQUIRES_SHARED(to.lock, from.lock);
  [[nodiscard]] static PlaceBehind place_under(const Behind& behind, const std::string& under,
                                               ObjectId under_id, std::string_view name,
                                               ObjectId id, Behind own);
  // Parts [first, end), none of which is only here. How many chunks that gives back.
  [[nodiscard]] Result<uint64_t> evict_range(Object& object, uint64_t first, uint64_t end)
      VERBENA_REQUIRES(object.lock);
  [[nodiscard]] Result<void> fill_range(Object& object, uint64_t first, uint64_t end,
                                        std::span<const Run> all) VERBENA_REQUIRES(object.lock);

  // --- the index on the medium (store_index.cc)
  // It is not as it is behind.
  void note_unflushed(Object& object) VERBENA_REQUIRES(object.lock);
  // It is in the next table, or its DELETE. After its record is in the log; cannot fail.
  void mark_dirty(Object& object) VERBENA_REQUIRES(object.lock);
  // What the next table takes more if this object is in it, with so many more runs and bytes.
  [[nodiscard]] static Log::Growth growth_of(Object& object, uint64_t more_runs,
                                             uint64_t more_bytes = 0)
      VERBENA_REQUIRES_SHARED(object.lock) {
    return {object.counted_in, table_bytes(object), more_runs * kRunInTable + more_bytes};
  }
  [[nodiscard]] static Log::Growth growth_of_cut(Object& object, uint64_t size)
      VERBENA_REQUIRES_SHARED(object.lock) {
    if (size > 0) return growth_of(object, 1);
    return {object.counted_in, table_bytes_empty(object), kRunInTable};
  }
  [[nodiscard]] static Log::Growth growth_of_removed(Object& object) {
    return {object.counted_in, kRemovedInTable, 0};
  }
  // What all objects take.
  [[nodiscard]] uint64_t index_bytes() const;
  void drop_dirty() noexcept;
  // What changed since the last table.
  class Changes;
  [[nodiscard]] Result<void> write_index(bool all, std::optional<uint64_t> new_mark)
      VERBENA_REQUIRES(world_);
  // The same from the log, beside whatever goes on.
  [[nodiscard]] Result<void> fold_log(bool all) VERBENA_REQUIRES(checkpointing_);
  [[nodiscard]] Result<void> write_cut(const Log::Cut& cut, bool all)
      VERBENA_REQUIRES(checkpointing_);
  [[nodiscard]] Result<void> fold(const Log::Cut& cut, TableWriter& to) const;

  // --- objects that are read when they are asked for (store_on_demand.cc)
  [[nodiscard]] bool on_demand() const { return options_.on_demand && options_.read_only; }
  // As a table has it; its runs are such as may be.
  [[nodiscard]] Result<ObjectRef> load(const Tables::Found& found) const;
  // Its blocks are held and its chunks counted.
  [[nodiscard]] Result<void> hold_chunks(const Object& object) const
      VERBENA_REQUIRES_SHARED(object.lock);
  [[nodiscard]] Result<ObjectRef> fetch(ObjectId id) const;
  [[nodiscard]] std::vector<ObjectInfo> list_changed(const std::optional<Cursor>& after,
                                                     size_t limit) const;
  [[nodiscard]] Result<std::vector<ObjectInfo>> list_on_demand(const std::optional<Cursor>& after,
                                                               size_t limit,
                                                               std::vector<ListLoss>* lost) const;

  std::unique_ptr<medium::Backend> backend_;
  Options options_;
  bool persistent_;
  Mutex compacting_;     // before all others
  Mutex checkpointing_;  // then this one, where checkpoints do not wait for the world
  std::atomic<std::thread::id> folded_by_{};  // who has it; pairs with nothing
  mutable RwLock world_;
  mutable Space space_;
  Persist persist_;
  std::unique_ptr<Log> log_;  // none where nothing persists
  mutable Catalog catalog_;   // where objects are read on demand: those that were, and the changed
  std::unordered_set<uint64_t> hidden_;  // there: objects of tables that the log changed or removed
  // And those that are lost, by what the log calls them; in lists, too.
  std::map<ObjectId, Error> damaged_ids_;
  std::map<std::string, Error, std::less<>> damaged_names_;
  RangeRegistry ranges_;
  uint32_t tag_ = 0;
  uint64_t mark_ = 0;
  std::atomic<uint64_t> tickets_{1};
  std::atomic<uint64_t> next_number_{1};
  std::atomic<uint64_t> mappings_{0};
  std::atomic<uint64_t> object_bytes_{0};  // that objects take in tables, without runs
  std::atomic<uint64_t> folded_{0};        // checkpoints from the log that were written
  std::atomic<uint64_t> folded_all_{0};    // and those that merged all tables
  bool folds_log_ = false;                 // and there is no list of what changed
  std::atomic<uint64_t> dirty_{0};         // bytes since the last flush
  Tables tables_{[this](uint64_t chunk) { return space_.memory(chunk); }};
  ShortMutex unflushed_mutex_;
  std::vector<ObjectId> unflushed_ VERBENA_GUARDED_BY(unflushed_mutex_);  // each once
  std::atomic<Object*> dirty_objects_{nullptr};  // a list; each has a reference
  Superblock root_;                              // as it was opened; the log has the current one
  std::array<RootCopy, 2> root_copies_{};        // likewise
  uint64_t durable_when_opened_ = 0;             // log chunks up to this one must be there
  bool closed_ = false;
};

template <typename Op>
auto StoreImpl::attempt(uint64_t dirty_bytes, Op op, int rounds) -> decltype(op()) {
  if (const auto may = writable(); !may) return fail(may.error());
  for (int round = 0;; ++round) {
    auto result = [&]() -> decltype(op()) {
      try {
        const ReadLock world(world_);
        return op();
      } catch (const std::bad_alloc&) {
        return fail(Error{Code::kNoMemory, "out of memory", {}});  // short: needs no memory itself
      }
    }();
    if (result) {
      if (const auto settled = settle(dirty_bytes); !settled) return fail(settled.error());
      return result;
    }
    const Code why = result.error().code;
    if (round == rounds || !make_room(why)) {
      if (why == Code::kLogFull) result.error().code = Code::kFull;
      return result;
    }
  }
}

}  // namespace verbena::store
