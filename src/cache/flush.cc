// SPDX-License-Identifier: Apache-2.0
// From here to behind. The order is what makes it safe: what is to be written is durable here, and
// noted, before it becomes visible there; that it is there is noted afterwards.
#include <algorithm>

#include <fmt/format.h>

#include "cache/cache.h"
#include "store/drafts.h"

namespace verbena::cache {
namespace {

constexpr uint64_t kPartsAtOnce = 1024;
constexpr int kMaxRounds = 8;  // others that change it there at the same time are not expected

}  // namespace

backend::Key Cache::key_of(ObjectId id, const std::string& name) const { return {name, id}; }

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
  if (store::is_hidden(id)) return {};
  for (int round = 0;; ++round) {
    bool again = false;
    auto done = bury_namesakes(id);
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

// Those that had its name before: they go first.
Result<void> Cache::bury_namesakes(ObjectId id) {
  const auto info = store_.stat(id);
  if (!info) return fail(info.error());
  while (const auto grave = graves_.find(key_of(id, info->name))) {
    if (const auto buried = bury(*grave); !buried) return buried;
  }
  return {};
}

Result<void> Cache::flush_once(ObjectId id, bool* again) {
  auto plan = store_.prepare_flush(id);
  if (!plan) return fail(plan.error());
  if (plan->nothing()) return {};
  const backend::Key key = key_of(id, plan->name());
  if (graves_.find(key)) {
    *again = true;
    return fail(Error{store::Code::kConflict, "another object of this name has just gone", {}});
  }
  const auto base = find_base(*plan, key, again);
  if (!base) return fail(base.error());
  const auto fresh = draw_version();
  if (!fresh) return fail(fresh.error());
  const auto version = store_.begin_flush(id, *fresh);
  if (!version) return fail(version.error());
  if (const auto durable = store_.flush(); !durable) return durable;
  auto update = tier_.update(
      key,
      {.base = *base,
       .state = {.version = *version, .size = plan->size(), .modified_ns = plan->modified_ns()}});
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
  const store::Behind& known = plan.base();
  const auto there = tier_.state(key);
  if (!there && there.error().code != store::Code::kNotFound) return fail(there.error());
  if (!there) {
    if (known.version == 0) return std::optional<uint64_t>{};
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

Result<void> Cache::write_behind(const store::PreparedFlush& plan, backend::Update& update) {
  std::vector<backend::PartToPut> parts;
  for (size_t s = 0; s < plan.spans().size(); ++s) {
    const auto& span = plan.spans()[s];
    if (span.hole) {
      if (const auto done = update.hole(span.first, span.count); !done) return done;
      continue;
    }
    for (uint64_t at = 0; at < span.count; at += parts.size()) {
      parts.clear();
      const uint64_t end = std::min(span.count, at + kPartsAtOnce);
      for (uint64_t i = at; i < end; ++i) {
        const auto part = plan.part(s, i);
        if (!part) return fail(part.error());
        parts.push_back({part->bytes, part->crc});
      }
      if (const auto done = update.put(span.first + at, parts); !done) return done;
      count(Counter::kFlushedParts, parts.size());
    }
  }
  return {};
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
  const MutexLock lock(mutex_);
  unflushed_.insert(fresh.begin(), fresh.end());
  std::set<ObjectId> ids = unflushed_;
  ids.insert(flushing_.begin(), flushing_.end());
  return ids;
}

Result<void> Cache::flush_all() {
  // Those that are there now: others that come meanwhile are for the next time. Those of which
  // another thread is about to do the same are waited for.
  Result<void> outcome;
  for (const ObjectId id : all_unflushed()) {
    {
      const MutexLock lock(mutex_);
      unflushed_.erase(id);
      flushing_.insert(id);
    }
    const auto done = flush(id);
    const bool left = !done && done.error().code != store::Code::kNotFound;
    if (left && outcome) outcome = done;
    const MutexLock lock(mutex_);
    flushing_.erase(flushing_.find(id));
    if (left) unflushed_.insert(id);
  }
  const auto buried = bury_all();
  return outcome ? buried : outcome;
}

// --- what is gone here

// It is as it was when the grave was made, but for flushes whose end was not known then.
bool Cache::did_not_go(const Grave& grave) const {
  const auto info = store_.stat(grave.key.id);
  const auto now = store_.behind(grave.key.id);
  if (!info || !now || info->name != grave.key.name) return false;
  if (now->version != 0) return grave.behind.may_be(now->version);
  return now->tries > 0 && now->next == grave.behind.next;
}

Result<void> Cache::bury(const Grave& grave) {
  const Busy busy(busy_, grave.key.id);
  if (did_not_go(grave)) return graves_.remove(grave);
  // That it is gone is durable before it is.
  if (const auto durable = store_.flush(); !durable) return durable;
  const auto there = tier_.state(grave.key);
  if (there && grave.behind.may_be(there->version)) {
    if (const auto removed = tier_.remove(grave.key, there->version); !removed) return removed;
  } else if (!there && there.error().code != store::Code::kNotFound) {
    return fail(there.error());
  }
  return graves_.remove(grave);
}

Result<void> Cache::bury_all() {
  Result<void> outcome;
  for (const Grave& grave : graves_.all()) {
    const auto buried = bury(grave);
    if (!buried && outcome) outcome = buried;
  }
  return outcome;
}

}  // namespace verbena::cache
