// SPDX-License-Identifier: Apache-2.0
// Clones: whole chunks of the range are shared, what lies across chunks is copied.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "store/crc_parts.h"
#include "store/store_impl.h"

namespace verbena::store {
namespace {

Error invalid(std::string what) { return {Code::kInvalid, std::move(what), {}}; }

}  // namespace

// What a clone does to the chunks of `to`: at most one part copied, some shared, one more copied.
struct StoreImpl::ClonePlan {
  uint64_t from_offset = 0;
  uint64_t to_offset = 0;
  uint64_t length = 0;
  uint64_t first = 0;  // chunks of `to`
  uint64_t end = 0;
  uint64_t shared_from = 0;  // chunks of `from`
  uint64_t shared_to = 0;    // and where they go in `to`
  uint64_t shared = 0;
  std::array<Extents, 2> copied;  // in bytes of `to`, before and behind the shared; empty: none

  ClonePlan(const CloneRequest& request, uint64_t its_length, const Object& from, const Object& to)
      : from_offset(request.from_offset), to_offset(request.to_offset), length(its_length) {
    const Extents range{to_offset, length};
    const uint64_t to_end = to_offset + length;
    first = range.first();
    end = length == 0 ? first : range.end();  // of no bytes: no chunks
    copied[0] = range;
    if (length == 0 || from_offset % kDataBytes != to_offset % kDataBytes) return;
    shared_to = (to_offset + kDataBytes - 1) / kDataBytes;
    // The last chunk of `from`, with zeros behind its end, is one of `to` if that ends there, too.
    const bool to_the_end = from_offset + length == from.size && to_end >= to.size;
    const uint64_t shared_end = to_the_end ? end : to_end / kDataBytes;
    if (shared_end <= shared_to) return;
    shared = shared_end - shared_to;
    shared_from = shared_to + from_offset / kDataBytes - to_offset / kDataBytes;
    copied[0] = {to_offset, shared_to * kDataBytes - to_offset};
    const uint64_t behind = std::min(shared_end * kDataBytes, to_end);
    copied[1] = {behind, to_end - behind};
  }
};

namespace {

// The bytes of another object, verified as they are copied.
template <typename Copy>
class ObjectSource final : public ByteSource {
 public:
  ObjectSource(const Object& from, uint64_t offset, Copy copy)
      : from_(from), offset_(offset), copy_(copy) {}
  Result<uint32_t> fetch(uint8_t* to, uint64_t at, size_t n) override {
    from_.lock.assert_shared();  // clone_into() has it
    const Extents range{offset_ + at, n};
    uint32_t crc = crc_of_zeros(0);
    for (uint64_t index = range.first(); index < range.end(); ++index) {
      const uint32_t bytes = range.to(index) - range.from(index);
      const Run* const run = from_.table.find(index);
      if (run == nullptr || run->index > index) {
        std::memset(to, 0, bytes);
        crc = crc_zeros_after(crc, bytes);
      } else {
        const auto part = copy_(*run, static_cast<uint32_t>(index - run->index), range.from(index),
                                range.to(index), to);
        if (!part) return part;
        crc = crc_join(crc, *part, bytes);
      }
      to += bytes;
    }
    return crc;
  }

 private:
  const Object& from_;
  uint64_t offset_;
  Copy copy_;
};

}  // namespace

// Fills fresh chunks for what cannot be shared, and lists all runs that `to` gets, in order.
Result<void> StoreImpl::copy_parts(const ClonePlan& plan, const Object& from, const Object& to,
                                   std::vector<Piece>& pieces, std::vector<Run>& runs) {
  const uint64_t txn = next_txn();
  const auto copy = [&](const Run& run, uint32_t i, uint32_t begin, uint32_t end, uint8_t* out) {
    return copy_out(from, run, i, begin, end, out, true);
  };
  for (size_t part = 0; part < 2; ++part) {
    const Extents& range = plan.copied[part];
    if (range.length > 0) {
      const size_t before = pieces.size();
      if (const auto got = space_.allocate(range.end() - range.first(), pieces); !got) return got;
      const auto mine = std::span<const Piece>(pieces).subspan(before);
      ObjectSource source(from, plan.from_offset + (range.offset - plan.to_offset), copy);
      if (const auto done = fill_whole(to, range, mine, source, txn); !done) return done;
      if (const auto done = fill_edges(to, range, mine, source, txn); !done) return done;
      append_runs(to, range.first(), mine, txn, runs);
    }
    if (part == 1) break;
    Result<void> here;
    from.table.for_all(plan.shared_from, plan.shared_from + plan.shared, [&](const Run& run) {
      if (!run.has_chunks()) here = fail(is_behind(from, run));
      runs.push_back(run);
      runs.back().index = run.index - plan.shared_from + plan.shared_to;
      runs.back().held = Held::kHere;
      return here.has_value();
    });
    if (!here) return here;
  }
  return {};
}

// `made`: `to` is not visible yet.
Result<void> StoreImpl::clone_into(const CloneRequest& request, Object& from, const ObjectRef& to,
                                   bool made, ClientId client) {
  if (request.from_offset > from.size || request.length > from.size - request.from_offset) {
    return fail(invalid(
        fmt::format("invalid range: {} bytes at offset {} of object {}:{}, which has {} "
                    "bytes",
                    request.length, request.from_offset, from.id.high, from.id.low, from.size)));
  }
  const uint64_t length = request.length == 0 ? from.size - request.from_offset : request.length;
  if (length == 0 && !made) return {};
  if (const auto fine = check_range(request.to_offset, length); !fine) return fine;
  if (const auto may = may_write(to->id, request.to_offset, length, client); !may) return may;
  if (&from == to.get() && request.from_offset < request.to_offset + length &&
      request.to_offset < request.from_offset + length) {
    return fail(invalid("source and destination ranges of the clone overlap"));
  }
  if (const auto done = clone_content(request, length, from, to, made); !done || *done) {
    return done ? Result<void>{} : fail(done.error());
  }
  // What is shared are chunks.
  if (length > 0) {
    if (const auto done = spill(from); !done) return done;
    if (const auto done = spill(*to); !done) return done;
  }
  const ClonePlan plan(request, length, from, *to);
  std::vector<Piece> pieces;
  std::vector<Run> runs;
  Fresh fresh(space_, pieces);
  if (const auto done = copy_parts(plan, from, *to, pieces, runs); !done) return done;
  const uint64_t growth = SegmentTable::growth(runs.size());
  if (const auto room = room_for_runs(growth); !room) return room;
  // Chunks shared within one object lie apart in one table.
  SegmentTable::Change change;
  to->table.prepare(plan.first, plan.end, runs, change);
  persist_pieces(pieces);
  const uint64_t size = length == 0 ? to->size : std::max(to->size, plan.to_offset + length);
  const uint64_t time = made ? to->created_ns : now();
  const uint64_t txn = next_txn();
  const auto append = [&](Log::Entry& entry) {
    // Those of our own: shared runs are told by where they come from.
    const auto shared = [&](const Run& run) {
      return run.index >= plan.shared_to && run.index < plan.shared_to + plan.shared;
    };
    const auto first_shared = std::ranges::find_if(runs, shared);
    const auto behind = std::ranges::find_if_not(first_shared, runs.end(), shared);
    // First, for within one object a copied part may replace a chunk that is shared elsewhere.
    if (plan.shared > 0) {
      entry->clone({from.number, plan.shared_from, to->number, plan.shared_to, plan.shared, size});
    }
    entry->map(to->number, size, {runs.begin(), first_shared});
    entry->map(to->number, size, {behind, runs.end()});
    entry.commit(txn, time);
  };
  const size_t bytes = pieces.size() * kRunBytes + 4 * kMaxSmallBytes;
  if (made) {
    const WriteLock catalog(catalog_.lock());
    if (const auto added = add_object(to, bytes, growth, append); !added) return added;
  } else if (log_) {
    auto entry = log_->begin(bytes, {growth_of(*to, growth)});
    if (!entry) return fail(entry.error());
    append(*entry);
  }
  for (const Run& run : runs) {
    if (run.index >= plan.shared_to && run.index < plan.shared_to + plan.shared) {
      space_.add(run.chunk, run.count);
    }
  }
  apply(*to, change);
  fresh.keep();
  note_dirty(pieces);
  to->note_reshaped();
  to->size = size;
  to->modified_ns = time;
  mark_dirty(*to);
  return {};
}

Result<void> StoreImpl::clone(const CloneRequest& request, ClientId client) {
  if (!good_name(request.to_name)) return fail(bad_name());
  return attempt(0, [&]() -> Result<void> {
    const auto from = find(request.from);
    if (!from) return fail(from.error());
    for (;;) {
      ObjectRef to = catalog_.find(request.to);
      const bool made = !to;
      if (made) {
        to = ObjectRef(new Object(next_number_.fetch_add(1), request.to, now()));
        to->name = request.to_name;
      } else if (!request.allow_existing) {
        return fail(
            Error{Code::kExists,
                  fmt::format("object {}:{} already exists", request.to.high, request.to.low),
                  {}});
      }
      if (from->get() == to.get()) {
        const WriteLock lock(to->lock);
        if (to->removed) return fail(no_such(request.from));
        return clone_into(request, *to, to, false, client);
      }
      const TwoObjectsLock locks(**from, *to);
      if ((*from)->removed) return fail(no_such(request.from));
      if (to->removed && !made) continue;  // it is to be made now
      auto done = clone_into(request, **from, to, made, client);
      // Somebody else has made it meanwhile, and may have removed it again; unless another object
      // has the name.
      if (!done && done.error().code == Code::kExists && made && request.allow_existing) {
        const auto named = catalog_.named(request.to_name);
        if (!named || *named == request.to) continue;
      }
      return done;
    }
  });
}

}  // namespace verbena::store
