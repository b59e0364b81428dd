// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <ctime>

#include <fmt/format.h>

#include "store/mark.h"
#include "store/store_impl.h"

namespace verbena::store {
namespace {

constexpr uint64_t kMaxTickets = (uint64_t{1} << kEpochShift) - (uint64_t{1} << 20);

uint64_t coarse_wall_clock() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

StoreImpl::StoreImpl(std::unique_ptr<medium::Backend> backend, Options options,
                     uint32_t chunks_per_block)
    : backend_(std::move(backend)),
      options_(std::move(options)),
      persistent_(backend_->properties().persistent),
      space_(*backend_, chunks_per_block, persistent_),
      persist_(*backend_, options_.omit) {
  if (!options_.now_ns) options_.now_ns = coarse_wall_clock;
  if (!options_.random) options_.random = kernel_random;
}

StoreImpl::~StoreImpl() {
  if (!closed_) static_cast<void>(close());
  drop_dirty();
}

Result<void> StoreImpl::writable() const {
  if (options_.read_only) {
    return fail(Error{Code::kReadOnly, "the store is open read-only", {}});
  }
  // Far from 2^40, so that no two operations at once can pass it.
  if (tickets_.load(std::memory_order_relaxed) >= kMaxTickets) {
    return fail(
        Error{Code::kReadOnly,
              "the limit of transactions per open is reached; close the store and open it again",
              {}});
  }
  if (persist_.failed()) {
    return fail(Error{Code::kReadOnly,
                      "the store is read-only because its medium failed; check the disk, then open "
                      "the store again",
                      {}});
  }
  return {};
}

// Whether it is worth while to try again.
Result<void> StoreImpl::make_room(Code why) {
  const Error no{why, {}, {}};
  if (!log_) return fail(no);
  if (why == Code::kLogFull) {
    const auto all = checkpoint(true);
    // Where old and new tables do not fit together, what is kept free is room for what changed.
    return all || all.error().code != Code::kFull ? all : checkpoint();
  }
  if (why != Code::kFull || !space_.any_pending()) return fail(no);
  // What is pending is free when that is on record: two flushes, or a checkpoint.
  for (int i = 0; i < 2; ++i) {
    if (const auto done = flush(); !done) return done;
  }
  return space_.any_pending() ? checkpoint() : Result<void>{};
}

// After an operation that succeeded.
Result<void> StoreImpl::settle(uint64_t dirty_bytes) {
  if (!log_) return {};
  const uint64_t dirty = dirty_.fetch_add(dirty_bytes, std::memory_order_relaxed) + dirty_bytes;
  if (options_.durability == Durability::kEach) {
    if (const auto done = flush(); !done) return done;
  }
  const bool due = dirty >= options_.flush_bytes || log_->wants_checkpoint();
  if (!options_.on_due) return due ? tend() : Result<void>{};
  if (!due && !space_.low() && !log_->wants_room()) return {};
  options_.on_due();
  // Checkpoints are for its thread: who goes on beside one waits for a flush at most.
  return dirty_.load(std::memory_order_relaxed) >= kMaxDirty * options_.flush_bytes
             ? flush()
             : Result<void>{};
}

Result<void> StoreImpl::grow_ahead() try {
  space_.grow();
  return log_->grow();
} catch (const std::bad_alloc&) {
  return {};  // whoever needs the room asks for it
}

Result<void> StoreImpl::tend() {
  if (!log_) return {};
  if (options_.on_due) {
    if (const auto done = grow_ahead(); !done) return done;
  }
  if (dirty_.load(std::memory_order_relaxed) >= options_.flush_bytes) {
    if (const auto done = flush(); !done) return done;
  }
  if (!log_->wants_checkpoint()) return {};
  const auto done = checkpoint();
  // Without room or memory for it the log goes on as long as it can.
  const bool later =
      !done && (done.error().code == Code::kFull || done.error().code == Code::kNoMemory);
  return later ? Result<void>{} : done;
}

bool StoreImpl::would_wait() const {
  return log_ && (options_.durability == Durability::kEach ||
                  dirty_.load(std::memory_order_relaxed) >= kMaxDirty * options_.flush_bytes);
}

Result<void> StoreImpl::format() {
  do {
    const auto tag = draw_random(options_.random);
    if (!tag) return fail(tag.error());
    tag_ = static_cast<uint32_t>(*tag);
  } while (tag_ == 0);
  const auto mark = draw_mark(options_.random, 1);
  if (!mark) return fail(mark.error());
  set_mark(*mark);
  if (!persistent_) return {};
  LogSpace log_space(space_);
  if (const auto done = log_space.claim(0, 1); !done) return done;
  root_.store = tag_;
  root_.chunks_per_block = space_.chunks_per_block();
  root_.media = options_.media;
  if (options_.cache) root_.version = kCacheVersion;
  root_.created_ns = now();
  log_ = std::make_unique<Log>(space_, persist_, std::move(log_space), root_, 1);
  return log_->start(*mark);
}

Result<void> StoreImpl::flush() {
  if (!log_) return {};
  if (const auto may = writable(); !may) return may;
  dirty_.store(0, std::memory_order_relaxed);
  return log_->flush();
}

Result<void> StoreImpl::checkpoint(bool all) {
  if (!log_) return {};
  if (const auto may = writable(); !may) return may;
  try {
    if (folds_log_) {
      // Options::while_folding needs room: there is none before this one is done.
      if (folded_by_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
        return fail(Error{Code::kFull, "a checkpoint is being written", {}});
      }
      std::atomic<uint64_t>& folded = all ? folded_all_ : folded_;
      const uint64_t before = folded.load();
      const MutexLock one_at_a_time(checkpointing_);
      // The second one that ended since was begun since: nobody waits for more than that.
      if (folded.load() >= before + 2) return {};
      folded_by_.store(std::this_thread::get_id(), std::memory_order_relaxed);
      auto done = fold_log(all);
      folded_by_.store({}, std::memory_order_relaxed);
      if (done) ++folded_;
      if (done && all) ++folded_all_;
      return done;
    }
    const WriteLock world(world_);
    return write_index(all, std::nullopt);
  } catch (const std::bad_alloc&) {
    return fail(Error{Code::kNoMemory, "out of memory", {}});
  }
}

Result<void> StoreImpl::close() {
  closed_ = true;
  if (!log_ || options_.read_only) return {};
  auto closed = mark_closed();
  if (persist_.failed()) log_->retract();
  return closed;
}

Result<void> StoreImpl::mark_closed() {
  if (const auto may = writable(); !may) return may;
  // Whoever reads it next has to read the log. Without room for a table that is all it costs.
  if (log_->is_long()) {
    const auto done = checkpoint();
    if (!done && done.error().code != Code::kFull && done.error().code != Code::kNoMemory) {
      return done;
    }
  }
  return log_->close();
}

SpaceInfo StoreImpl::space_info() const {
  const Space::Numbers numbers = space_.numbers();
  SpaceInfo info;
  info.capacity = numbers.capacity;
  info.used = numbers.used;
  info.pending = numbers.pending;
  info.free = numbers.capacity - numbers.used - numbers.pending;
  info.log = numbers.log;
  info.mappings = mappings_.load(std::memory_order_relaxed);
  info.index_bytes = catalog_.bytes();
  return info;
}

StoreInfo StoreImpl::info() const {
  const Superblock root = log_ ? log_->root() : root_;
  return {tag_,         space_.chunks_per_block(), root.media,
          root.epoch(), root.generation,           root.created_ns};
}

namespace {

Result<uint32_t> chunks_per_block(const medium::Backend& backend) {
  const size_t chunks = backend.block_bytes() / kChunkBytes;
  if (backend.block_bytes() % kChunkBytes == 0 && std::has_single_bit(chunks) && chunks >= 16 &&
      chunks <= kMaxRunChunks) {
    return static_cast<uint32_t>(chunks);
  }
  return fail(
      Error{Code::kInvalid,
            fmt::format(
                "invalid block size {}: a block has 16 to {} chunks of 4096 bytes, a power of two",
                backend.block_bytes(), kMaxRunChunks),
            {}});
}

template <typename Begin>
Result<std::unique_ptr<StoreImpl>> begin_with(std::unique_ptr<medium::Backend> backend,
                                              Options options, Begin begin) {
  const auto chunks = chunks_per_block(*backend);
  if (!chunks) return fail(chunks.error());
  try {
    auto impl = std::make_unique<StoreImpl>(std::move(backend), std::move(options), *chunks);
    if (const auto done = begin(*impl); !done) {
      impl->abandon();
      return fail(done.error());
    }
    impl->begin_folding();
    return impl;
  } catch (const std::bad_alloc&) {
    return fail(Error{Code::kNoMemory, "out of memory", {}});
  }
}

}  // namespace

Result<std::unique_ptr<Store>> Store::create(std::unique_ptr<medium::Backend> backend,
                                             Options options, RandomSource& random) {
  options.random = [&random] { return random.next(); };
  return create(std::move(backend), std::move(options));
}

Result<std::unique_ptr<Store>> Store::create(std::unique_ptr<medium::Backend> backend,
                                             Options options) {
  options.read_only = false;
  auto impl = begin_with(std::move(backend), std::move(options),
                         [](StoreImpl& store) { return store.format(); });
  if (!impl) return fail(impl.error());
  return std::unique_ptr<Store>(new Store(std::move(*impl)));
}

Result<std::unique_ptr<Store>> Store::open(std::unique_ptr<medium::Backend> backend,
                                           Options options, OpenReport* report) {
  OpenReport unwanted;
  auto impl = begin_with(std::move(backend), std::move(options), [&](StoreImpl& store) {
    return store.recover(report == nullptr ? unwanted : *report);
  });
  if (!impl) return fail(impl.error());
  return std::unique_ptr<Store>(new Store(std::move(*impl)));
}

namespace {

// Memory that runs out is an error like others, wherever it does.
template <typename Op>
auto guarded(Op op) -> decltype(op()) {
  try {
    return op();
  } catch (const std::bad_alloc&) {
    return fail(Error{Code::kNoMemory, "out of memory", {}});
  }
}

}  // namespace

Store::Store(std::unique_ptr<StoreImpl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;
Result<void> Store::close() {
  return guarded([&] { return impl_->close(); });
}

Result<void> Store::create_object(ObjectId id, std::string_view name) {
  return guarded([&] { return impl_->create_object(id, name); });
}
Result<ObjectId> Store::find(std::string_view name) const {
  return guarded([&] { return impl_->find(name); });
}
Result<void> Store::remove(ObjectId id) {
  return guarded([&] { return impl_->remove(id); });
}
Result<void> Store::rename(ObjectId id, std::string_view name) {
  return guarded([&] { return impl_->rename(id, name); });
}
Result<void> Store::replace(ObjectId id, ObjectId by, ClientId client) {
  return guarded([&] { return impl_->replace(id, by, client); });
}
Result<void> Store::truncate(ObjectId id, uint64_t size, ClientId client) {
  return guarded([&] { return impl_->truncate(id, size, client); });
}
Result<ObjectInfo> Store::stat(ObjectId id) const {
  return guarded([&] { return impl_->stat(id); });
}
Result<std::vector<ObjectInfo>> Store::list(const std::optional<Cursor>& after, size_t limit,
                                            std::vector<ListLoss>* lost) const {
  return guarded([&] { return impl_->list(after, limit, lost); });
}
Result<std::vector<SegmentInfo>> Store::segments(ObjectId id, uint64_t offset, size_t limit) const {
  return guarded([&] { return impl_->segments(id, offset, limit); });
}
Result<uint32_t> Store::stored_crc(ObjectId id, uint64_t offset, uint64_t length) const {
  const auto range = prepare_read(id, offset, length);
  if (!range) return fail(range.error());
  if (range->length() != length) {
    return fail(Error{Code::kInvalid, "the range is past the end of the object", {}});
  }
  return range->crc();
}
Result<void> Store::write(ObjectId id, uint64_t offset, std::span<const uint8_t> bytes,
                          ClientId client, std::optional<uint32_t> crc) {
  return guarded([&] { return impl_->write(id, offset, bytes, client, crc); });
}
Result<size_t> Store::read(ObjectId id, uint64_t offset, std::span<uint8_t> bytes,
                           uint32_t* crc) const {
  return guarded([&] { return impl_->read(id, offset, bytes, crc); });
}
Result<void> Store::clone(const CloneRequest& request, ClientId client) {
  return guarded([&] { return impl_->clone(request, client); });
}
Result<PreparedWrite> Store::prepare_write(ObjectId id, uint64_t offset, uint64_t length,
                                           ClientId client) {
  return guarded([&] { return impl_->prepare_write(id, offset, length, client); });
}
Result<PreparedRead> Store::prepare_read(ObjectId id, uint64_t offset, uint64_t length) const {
  return guarded([&] { return impl_->prepare_read(id, offset, length); });
}
RangeRegistry& Store::ranges() { return impl_->ranges(); }
Result<PreparedFlush> Store::prepare_flush(ObjectId id) const {
  return guarded([&] { return impl_->prepare_flush(id); });
}
Result<uint64_t> Store::begin_flush(ObjectId id, uint64_t fresh) {
  return guarded([&] { return impl_->begin_flush(id, fresh); });
}
Result<void> Store::end_flush(const PreparedFlush& flushed, uint64_t version) {
  return guarded([&] { return impl_->end_flush(flushed, version); });
}
Result<void> Store::found_behind(ObjectId id, uint64_t version) {
  return guarded([&] { return impl_->found_behind(id, version); });
}
Result<void> Store::detach(ObjectId id) {
  return guarded([&] { return impl_->detach(id); });
}
Result<void> Store::check_here(ObjectId id) const {
  return guarded([&] { return impl_->check_here(id); });
}
Result<void> Store::move_behind(ObjectId id, const std::string& name, ObjectId under,
                                uint64_t version) {
  return guarded([&] { return impl_->move_behind(id, name, under, version); });
}
Result<void> Store::replaces_behind(ObjectId id, uint64_t version) {
  return guarded([&] { return impl_->replaces_behind(id, version); });
}
Result<PlaceBehind> Store::behind(ObjectId id) const {
  return guarded([&] { return impl_->behind(id); });
}
std::vector<ObjectId> Store::take_unflushed() { return impl_->take_unflushed(); }
Result<uint64_t> Store::evict(ObjectId id, uint64_t first, uint64_t count) {
  return guarded([&] { return impl_->evict(id, first, count); });
}
Result<PreparedFill> Store::prepare_fill(ObjectId id, uint64_t first, uint64_t count) {
  return guarded([&] { return impl_->prepare_fill(id, first, count); });
}
Result<void> Store::adopt(ObjectId id, std::string_view name, const AdoptedState& there) {
  return guarded([&] { return impl_->adopt(id, name, there); });
}
Result<void> Store::adopt_again(ObjectId id, const AdoptedState& there) {
  return guarded([&] { return impl_->adopt_again(id, there); });
}
Result<void> Store::flush() {
  return guarded([&] { return impl_->flush(); });
}
Result<void> Store::checkpoint() {
  return guarded([&] { return impl_->checkpoint(); });
}
Result<void> Store::tend() {
  return guarded([&] { return impl_->tend(); });
}
bool Store::would_wait() const { return impl_->would_wait(); }
SpaceInfo Store::space() const { return impl_->space_info(); }
medium::Properties Store::medium_properties() const { return impl_->backend().properties(); }
StoreInfo Store::info() const { return impl_->info(); }
Result<CompactReport> Store::compact(const Progress& progress, uint32_t slack) {
  return guarded([&] { return impl_->compact(progress, slack); });
}
Result<ScrubReport> Store::scrub(const Progress& progress) {
  return guarded([&] { return impl_->scrub(progress); });
}

SpareSpace Store::spare_space(uint32_t slack) const { return impl_->spare_space(slack); }

}  // namespace verbena::store
