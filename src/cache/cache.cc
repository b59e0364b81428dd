// SPDX-License-Identifier: Apache-2.0
#include "cache/cache.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "store/drafts.h"

namespace verbena::cache {
namespace {

constexpr size_t kPage = 1000;
// The thread evicts when there is less free than this share, down to twice as much.
constexpr uint64_t kFreeShare = 16;
constexpr std::chrono::milliseconds kLook{100};
constexpr std::chrono::seconds kAfterFailure{2};

}  // namespace

Cache::Cache(store::Store& store, backend::Tier& tier, Options options)
    : store_(store),
      tier_(tier),
      options_(std::move(options)),
      graves_(store, options_.random ? options_.random : store::kernel_random),
      // What is fetched ahead must not drive out what was fetched before.
      streams_(std::min(options_.read_ahead, max_at_once() / 2 / kSegmentParts)) {
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

// One that no object here has.
Result<void> Cache::meet_unknown(const backend::Entry& entry,
                                 std::unordered_set<uint64_t>& numbers) {
  const backend::State& state = entry.state;
  if (covers(entry.key, state.version)) return {};
  // Of a put that did not come to its end.
  if (entry.key.name.empty() && store::is_hidden(entry.key.id)) {
    return tier_.remove(entry.key, state.version);
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
    return meet_unknown(entry, numbers);
  }
  if (info->name != entry.key.name)
    return {};  // it had none: it is behind under its name, or will be
  const auto place = store_.behind(*id);
  if (!place) return fail(place.error());
  const store::Behind& own = place->own();
  if (!own.may_be(state.version) && covers(entry.key, state.version)) return {};
  numbers.insert(info->number);
  if (own.version == state.version && own.version != 0) return {};
  if (own.may_be(state.version)) return store_.found_behind(*id, state.version);
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
      if (info.id.high == store::kGraveHigh) continue;
      const auto known = store_.behind(info.id);
      if (!known) return fail(known.error());
      // What is under another key is looked at when it is wanted.
      if (!known->under && known->behind.version != 0 && !there.contains(info.number) &&
          !graves_.any({info.name, info.id})) {
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
    if (!info.flushed) (store::is_draft(info.id) ? drafts_ : unflushed_).insert(info.id);
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

// --- by itself

void Cache::start() {
  thread_ = std::thread([this] { work(); });
  try {
    while (readers_.size() < options_.readers) readers_.emplace_back([this] { read_ahead(); });
  } catch (const std::system_error& error) {
    // What is not fetched ahead is fetched when it is wanted.
    tell(fmt::format("only {} of {} threads read ahead: {}", readers_.size(), options_.readers,
                     error.what()));
  }
  const MutexLock lock(mutex_);
  reading_ = readers_.size();
}

void Cache::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    ahead_changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  for (std::thread& reader : readers_) reader.join();
  readers_.clear();
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
    forget_gone();
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

// Whatever removes or replaces objects leaves their segments in the queue. When there are twice as
// many as were left before, those go.
void Cache::forget_gone() {
  std::set<ObjectId> gone;
  {
    const MutexLock lock(mutex_);
    if (queue_.size() < forget_at_) return;
    gone = queue_.objects();
  }
  std::erase_if(gone, [this](ObjectId id) { return !is_gone(id); });
  {
    const MutexLock lock(mutex_);
    queue_.forget(gone);
    forget_at_ = std::max(kForgetAt, 2 * queue_.size());
  }
  // An id may have come back meanwhile.
  for (const ObjectId id : gone) {
    if (const auto info = store_.stat(id)) static_cast<void>(note_here(*info));
  }
}

void Cache::evict_due() {
  const uint64_t most = max_chunks();
  const uint64_t used = store_.space().used;
  const uint64_t low = most - most / kFreeShare;
  if (used <= low) return;
  static_cast<void>(evict_some(used - (most - 2 * (most / kFreeShare))));
  static_cast<void>(store_.flush());
  // If that was not enough, too much is only here.
  const uint64_t left = store_.space().used;
  const auto now = std::chrono::steady_clock::now();
  if (left <= most || now < make_room_at_) return;
  if (!make_room(left - low)) make_room_at_ = now + kAfterFailure;
}

}  // namespace verbena::cache
