// SPDX-License-Identifier: Apache-2.0
// What is only here is written behind: it is pinned as it is at one moment, and recorded to be
// there after it is. Who changes it meanwhile changes the rest.
#include <algorithm>

#include "store/chunk_check.h"
#include "store/crc_parts.h"
#include "store/store_impl.h"

namespace verbena::store {
namespace {

constexpr size_t kMaxRunsNoted = 128;  // in one transaction

}  // namespace

struct PreparedFlush::State {
  const StoreImpl* store = nullptr;
  ObjectRef object;
  std::string name;
  bool nothing = true;
  uint64_t size = 0;
  uint64_t modified_ns = 0;
  uint64_t reshaped = 0;
  PlaceBehind base;
  uint64_t adopted = 0;
  std::vector<Span> spans;
  std::vector<Run> runs;  // of each span; pinned if it has chunks
  std::vector<uint8_t> content;
  uint32_t content_crc = 0;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    for (const Run& run : runs) {
      if (run.chunk != 0) store->space().drop(run.chunk, run.count);
    }
  }

  // Chunks of the object, in order; what lies between them are holes.
  void collect(const Object& source) VERBENA_REQUIRES_SHARED(source.lock) {
    uint64_t at = 0;
    const auto hole_until = [&](uint64_t end) {
      // Where nothing but runs has changed, holes are behind as they are here.
      if (end > at && !base.behind.whole) add({at, end - at, true}, {});
      at = end;
    };
    source.table.for_all(0, kMaxIndex, [&](const Run& run) {
      hole_until(run.index);
      at = run.index + run.count;
      if (run.held == Held::kHere) add({run.index, run.count, false}, run);
      return true;
    });
    hole_until((size + kDataBytes - 1) / kDataBytes);
  }
  void add(const Span& span, const Run& run) {
    spans.push_back(span);
    runs.reserve(spans.size());
    if (!span.hole) store->space().add(run.chunk, run.count);
    runs.push_back(run);
  }
};

PreparedFlush::PreparedFlush() = default;
PreparedFlush::PreparedFlush(PreparedFlush&&) noexcept = default;
PreparedFlush& PreparedFlush::operator=(PreparedFlush&&) noexcept = default;
PreparedFlush::~PreparedFlush() = default;
bool PreparedFlush::nothing() const { return state_->nothing; }
ObjectId PreparedFlush::id() const { return state_->object->id; }
const std::string& PreparedFlush::name() const { return state_->name; }
uint64_t PreparedFlush::size() const { return state_->size; }
uint64_t PreparedFlush::modified_ns() const { return state_->modified_ns; }
const PlaceBehind& PreparedFlush::base() const { return state_->base; }
std::span<const PreparedFlush::Span> PreparedFlush::spans() const { return state_->spans; }
Result<PreparedFlush::Part> PreparedFlush::part(size_t span, uint64_t i) const {
  if (!state_->content.empty()) return Part{state_->content.data(), state_->content_crc};
  return state_->store->proven_part(*state_->object, state_->runs.at(span),
                                    static_cast<uint32_t>(i));
}

Result<PreparedFlush::Part> StoreImpl::proven_part(const Object& object, const Run& run,
                                                   uint32_t i) const {
  if (const auto loaded = space_.load(run.chunk + i, 1); !loaded) return fail(loaded.error());
  const uint8_t* const chunk = space_.memory(run.chunk + i);
  const uint32_t crc = crc_of({chunk, kDataBytes});
  if (crc != data_crc_of(chunk) || expected_chunk_crc(chunk, crc) != chunk_crc_of(chunk) ||
      !head_matches(chunk, run, i, tag_)) {
    return fail(damage(object, run, i, chunk, crc));
  }
  return PreparedFlush::Part{chunk, crc};
}

Result<PreparedFlush> StoreImpl::prepare_flush(ObjectId id) const {
  auto object = find(id);
  if (!object) return fail(object.error());
  PreparedFlush prepared;
  prepared.state_ = std::make_unique<PreparedFlush::State>();
  auto& state = *prepared.state_;
  state.store = this;
  const Object& source = **object;
  const ReadLock lock(source.lock);
  if (source.removed) return fail(no_such(id));
  state.name = source.name;  // that of this base
  state.nothing = source.is_flushed();
  state.size = source.size;
  state.modified_ns = source.modified_ns;
  state.reshaped = source.reshaped;
  state.adopted = source.adopted;
  state.base = {source.behind, source.under};
  if (!state.nothing && !source.content.empty()) {
    state.content.resize(kDataBytes);
    const auto crc = copy_content(source, {0, source.size}, state.content.data());
    if (!crc) return fail(crc.error());
    state.content_crc = crc_zeros_after(*crc, kDataBytes - source.size);
    state.spans.push_back({0, 1, false});
  } else if (!state.nothing) {
    state.collect(source);
  }
  state.object = std::move(*object);
  return prepared;
}

// The record, and what it says.
Result<void> StoreImpl::note_behind(Object& object, PlaceBehind place, std::span<const Run> runs) {
  if (log_) {
    // No more than it needs: whoever makes room by flushing has none to spare.
    const size_t more = place.under ? kMaxFlushedBytes : 0;
    auto entry = log_->begin((runs.size() + 1) * kRunBytes + 3 * kMaxSmallBytes + more,
                             {growth_of(object, runs.size(), more)}, Log::Room::kPreferred);
    if (!entry) return fail(entry.error());
    (*entry)->flushed({object.number, place.behind, view_of(place.under)});
    (*entry)->map(object.number, object.size, runs);
    entry->commit(next_txn(), object.modified_ns);
  }
  object.behind = place.behind;
  object.under = std::move(place.under);
  for (const Run& run : runs) object.table.hold_in_both(run);
  mark_dirty(object);
  return {};
}

Result<uint64_t> StoreImpl::begin_flush(ObjectId id, uint64_t fresh) {
  return attempt(0, [&]() -> Result<uint64_t> {
    const auto object = find(id);
    if (!object) return fail(object.error());
    const WriteLock lock((*object)->lock);
    if ((*object)->removed) return fail(no_such(id));
    PlaceBehind place{(*object)->behind, (*object)->under};
    Behind own = place.under ? place.under->own : place.behind;
    if (own.tries == 0) own.next = fresh;
    const uint64_t version = own.next + own.tries;
    if (version == 0 || ++own.tries == 0) {
      return fail(Error{Code::kInvalid, "not a version of an object", {}});
    }
    if (place.under) {
      place.under = std::make_shared<const Under>(place.under->name, place.under->id, own);
    } else {
      place.behind = own;
    }
    if (const auto noted = note_behind(**object, place, {}); !noted) return fail(noted.error());
    return version;
  });
}

Result<void> StoreImpl::end_flush(const PreparedFlush& flushed, uint64_t version) {
  const auto& state = *flushed.state_;
  // First what is there, then which parts of the object that is; a crash in between leaves parts
  // that are flushed once more.
  for (size_t at = 0;;) {
    std::vector<Run> runs;
    for (; at < state.runs.size() && runs.size() < kMaxRunsNoted; ++at) {
      if (!state.spans[at].hole) runs.push_back(state.runs[at]);
    }
    const bool last = at == state.runs.size();
    const auto done = attempt(0, [&]() -> Result<void> {
      Object& object = *state.object;
      const WriteLock lock(object.lock);
      if (object.removed) return fail(no_such(object.id));
      if (object.adopted != state.adopted) {
        return fail(Error{Code::kConflict, "it was renamed while it was flushed", {}});
      }
      std::vector<Run> left;
      for (const Run& run : runs) {
        object.table.for_each(run.index, run.index + run.count, [&](const Run& there) {
          if (there.held == Held::kHere && SegmentTable::is_part(there, run)) left.push_back(there);
          return true;
        });
      }
      for (Run& run : left) run.held = Held::kBoth;
      const Behind behind{.version = version, .whole = last && object.reshaped == state.reshaped};
      return note_behind(object, {behind, nullptr}, left);
    });
    if (!done || last) return done;
  }
}

Result<void> StoreImpl::found_behind(ObjectId id, uint64_t version) {
  return attempt(0, [&]() -> Result<void> {
    const auto object = find(id);
    if (!object) return fail(object.error());
    const WriteLock lock((*object)->lock);
    if ((*object)->removed) return fail(no_such(id));
    const Behind behind = (*object)->behind;
    const Behind own = (*object)->under ? (*object)->under->own : behind;
    if (!own.may_be(version)) {
      return fail(Error{Code::kConflict, "what is behind is of another history", {}});
    }
    const bool same = own.version == version;
    // What was under its own name before: it begins from somewhere else.
    if (same && (*object)->under) return {};
    const Behind found{.version = version, .whole = same && behind.whole};
    return note_behind(**object, {found, nullptr}, {});
  });
}

Result<void> StoreImpl::detach(ObjectId id) {
  return attempt(0, [&]() -> Result<void> {
    const auto object = find(id);
    if (!object) return fail(object.error());
    const WriteLock lock((*object)->lock);
    if ((*object)->removed) return fail(no_such(id));
    if ((*object)->table.parts_behind() > 0) {
      return fail(is_behind(**object, (*object)->table.first_behind_store()));
    }
    // What may be under its own name is still to be replaced.
    const Behind own = (*object)->under ? (*object)->under->own : Behind{};
    if (const auto noted = note_behind(**object, {}, {}); !noted) return noted;
    (*object)->table.hold_here();
    ++(*object)->adopted;
    return own == Behind{} ? Result<void>{} : note_behind(**object, {own, nullptr}, {});
  });
}

Result<void> StoreImpl::move_behind(ObjectId id, const std::string& name, ObjectId under,
                                    uint64_t version) {
  return attempt(0, [&]() -> Result<void> {
    const auto object = find(id);
    if (!object) return fail(object.error());
    const WriteLock lock((*object)->lock);
    if ((*object)->removed) return fail(no_such(id));
    if (!(*object)->under) {
      return fail(Error{Code::kInvalid, "it is behind under its own name", {}});
    }
    const Behind behind{.version = version, .whole = (*object)->behind.whole};
    return note_behind(
        **object, {behind, std::make_shared<const Under>(name, under, (*object)->under->own)}, {});
  });
}

Result<void> StoreImpl::replaces_behind(ObjectId id, uint64_t version) {
  return attempt(0, [&]() -> Result<void> {
    const auto object = find(id);
    if (!object) return fail(object.error());
    const WriteLock lock((*object)->lock);
    if ((*object)->removed) return fail(no_such(id));
    const auto under = (*object)->under;
    if (!under || under->own != Behind{} || version == 0) {
      return fail(Error{Code::kInvalid, "it is behind under its own name", {}});
    }
    const Behind own{.version = version};
    return note_behind(
        **object, {(*object)->behind, std::make_shared<const Under>(under->name, under->id, own)},
        {});
  });
}

Result<void> StoreImpl::check_here(ObjectId id) const {
  const auto object = find(id);
  if (!object) return fail(object.error());
  const ReadLock lock((*object)->lock);
  if ((*object)->removed) return fail(no_such(id));
  if ((*object)->table.parts_behind() == 0) return {};
  return fail(is_behind(**object, (*object)->table.first_behind_store()));
}

void StoreImpl::note_unflushed(Object& object) {
  if (object.listed || object.removed || object.is_flushed()) return;
  const ShortLock lock(unflushed_mutex_);
  try {
    unflushed_.push_back(object.id);
  } catch (const std::bad_alloc&) {
    return;  // it is listed when it is changed again
  }
  object.listed = true;
}

std::vector<ObjectId> StoreImpl::take_unflushed() {
  std::vector<ObjectId> taken;
  {
    const ShortLock lock(unflushed_mutex_);
    taken.swap(unflushed_);
  }
  for (const ObjectId id : taken) {
    const ObjectRef object = catalog_.find(id);
    if (!object) continue;
    const WriteLock lock(object->lock);
    object->listed = false;
  }
  return taken;
}

Result<PlaceBehind> StoreImpl::behind(ObjectId id) const {
  const auto object = find(id);
  if (!object) return fail(object.error());
  const ReadLock lock((*object)->lock);
  if ((*object)->removed) return fail(no_such(id));
  return PlaceBehind{(*object)->behind, (*object)->under};
}

// Of an object that gets another name: what is behind stays where it is until it is flushed.
PlaceBehind StoreImpl::place_renamed(const Object& object, std::string_view name) {
  if (object.behind.version == 0) return {};
  if (!object.under) {
    return {object.behind, std::make_shared<const Under>(object.name, object.id, Behind{})};
  }
  return place_under(object.behind, object.under->name, object.under->id, name, object.id, {});
}

// Of one that gets all that another one has. Versions that were begun under its own name are of
// what it had: they must not be taken for what it gets. Who replaces it sees to it that they go.
PlaceBehind StoreImpl::place_replaced(const Object& to, const Object& from) {
  Behind own = to.under ? to.under->own : to.behind;
  own.whole = false;
  if (from.behind.version == 0) return {own, nullptr};
  if (own.tries > 0) own = {};
  if (!from.under) return place_under(from.behind, from.name, from.id, to.name, to.id, own);
  return place_under(from.behind, from.under->name, from.under->id, to.name, to.id, own);
}

// Of one called `name` that is behind under another name; or under its own after all.
PlaceBehind StoreImpl::place_under(const Behind& behind, const std::string& under,
                                   ObjectId under_id, std::string_view name, ObjectId id,
                                   Behind own) {
  const bool same = under == name && (!under.empty() || under_id == id);
  if (same) return {behind, nullptr};
  own.whole = false;
  return {behind, std::make_shared<const Under>(under, under_id, own)};
}

}  // namespace verbena::store
