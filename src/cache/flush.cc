// SPDX-License-Identifier: Apache-2.0
// From here to behind. The order is what makes it safe: what is to be written is durable here, and
// noted, before it becomes visible there; that it is there is noted afterwards.
#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "cache/cache.h"
#include "store/drafts.h"

namespace verbena::cache {
namespace {

constexpr uint64_t kPartsAtOnce = 1024;
constexpr int kMaxRounds = 8;  // others that change it there at the same time are not expected

}  // namespace

// Far from the end of the numbers: those after it may be used as well.
Result<uint64_t> Cache::draw_version() {
  for (;;) {
    const auto drawn = store::draw_random(options_.random);
    if (!drawn) return fail(drawn.error());
    const uint64_t version = *drawn >> 1;
    if (version > 0) return version;
  }
}

Result<void> Cache::flush(ObjectId id) {
  std::vector<ObjectId> waiting;
  return flush_before(id, waiting);
}

Result<void> Cache::flush_before(ObjectId id, std::vector<ObjectId>& waiting) {
  if (id.high == store::kGraveHigh) return {};
  for (int round = 0;; ++round) {
    bool again = false;
    const auto info = store_.stat(id);
    if (!info) return fail(info.error());
    // Those that had its name before go first.
    auto done = info->flushed ? Result<void>{} : replace_what_goes(id);
    if (done && !info->flushed) {
      waiting.push_back(id);
      done = free_key({info->name, id}, waiting);
      waiting.pop_back();
    }
    if (done) {
      const Busy busy(busy_, id);
      done = flush_once(id, &again);
    }
    if (done || !again || round == kMaxRounds) {
      if (!done) count(Counter::kFailedFlushes);
      return done;
    }
  }
}

Result<void> Cache::flush_once(ObjectId id, bool* again) {
  auto plan = store_.prepare_flush(id);
  if (!plan) return fail(plan.error());
  if (plan->nothing()) return {};
  const backend::Key key{plan->name(), id};
  if (graves_.any(key)) {
    *again = true;
    return fail(Error{store::Code::kConflict, "another object of this name has just gone", {}});
  }
  const auto base = find_base(*plan, key, again);
  if (!base) return fail(base.error());
  const auto source = find_source(*plan, again);
  if (!source) return fail(source.error());
  const auto fresh = draw_version();
  if (!fresh) return fail(fresh.error());
  const auto version = store_.begin_flush(id, *fresh);
  if (!version) return fail(version.error());
  if (const auto durable = store_.flush(); !durable) return durable;
  auto update = tier_.update(
      key,
      {.base = *base,
       .state = {.version = *version, .size = plan->size(), .modified_ns = plan->modified_ns()},
       .source = *source});
  if (!update) {
    *again = update.error().code == store::Code::kConflict;
    return fail(update.error());
  }
  if (const auto written = write_behind(*plan, **update); !written) return written;
  if (const auto done = (*update)->commit(); !done) {
    *again = done.error().code == store::Code::kConflict;
    return done;
  }
  if (const auto noted = store_.end_flush(*plan, *version); !noted) return noted;
  count(Counter::kFlushes);
  note_flushed(*plan);
  return {};
}

// What is there, of the versions that may be: a flush whose end is not known may have come to one.
Result<std::optional<uint64_t>> Cache::find_base(const store::PreparedFlush& plan,
                                                 const backend::Key& key, bool* again) {
  const store::Behind& known = plan.base().own();
  const auto there = tier_.state(key);
  if (!there && there.error().code != store::Code::kNotFound) return fail(there.error());
  if (!there) {
    // What is there is only replaced, or there has been nothing.
    if (known.version == 0 || plan.base().under) return std::optional<uint64_t>{};
    // Somebody has removed it there. What was only there is lost; the rest is written anew.
    if (const auto detached = store_.detach(plan.id()); !detached) {
      return fail(Error{store::Code::kConflict,
                        fmt::format("object '{}' is gone from the {}, and parts of it were only "
                                    "there; restore it there, or remove the object",
                                    plan.name(), tier_.describe()),
                        {}});
    }
    *again = true;
    return fail(Error{store::Code::kConflict, "removed behind", {}});
  }
  if (there->version == known.version) return std::optional(known.version);
  if (known.may_be(there->version)) {
    if (const auto noted = store_.found_behind(plan.id(), there->version); !noted) {
      return fail(noted.error());
    }
    *again = true;
    return fail(Error{store::Code::kConflict, "an earlier flush had come to its end", {}});
  }
  return fail(Error{store::Code::kConflict,
                    fmt::format("object '{}' was changed here and by another program in the {}; "
                                "remove one of the two",
                                plan.name(), tier_.describe()),
                    {}});
}

// Where it is, if that is not under its own key.
Result<std::optional<backend::Source>> Cache::find_source(const store::PreparedFlush& plan,
                                                          bool* again) {
  const store::PlaceBehind& place = plan.base();
  if (!place.under) return std::optional<backend::Source>{};
  const backend::Key key{place.under->name, place.under->id};
  const auto there = tier_.state(key);
  if (!there && there.error().code != store::Code::kNotFound) return fail(there.error());
  if (there && place.behind.may_be(there->version)) {
    return std::optional(backend::Source{key, there->version});
  }
  // Somebody has removed or changed it there; if all of it is here, that does not matter.
  if (const auto detached = store_.detach(plan.id()); !detached) {
    return fail(Error{store::Code::kConflict,
                      fmt::format("object '{}' was '{}' in the {} until it was renamed; another "
                                  "program has changed that, and parts of the object were only "
                                  "there",
                                  plan.name(), key.name, tier_.describe()),
                      {}});
  }
  *again = true;
  return fail(Error{store::Code::kConflict, "changed behind", {}});
}

// Spans that follow each other go together, in pieces that begin where those of a tier do.
Result<void> Cache::write_behind(const store::PreparedFlush& plan, backend::Update& update) {
  std::vector<backend::PartToPut> parts;
  uint64_t first = 0;
  const auto put = [&]() -> Result<void> {
    if (parts.empty()) return {};
    const auto done = update.put(first, parts);
    if (done) count(Counter::kFlushedParts, parts.size());
    parts.clear();
    return done;
  };
  for (size_t s = 0; s < plan.spans().size(); ++s) {
    const auto& span = plan.spans()[s];
    if (span.hole) {
      if (const auto done = update.hole(span.first, span.count); !done) return done;
      continue;
    }
    for (uint64_t i = 0; i < span.count; ++i) {
      const uint64_t number = span.first + i;
      if (number != first + parts.size() || number % kPartsAtOnce == 0) {
        if (const auto done = put(); !done) return done;
        first = number;
      }
      const auto part = plan.part(s, i);
      if (!part) return fail(part.error());
      parts.push_back({part->bytes, part->crc});
    }
  }
  return put();
}

// They may leave from now on.
void Cache::note_flushed(const store::PreparedFlush& plan) {
  const MutexLock lock(mutex_);
  for (const auto& span : plan.spans()) {
    if (span.hole) continue;
    const uint64_t end = (span.first + span.count - 1) / kSegmentParts + 1;
    for (uint64_t i = span.first / kSegmentParts; i < end; ++i) queue_.add({plan.id(), i});
  }
}

std::set<ObjectId> Cache::all_unflushed() {
  std::vector<ObjectId> fresh = store_.take_unflushed();
  // Most drafts are gone soon, and are not flushed before.
  std::set<ObjectId> drafts;
  {
    const MutexLock lock(mutex_);
    drafts = drafts_;
  }
  std::erase_if(drafts, [this](ObjectId id) { return !is_gone(id); });
  std::erase_if(fresh, [this](ObjectId id) { return is_gone(id); });
  const MutexLock lock(mutex_);
  for (const ObjectId id : drafts) drafts_.erase(id);
  for (const ObjectId id : fresh) (store::is_draft(id) ? drafts_ : unflushed_).insert(id);
  std::set<ObjectId> ids = unflushed_;
  ids.insert(flushing_.begin(), flushing_.end());
  return ids;
}

// The object here, whatever an error says is not found.
bool Cache::is_gone(ObjectId id) const {
  const auto info = store_.stat(id);
  return !info && info.error().code == store::Code::kNotFound;
}

// Also those of which another thread is about to do the same: it is waited for.
Result<void> Cache::flush_listed(ObjectId id) {
  {
    const MutexLock lock(mutex_);
    unflushed_.erase(id);
    flushing_.insert(id);
  }
  const auto done = flush(id);
  const bool left = !done && !is_gone(id);
  const MutexLock lock(mutex_);
  flushing_.erase(flushing_.find(id));
  if (left) unflushed_.insert(id);
  return left ? done : Result<void>{};
}

// Those that are unflushed now, others that come meanwhile are for the next time. If a tier takes
// nothing, not each object waits for it: some are tried, and others the next time.
Result<void> Cache::flush_all() {
  const std::set<ObjectId> all = all_unflushed();
  std::vector<ObjectId> ids(all.begin(), all.end());
  struct {
    Mutex mutex;
    size_t next VERBENA_GUARDED_BY(mutex) = 0;
    uint32_t failed VERBENA_GUARDED_BY(mutex) = 0;  // in a row
    Result<void> outcome VERBENA_GUARDED_BY(mutex);
  } shared;
  begin_elsewhere(ids);
  const auto work = [&] {
    for (;;) {
      size_t at = 0;
      {
        const MutexLock lock(shared.mutex);
        if (shared.next == ids.size() || shared.failed >= kMaxFailures) return;
        at = shared.next++;
      }
      const auto done = flush_listed(ids[at]);
      const MutexLock lock(shared.mutex);
      shared.failed = done ? 0 : shared.failed + 1;
      if (!done && shared.outcome) shared.outcome = done;
    }
  };
  {
    std::vector<std::jthread> others;
    size_t wanted = std::min<size_t>(options_.flushers, ids.size());
    while (others.size() + 1 < wanted) {
      try {
        others.emplace_back(work);
      } catch (const std::system_error&) {
        wanted = 0;  // no more threads: with those that there are
      }
    }
    work();
  }
  const MutexLock lock(shared.mutex);
  if (shared.failed >= kMaxFailures) {
    turn_ += kMaxFailures;
    return shared.outcome;
  }
  const auto buried = bury_all();
  return shared.outcome ? buried : shared.outcome;
}

// So that they can leave, too.
Result<void> Cache::flush_drafts() {
  std::set<ObjectId> ids;
  {
    const MutexLock lock(mutex_);
    ids.swap(drafts_);
  }
  Result<void> outcome;
  for (const ObjectId id : ids) {
    const auto done = flush(id);
    if (done || is_gone(id)) continue;
    if (outcome) outcome = done;
    const MutexLock lock(mutex_);
    drafts_.insert(id);
  }
  return outcome;
}

}  // namespace verbena::cache
