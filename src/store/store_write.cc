// SPDX-License-Identifier: Apache-2.0
// Writes: fresh chunks are filled, a record goes into the log, the mapping moves.
#include <cstring>

#include "base/block_sums.h"
#include "store/crc_parts.h"
#include "store/store_impl.h"

namespace verbena::store {
namespace {

class SpanSource final : public ByteSource {
 public:
  SpanSource(std::span<const uint8_t> bytes, bool checksums)
      : bytes_(bytes), checksums_(checksums) {}
  Result<uint32_t> fetch(uint8_t* to, uint64_t at, size_t n) override {
    if (checksums_) return crc_copy(to, bytes_.subspan(at, n));
    std::memcpy(to, bytes_.data() + at, n);
    return 0;
  }

 private:
  std::span<const uint8_t> bytes_;
  bool checksums_;
};

// What a write leaves to be verified after a crash: whole chunks, however few of their bytes it
// has.
uint64_t dirty_bytes(const Extents& range) {
  return range.length == 0 ? 0 : (range.end() - range.first()) * kDataBytes;
}

// The same, from a sender who says what their CRC is: those of the parts are kept until all are
// there, so that the bytes are passed over once.
class SentSource final : public ByteSource {
 public:
  SentSource(std::span<const uint8_t> bytes, const Extents& range, uint32_t crc)
      : bytes_(bytes), range_(range), crc_(crc), parts_(Scratch::mine().crcs) {
    parts_.resize(range.end() - range.first());
  }
  Result<uint32_t> fetch(uint8_t* to, uint64_t at, size_t n) override {
    const uint32_t crc = crc_copy(to, bytes_.subspan(at, n));
    parts_[(range_.offset + at) / kDataBytes - range_.first()] = crc;
    return crc;
  }
  Result<void> verify(ObjectId object) const override {
    uint32_t crc = crc_of_zeros(0);
    for (uint64_t index = range_.first(); index < range_.end(); ++index) {
      crc = crc_join(crc, parts_[index - range_.first()], range_.to(index) - range_.from(index));
    }
    if (crc == crc_) return {};
    return fail(StoreImpl::mismatch(object, range_, crc_, crc));
  }

 private:
  std::span<const uint8_t> bytes_;
  Extents range_;
  uint32_t crc_;
  std::vector<uint32_t>& parts_;
};

}  // namespace

Scratch& Scratch::mine() {
  thread_local Scratch scratch;
  return scratch;
}

Result<void> StoreImpl::fill_whole(const Object& object, const Extents& range,
                                   std::span<const Piece> pieces, ByteSource& source,
                                   uint64_t txn) const {
  uint64_t index = range.first();
  for (const Piece& piece : pieces) {
    // Free chunks of a block that was there before share granules with others that are in use.
    if (const auto loaded = space_.load(piece.chunk, piece.count); !loaded) return loaded;
    uint8_t* chunk = space_.memory(piece.chunk);
    for (uint32_t i = 0; i < piece.count; ++i, ++index, chunk += kChunkBytes) {
      if (!range.whole(index)) continue;
      const auto crc = source.fetch(chunk, index * kDataBytes - range.offset, kDataBytes);
      if (!crc) return fail(crc.error());
      seal_data(chunk, piece.chunk + i, {object.number, index, txn}, kDataBytes, *crc);
    }
  }
  return {};
}

Result<void> StoreImpl::fill_edges(const Object& object, const Extents& range,
                                   std::span<const Piece> pieces, ByteSource& source,
                                   uint64_t txn) const {
  const auto complete = [&](uint64_t index, uint64_t chunk)
                            VERBENA_REQUIRES_SHARED(object.lock) -> Result<void> {
    if (range.whole(index)) return {};
    const uint64_t at = std::max(index * kDataBytes, range.offset) - range.offset;
    return merge(object, index, range.from(index), range.to(index), source, at,
                 space_.memory(chunk), chunk, txn);
  };
  if (const auto done = complete(range.first(), pieces.front().chunk); !done) return done;
  if (range.end() - 1 == range.first()) return {};
  return complete(range.end() - 1, pieces.back().chunk + pieces.back().count - 1);
}

void StoreImpl::persist_pieces(std::span<const Piece> pieces) {
  if (!persistent_) return;
  for (const Piece& piece : pieces) {
    persist_.flush(PersistPoint::kData, space_.memory(piece.chunk),
                   size_t{piece.count} * kChunkBytes);
  }
}

void StoreImpl::note_dirty(std::span<const Piece> pieces) {
  uint64_t chunks = 0;
  for (const Piece& piece : pieces) chunks += piece.count;
  dirty_.fetch_add(chunks * kDataBytes, std::memory_order_relaxed);
}

void StoreImpl::append_runs(const Object& object, uint64_t first, std::span<const Piece> pieces,
                            uint64_t txn, std::vector<Run>& runs) {
  runs.reserve(runs.size() + pieces.size());
  for (const Piece& piece : pieces) {
    runs.push_back({first, piece.chunk, piece.count, Held::kHere, {object.number, first, txn}});
    first += piece.count;
  }
}

Result<void> StoreImpl::room_for_runs(uint64_t more) const {
  if (mappings_.load(std::memory_order_relaxed) + more <= options_.max_mappings) return {};
  return fail(Error{Code::kFull,
                    "the index has the maximum number of segments; remove objects, or open the "
                    "store with a higher max_mappings",
                    {}});
}

void StoreImpl::apply(Object& object, SegmentTable::Change& change) {
  const uint64_t before = object.table.runs();
  object.table.apply(change, [&](const Run& run) { drop_run(run); });
  mappings_.fetch_add(object.table.runs() - before, std::memory_order_relaxed);
}

Result<void> StoreImpl::install(Object& object, const Extents& range, std::span<const Piece> pieces,
                                uint64_t txn) {
  Scratch& scratch = Scratch::mine();
  scratch.runs.clear();
  append_runs(object, range.first(), pieces, txn, scratch.runs);
  const uint64_t growth = SegmentTable::growth(scratch.runs.size());
  if (const auto room = room_for_runs(growth); !room) return room;
  object.table.prepare(range.first(), range.end(), scratch.runs, scratch.change);
  persist_pieces(pieces);
  const uint64_t size = std::max(object.size, range.offset + range.length);
  const uint64_t time = now();
  if (log_) {
    auto entry = log_->begin(scratch.runs.size() * kRunBytes + 2 * kMaxSmallBytes,
                             {growth_of(object, growth)});
    if (!entry) return fail(entry.error());
    (*entry)->map(object.number, size, scratch.runs);
    entry->commit(txn, time);
  }
  apply(object, scratch.change);
  object.size = size;
  object.modified_ns = time;
  mark_dirty(object);
  return {};
}

Result<void> StoreImpl::write_range(Object& object, const Extents& range, ByteSource& source,
                                    ClientId client) {
  auto& pieces = Scratch::mine().pieces;
  pieces.clear();
  Fresh fresh(space_, pieces);
  if (const auto got = space_.allocate(range.end() - range.first(), pieces); !got) return got;
  const uint64_t txn = next_txn();
  if (const auto done = fill_whole(object, range, pieces, source, txn); !done) return done;
  const WriteLock lock(object.lock);
  if (object.removed) return fail(no_such(object.id));
  if (const auto may = may_write(object.id, range.offset, range.length, client); !may) return may;
  if (const auto done = spill(object); !done) return done;
  if (const auto done = fill_edges(object, range, pieces, source, txn); !done) return done;
  if (const auto done = source.verify(object.id); !done) return done;
  if (const auto done = install(object, range, pieces, txn); !done) return done;
  fresh.keep();
  return {};
}

Result<void> StoreImpl::write(ObjectId id, uint64_t offset, std::span<const uint8_t> bytes,
                              ClientId client, std::optional<uint32_t> crc) {
  if (const auto fine = check_range(offset, bytes.size()); !fine) return fine;
  const Extents range{offset, bytes.size()};
  const auto write_from = [&](Object& object, ByteSource& source) -> Result<void> {
    if (offset + bytes.size() <= kMaxContentBytes) {
      const auto done = write_content(object, range, source, client);
      if (!done) return fail(done.error());
      if (*done) return {};
    }
    return write_range(object, range, source, client);
  };
  return attempt(dirty_bytes(range), [&]() -> Result<void> {
    const auto object = find(id);
    if (!object) return fail(object.error());
    if (bytes.empty()) {
      const uint32_t none = crc_of_zeros(0);
      if (crc && *crc != none) return fail(mismatch(id, range, *crc, none));
      return {};
    }
    if (crc && options_.checksums) {
      SentSource source(bytes, range, *crc);
      return write_from(**object, source);
    }
    SpanSource source(bytes, options_.checksums);
    return write_from(**object, source);
  });
}

// --- from a device

struct PreparedWrite::State {
  StoreImpl* store = nullptr;
  ObjectRef object;
  Extents range;
  ClientId client = 0;
  uint64_t txn = 0;
  std::vector<Piece> pieces;
  std::vector<Scatter> scatter;
  std::vector<uint32_t> crcs;  // of what came into each chunk
  bool committed = false;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (committed) return;
    for (const Piece& piece : pieces) store->space().give_back(piece);
  }
};

PreparedWrite::PreparedWrite() = default;
PreparedWrite::PreparedWrite(PreparedWrite&&) noexcept = default;
PreparedWrite& PreparedWrite::operator=(PreparedWrite&&) noexcept = default;
PreparedWrite::~PreparedWrite() = default;
std::span<const Scatter> PreparedWrite::pieces() const {
  return state_ ? std::span<const Scatter>(state_->scatter) : std::span<const Scatter>();
}

Result<void> PreparedWrite::commit(const Crcs& crcs) {
  if (!state_ || state_->committed) {
    return fail(Error{Code::kInvalid, "the write is already committed", {}});
  }
  return state_->store->commit(*state_, crcs);
}

namespace {

// The bytes are there already.
class InPlaceSource final : public ByteSource {
 public:
  InPlaceSource(const Extents& range, std::span<const uint32_t> crcs)
      : range_(range), crcs_(crcs) {}
  Result<uint32_t> fetch(uint8_t* /*to*/, uint64_t at, size_t /*n*/) override {
    return crcs_[(range_.offset + at) / kDataBytes - range_.first()];
  }

 private:
  const Extents& range_;
  std::span<const uint32_t> crcs_;
};

}  // namespace

Result<PreparedWrite> StoreImpl::prepare_write(ObjectId id, uint64_t offset, uint64_t length,
                                               ClientId client) {
  if (const auto fine = check_range(offset, length); !fine) return fail(fine.error());
  if (length == 0) return fail(Error{Code::kInvalid, "write of 0 bytes", {}});
  return attempt(0, [&]() -> Result<PreparedWrite> {
    auto object = find(id);
    if (!object) return fail(object.error());
    if (const auto may = may_write(id, offset, length, client); !may) return fail(may.error());
    PreparedWrite prepared;
    prepared.state_ = std::make_unique<PreparedWrite::State>();
    auto& state = *prepared.state_;
    state.store = this;
    state.range = {offset, length};
    state.client = client;
    state.txn = next_txn();
    state.object = std::move(*object);
    // First the chunks, for a range that does not fit is not worth the memory of its CRCs.
    const uint64_t chunks = state.range.end() - state.range.first();
    if (const auto got = space_.allocate(chunks, state.pieces); !got) return fail(got.error());
    state.crcs.resize(chunks);
    uint64_t index = state.range.first();
    for (const Piece& piece : state.pieces) {
      if (const auto loaded = space_.load(piece.chunk, piece.count); !loaded) {
        return fail(loaded.error());
      }
      for (uint32_t i = 0; i < piece.count; ++i, ++index) {
        uint8_t* const chunk = space_.memory(piece.chunk + i);
        if (i > 0 && state.range.whole(index) && state.range.whole(index - 1)) {
          ++state.scatter.back().count;
          continue;
        }
        const uint32_t from = state.range.from(index);
        state.scatter.push_back(
            {chunk + from, state.range.to(index) - from, static_cast<uint32_t>(kChunkBytes), 1});
      }
    }
    return prepared;
  });
}

Result<void> StoreImpl::commit(PreparedWrite::State& state, const PreparedWrite::Crcs& crcs) {
  // What arrived, chunk by chunk, and all together.
  uint32_t message = crc_of_zeros(0);
  uint64_t index = state.range.first();
  for (const Piece& piece : state.pieces) {
    for (uint32_t i = 0; i < piece.count; ++i, ++index) {
      const uint8_t* const chunk = space_.memory(piece.chunk + i);
      const uint32_t from = state.range.from(index);
      const uint32_t bytes = state.range.to(index) - from;
      uint32_t& crc = state.crcs[index - state.range.first()];
      crc = crcs.stored_in_chunks && state.range.whole(index) ? data_crc_of(chunk)
                                                              : crc_of({chunk + from, bytes});
      if (crcs.message) message = crc_join(message, crc, bytes);
    }
  }
  if (crcs.message && *crcs.message != message) {
    return fail(mismatch(state.object->id, state.range, *crcs.message, message));
  }
  return attempt(dirty_bytes(state.range), [&]() -> Result<void> {
    InPlaceSource source(state.range, state.crcs);
    Object& object = *state.object;
    if (const auto done = fill_whole(object, state.range, state.pieces, source, state.txn); !done) {
      return done;
    }
    const WriteLock lock(object.lock);
    if (object.removed) return fail(no_such(object.id));
    if (const auto may = may_write(object.id, state.range.offset, state.range.length, state.client);
        !may) {
      return may;
    }
    if (const auto done = spill(object); !done) return done;
    if (const auto done = fill_edges(object, state.range, state.pieces, source, state.txn); !done) {
      return done;
    }
    if (const auto done = install(object, state.range, state.pieces, state.txn); !done) {
      return done;
    }
    state.committed = true;
    return {};
  });
}

}  // namespace verbena::store
