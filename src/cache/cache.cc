// SPDX-License-Identifier: Apache-2.0
#include "cache/cache.h"

#include <algorithm>

#include <fmt/format.h>

#include "store/drafts.h"

namespace verbena::cache {
namespace {

constexpr size_t kPage = 1000;
// The thread evicts when there is less free than this share, down to twice as much.
constexpr uint64_t kFreeShare = 16;
constexpr std::chrono::milliseconds kLook{100};

}  // namespace

Cache::Cache(store::Store& store, backend::Tier& tier, Options options)
    : store_(store),
      tier_(tier),
      options_(std::move(options)),
      graves_(store, options_.random ? options_.random : store::kernel_random) {
  if (!options_.random) options_.random = store::kernel_random;
}

Cache::~Cache() { stop(); }

void Cache::tell(const std::string& what) const {
  if (options_.tell) options_.tell(what);
}

// --- at the beginning

Result<void> Cache::open() {
  if (const auto done = graves_.open(); !done) return done;
  std::unordered_set<uint64_t> there;
  Result<void> met;
  const auto listed = tier_.list([&](const backend::Entry& entry) {
    met = meet(entry, there);
    return met.has_value();
  });
  if (!listed) return listed;
  if (!met) return met;
  return look_at_known(there);
}

Result<void> Cache::meet(const backend::Entry& entry, std::unordered_set<uint64_t>& numbers) {
  const backend::State& state = entry.state;
  if (state.version == 0) {
    const auto why = tier_.state(entry.key);
    tell(fmt::format("'{}' in the {} is damaged: {}", entry.key.name, tier_.describe(),
                     why ? "unknown" : why.error().what));
    return {};
  }
  const auto id =
      entry.key.name.empty() ? Result<ObjectId>(entry.key.id) : store_.find(entry.key.name);
  const auto info = id ? store_.stat(*id) : fail(id.error());
  if (!info) {
    if (info.error().code != store::Code::kNotFound) return fail(info.error());
    if (const auto grave = graves_.find(entry.key); grave && grave->behind.may_be(state.version)) {
      return {};
    }
    const auto number = store::draw_random(options_.random);
    if (!number) return fail(number.error());
    const ObjectId fresh = entry.key.name.empty() ? entry.key.id : ObjectId{*number >> 2, *number};
    count(Counter::kAdopted);
    if (const auto done =
            store_.adopt(fresh, entry.key.name, {state.version, state.size, state.modified_ns});
        !done) {
      return done;
    }
    const auto adopted = store_.stat(fresh);
    if (!adopted) return fail(adopted.error());
    numbers.insert(adopted->number);
    return {};
  }
  numbers.insert(info->number);
  const auto known = store_.behind(*id);
  if (!known) return fail(known.error());
  if (known->version == state.version && known->version != 0) return {};
  if (known->may_be(state.version)) return store_.found_behind(*id, state.version);
  if (const auto adopted = store_.adopt_again(*id, {state.version, state.size, state.modified_ns});
      !adopted) {
    if (adopted.error().code != store::Code::kConflict) return adopted;
    // It can be used; that it cannot be flushed is told by the flush.
    tell(fmt::format("'{}' was changed here and by another program in the {}", entry.key.name,
                     tier_.describe()));
    return {};
  }
  count(Counter::kAdopted);
  return {};
}

// Those that are not there any more; and what of the others is here.
Result<void> Cache::look_at_known(const std::unordered_set<uint64_t>& there) {
  std::vector<ObjectId> gone;
  std::optional<store::Cursor> after;
  for (;;) {
    const auto page = store_.list(after, kPage);
    if (!page) return fail(page.error());
    for (const store::ObjectInfo& info : *page) {
      if (store::is_hidden(info.id)) continue;
      const auto known = store_.behind(info.id);
      if (!known) return fail(known.error());
      if (known->version != 0 && !there.contains(info.number) &&
          !graves_.find({info.name, info.id})) {
        if (info.flushed || info.behind > 0) {
          gone.push_back(info.id);
          continue;
        }
        if (const auto done = store_.detach(info.id); !done) return done;
      }
      if (const auto noted = note_here(info); !noted) return noted;
    }
    if (page->size() < kPage) break;
    after = store::Cursor{page->back().name, page->back().id};
  }
  for (const ObjectId id : gone) {
    const auto info = store_.stat(id);
    if (!info) continue;
    count(Counter::kLost);
    if (!info->flushed) {
      tell(fmt::format("object '{}' is gone from the {}, and parts of it were only there",
                       info->name, tier_.describe()));
      continue;
    }
    if (const auto done = store_.remove(id); !done) return done;
  }
  return {};
}

// By what it has, and not by its size: it may have holes.
Result<void> Cache::note_here(const store::ObjectInfo& info) {
  for (uint64_t at = 0;;) {
    const auto page = store_.segments(info.id, at, kPage);
    if (!page) return fail(page.error());
    const MutexLock lock(mutex_);
    if (!info.flushed) unflushed_.insert(info.id);
    for (const store::SegmentInfo& segment : *page) {
      const uint64_t first = segment.offset / store::kDataBytes;
      const uint64_t end = first + segment.count;
      for (uint64_t i = first / kSegmentParts; i * kSegmentParts < end; ++i) {
        queue_.add({info.id, i});
      }
      at = end * store::kDataBytes;
    }
    if (page->size() < kPage) return {};
  }
}

// --- changes that concern what is behind

Result<void> Cache::remove(ObjectId id) {
  return run([&] { return remove_once(id); });
}

Result<void> Cache::remove_once(ObjectId id) {
  const Busy busy(busy_, id);
  const auto info = store_.stat(id);
  if (!info) return fail(info.error());
  const auto behind = store_.behind(id);
  if (!behind) return fail(behind.error());
  if (*behind != store::Behind{}) {
    if (const auto noted = graves_.add({info->name, id}, *behind); !noted) return noted;
  }
  return store_.remove(id);
}

Result<void> Cache::rename(ObjectId id, std::string_view name) {
  return run([&] { return rename_once(id, name); });
}

Result<void> Cache::rename_once(ObjectId id, std::string_view name) {
  const Busy busy(busy_, id);
  const auto info = store_.stat(id);
  if (!info) return fail(info.error());
  if (info->name == name) return {};
  // Before anything is done for it: whether it can be.
  if (!store::good_name(name)) return store_.rename(id, name);  // which tells why not
  if (!name.empty() && store_.find(name)) {
    return fail(
        Error{store::Code::kExists, fmt::format("another object has the name '{}'", name), {}});
  }
  const auto behind = store_.behind(id);
  if (!behind) return fail(behind.error());
  if (*behind != store::Behind{}) {
    // All of it comes here, and is behind under its new name when it is flushed.
    if (const auto fits = check_fits(*info); !fits) return fits;
    if (const auto here = store_.check_here(id); !here) return here;
    if (const auto noted = graves_.add({info->name, id}, *behind); !noted) return noted;
    if (const auto detached = store_.detach(id); !detached) return detached;
  }
  return store_.rename(id, name);
}

Result<void> Cache::replace(ObjectId id, ObjectId by, store::ClientId client) {
  return run([&] { return replace_once(id, by, client); });
}

Result<void> Cache::replace_once(ObjectId id, ObjectId by, store::ClientId client) {
  const Busy busy(busy_, id, by);
  const auto info = store_.stat(by);
  if (!info) return fail(info.error());
  const auto behind = store_.behind(by);
  if (!behind) return fail(behind.error());
  if (*behind != store::Behind{}) {
    if (const auto fits = check_fits(*info); !fits) return fits;
    if (const auto here = store_.check_here(by); !here) return here;
    if (const auto noted = graves_.add({info->name, by}, *behind); !noted) return noted;
  }
  return store_.replace(id, by, client);
}

// --- by itself

void Cache::start() {
  thread_ = std::thread([this] { work(); });
}

void Cache::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Cache::work() {
  const auto next_flush = [this] {
    return std::chrono::steady_clock::now() + std::chrono::nanoseconds(options_.flush_after / 2);
  };
  auto flush_at = next_flush();
  for (;;) {
    {
      const MutexLock lock(mutex_);
      if (stopping_) return;
      static_cast<void>(changed_.wait_until(mutex_, std::chrono::steady_clock::now() + kLook));
      if (stopping_) return;
    }
    evict_due();
    const auto now = std::chrono::steady_clock::now();
    if (options_.flush_after == 0 || now < flush_at) continue;
    flush_due();
    flush_at = next_flush();
  }
}

void Cache::flush_due() {
  const auto done = flush_all();
  if (done) {
    if (std::exchange(failing_, false))
      tell(fmt::format("the {} takes changes again", tier_.describe()));
    return;
  }
  if (!std::exchange(failing_, true)) {
    tell(fmt::format("not flushed: {}; what is only here is kept, and tried again",
                     done.error().what));
  }
}

void Cache::evict_due() {
  const uint64_t most = max_chunks();
  const uint64_t used = store_.space().used;
  const uint64_t low = most - most / kFreeShare;
  if (used <= low) return;
  static_cast<void>(evict_some(used - (most - 2 * (most / kFreeShare))));
  static_cast<void>(store_.flush());
}

}  // namespace verbena::cache
