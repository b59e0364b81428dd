// SPDX-License-Identifier: Apache-2.0
// Which object is behind under which key. Removing, renaming and replacing need nothing from
// behind: what is there stays, under the key that it has, until the object is flushed or nobody
// needs it.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "cache/cache.h"
#include "store/drafts.h"

namespace verbena::cache {
namespace {

constexpr int kMaxAttempts = 8;
constexpr size_t kMaxWaiting = 16;  // on the stack

// As the store does where an object is made here.
uint64_t wall_clock() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
}

// Where what is under this key is set aside. By a name that tells what it was: if the store is
// lost, it is an object.
backend::Key aside_of(const backend::Key& key, uint64_t number) {
  if (key.name.empty()) return {{}, {store::kGraveHigh, number}};
  const std::string after = fmt::format(".aside-{:016x}", number);
  std::string name = key.name.substr(0, store::kMaxNameBytes - after.size());
  while (!store::good_name(name)) name.pop_back();  // it was cut within a character
  return {name + after, {}};
}

}  // namespace

Result<void> Cache::leave_own_key(const store::ObjectInfo& info, const store::PlaceBehind& place,
                                  ObjectId user) {
  store::Behind own = place.own();
  if (own == store::Behind{}) return {};
  own.whole = false;
  return graves_.add({info.name, info.id}, own, user);
}

Result<void> Cache::remove(ObjectId id) {
  return run([&] { return remove_once(id); });
}

Result<void> Cache::remove_once(ObjectId id) {
  const Busy busy(busy_, id);
  const MutexLock lock(places_);
  const auto info = store_.stat(id);
  if (!info) return fail(info.error());
  const auto place = store_.behind(id);
  if (!place) return fail(place.error());
  if (const auto left = leave_own_key(*info, *place, id); !left) return left;
  return store_.remove(id);
}

Result<void> Cache::rename(ObjectId id, std::string_view name) {
  return run([&] { return rename_once(id, name); });
}

Result<void> Cache::rename_once(ObjectId id, std::string_view name) {
  const Busy busy(busy_, id);
  const MutexLock lock(places_);
  const auto info = store_.stat(id);
  if (!info) return fail(info.error());
  const bool taken = !name.empty() && store_.find(name);
  // Which tells why not.
  if (info->name == name || taken || !store::good_name(name)) return store_.rename(id, name);
  const auto place = store_.behind(id);
  if (!place) return fail(place.error());
  if (const auto left = leave_own_key(*info, *place, id); !left) return left;
  return store_.rename(id, name);
}

Result<void> Cache::replace(ObjectId id, ObjectId by, store::ClientId client) {
  return run([&] { return replace_once(id, by, client); });
}

Result<void> Cache::replace_once(ObjectId id, ObjectId by, store::ClientId client) {
  const Busy busy(busy_, id, by);
  {
    const MutexLock lock(places_);
    const auto info = store_.stat(by);
    if (!info) return fail(info.error());
    const auto place = store_.behind(by);
    if (!place) return fail(place.error());
    if (const auto left = leave_own_key(*info, *place, id); !left) return left;
    const auto to = store_.stat(id);
    if (!to) return fail(to.error());
    const auto before = store_.behind(id);
    if (!before) return fail(before.error());
    // Which of its versions is there is not known: it is what is to go, and the next flush finds
    // out which it replaces (replace_what_goes).
    if (place->behind.version != 0 && before->own().tries > 0) {
      if (const auto left = leave_own_key(*to, *before, id); !left) return left;
    }
    if (place->under) {
      store::Behind behind = place->behind;
      behind.whole = false;
      const auto noted = graves_.add({place->under->name, place->under->id}, behind, id);
      if (!noted) return noted;
    }
    if (const auto done = store_.replace(id, by, client); !done) return done;
    if (place->behind.version == 0) return {};
  }
  // What of it is in both may leave.
  const auto now = store_.stat(id);
  return now ? note_here(*now) : Result<void>{};
}

// --- clones

Result<void> Cache::clone(const store::CloneRequest& request, store::ClientId client) {
  return run([&] { return clone_once(request, client); });
}

Result<void> Cache::clone_once(const store::CloneRequest& request, store::ClientId client) {
  const auto from = store_.stat(request.from);
  if (!from || from->behind == 0) return store_.clone(request, client);
  if (!request.to_name.empty() && store_.find(request.to_name)) {
    return fail(Error{store::Code::kExists,
                      fmt::format("another object has the name '{}'", request.to_name),
                      {}});
  }
  const bool all =
      request.from_offset == 0 && (request.length == 0 || request.length == from->size);
  const bool fresh = request.to_offset == 0 && store::good_name(request.to_name) &&
                     !store_.stat(request.to).has_value();
  const auto fits = all ? check_fits(*from) : Result<void>{};
  if (all && fresh && (from->behind > from->chunks || !fits)) return copy_behind(request);
  return fits ? store_.clone(request, client) : fits;
}

Result<void> Cache::copy_behind(const store::CloneRequest& request) {
  for (int round = 0;; ++round) {
    if (const auto flushed = flush(request.from); !flushed) return flushed;
    std::vector<ObjectId> waiting;
    const auto free = free_key({std::string(request.to_name), request.to}, waiting);
    if (!free) return free;
    bool again = false;
    const auto done = copy_behind_once(request, &again);
    if (done || !again || round == kMaxAttempts) return done;
  }
}

Result<void> Cache::copy_behind_once(const store::CloneRequest& request, bool* again) {
  const Busy busy(busy_, request.from, request.to);
  const auto from = store_.stat(request.from);
  if (!from) return fail(from.error());
  const auto place = store_.behind(request.from);
  if (!place) return fail(place.error());
  const backend::Key key{std::string(request.to_name), request.to};
  if (!from->flushed || graves_.any(key)) {
    *again = true;
    return fail(Error{store::Code::kConflict, "the object changes while it is cloned", {}});
  }
  const auto version = draw_version();
  if (!version) return fail(version.error());
  // Until the object is here, what comes to be there is nobody's.
  const store::Behind begun{.version = 0, .next = *version, .tries = 1};
  if (const auto noted = graves_.add(key, begun, request.to); !noted) return noted;
  if (const auto durable = store_.flush(); !durable) return durable;
  const backend::State state{.version = *version, .size = from->size, .modified_ns = wall_clock()};
  auto update =
      tier_.update(key, {.base = std::nullopt,
                         .state = state,
                         .source = backend::Source{{from->name, from->id}, place->behind.version}});
  if (!update) return fail(update.error());
  if (const auto done = (*update)->commit(); !done) return done;
  if (const auto adopted =
          store_.adopt(request.to, request.to_name, {state.version, state.size, state.modified_ns});
      !adopted) {
    return adopted;
  }
  for (const Grave& grave : graves_.of(key)) {
    // If that fails, it is found out later that it means nothing.
    if (grave.behind == begun) static_cast<void>(graves_.remove(grave));
  }
  return {};
}

// --- what is behind and no object's own

bool Cache::uses(ObjectId id, const backend::Key& key) const {
  const auto place = store_.behind(id);
  return place && place->under && same_key({place->under->name, place->under->id}, key);
}

// It is as it was when the grave was made, but for flushes whose end was not known then.
bool Cache::is_own(const Grave& grave) const {
  const auto id =
      grave.key.name.empty() ? Result<ObjectId>(grave.key.id) : store_.find(grave.key.name);
  const auto info = id ? store_.stat(*id) : fail(id.error());
  const auto place = info ? store_.behind(*id) : fail(info.error());
  if (!place || info->name != grave.key.name) return false;
  const store::Behind& own = place->own();
  if (own.version != 0) return grave.behind.may_be(own.version);
  return own.tries > 0 && own.next == grave.behind.next;
}

bool Cache::covers(const backend::Key& key, uint64_t version) const {
  for (const Grave& grave : graves_.of(key)) {
    if (grave.behind.may_be(version)) return true;
  }
  return false;
}

// So that there is no moment at which neither is there: a store in memory may be lost.
Result<void> Cache::replace_what_goes(ObjectId id) {
  const Busy busy(busy_, id);
  const auto info = store_.stat(id);
  if (!info) return fail(info.error());
  const backend::Key key{info->name, id};
  const auto place = store_.behind(id);
  if (!place) return fail(place.error());
  if (!place->under || place->own() != store::Behind{} || !graves_.any(key)) return {};
  const auto there = tier_.state(key);
  if (!there) {
    return there.error().code == store::Code::kNotFound ? Result<void>{} : fail(there.error());
  }
  const MutexLock lock(places_);
  for (const Grave& grave : graves_.of(key)) {
    if (uses(grave.user, key)) return {};
  }
  return covers(key, there->version) ? store_.replaces_behind(id, there->version) : Result<void>{};
}

Result<void> Cache::free_key(const backend::Key& key, std::vector<ObjectId>& waiting) {
  for (int round = 0; round < kMaxAttempts; ++round) {
    const auto graves = graves_.of(key);
    if (graves.empty()) return {};
    for (const Grave& grave : graves) {
      if (!uses(grave.user, key)) continue;
      // It is copied once, to where it belongs, unless those who wait have that place.
      const bool cycle = std::ranges::find(waiting, grave.user) != waiting.end();
      if (!cycle && waiting.size() < kMaxWaiting && flush_before(grave.user, waiting)) continue;
      if (const auto done = set_aside(grave.user, key); !done) return done;
    }
    for (const Grave& grave : graves) {
      if (const auto buried = bury(grave); !buried) return buried;
    }
  }
  return fail(Error{store::Code::kConflict,
                    fmt::format("another object is still behind under the name '{}'", key.name),
                    {}});
}

// What the object uses is copied to a place that nobody else wants.
Result<void> Cache::set_aside(ObjectId user, const backend::Key& key) {
  const Busy busy(busy_, user);
  const auto place = store_.behind(user);
  if (!place)
    return place.error().code == store::Code::kNotFound ? Result<void>{} : fail(place.error());
  if (!uses(user, key)) return {};
  const auto there = tier_.state(key);
  if (!there && there.error().code != store::Code::kNotFound) return fail(there.error());
  if (!there || !place->behind.may_be(there->version)) return lose_place(user, key, there);
  const auto number = store::draw_random(options_.random);
  if (!number) return fail(number.error());
  const auto version = draw_version();
  if (!version) return fail(version.error());
  const backend::Key aside = aside_of(key, *number);
  const store::Behind begun{.version = 0, .next = *version, .tries = 1};
  if (const auto noted = graves_.add(aside, begun, user); !noted) return noted;
  if (const auto durable = store_.flush(); !durable) return durable;
  auto update = tier_.update(
      aside,
      {.base = std::nullopt,
       .state = {.version = *version, .size = there->size, .modified_ns = there->modified_ns},
       .source = backend::Source{key, there->version}});
  if (!update) return fail(update.error());
  if (const auto done = (*update)->commit(); !done) return done;
  const MutexLock lock(places_);
  return store_.move_behind(user, aside.name, aside.id, *version);
}

// Another program has removed or changed what the object uses. If all of it is here, that does not
// matter; else its own flush and loads tell. Those who have the key now do not wait for it.
Result<void> Cache::lose_place(ObjectId user, const backend::Key& key,
                               const Result<backend::State>& there) {
  const auto detached = store_.detach(user);
  if (detached || detached.error().code != store::Code::kBehind) return detached;
  for (const Grave& grave : graves_.of(key)) {
    if (grave.user != user || (there && grave.behind.may_be(there->version))) continue;
    if (const auto removed = graves_.remove(grave); !removed) return removed;
  }
  return {};
}

Result<void> Cache::bury(const Grave& grave) {
  const Busy busy(busy_, grave.user);
  {
    const MutexLock lock(places_);
    for (const Grave& other : graves_.of(grave.key)) {
      if (uses(other.user, grave.key)) return {};
    }
    if (is_own(grave)) return graves_.remove(grave);
  }
  // Now nobody will: only who has it could give it to another. That it is gone here is durable
  // before it is there.
  if (const auto durable = store_.flush(); !durable) return durable;
  const auto there = tier_.state(grave.key);
  if (there && grave.behind.may_be(there->version)) {
    if (const auto removed = tier_.remove(grave.key, there->version); !removed) return removed;
  } else if (!there && there.error().code != store::Code::kNotFound) {
    return fail(there.error());
  }
  return graves_.remove(grave);
}

// What it was stays until what it is now is there: a store in memory may be lost.
bool Cache::is_due(ObjectId id) const {
  const auto place = store_.behind(id);
  return place && (place->under || place->behind.version == 0);
}

Result<void> Cache::bury_all() {
  Result<void> outcome;
  std::vector<Grave> graves = graves_.all();
  begin_elsewhere(graves);
  uint32_t failed = 0;  // in a row
  for (const Grave& grave : graves) {
    if (is_due(grave.user)) continue;
    const auto buried = bury(grave);
    failed = buried ? 0 : failed + 1;
    if (!buried && outcome) outcome = buried;
    if (failed < kMaxFailures) continue;
    turn_ += kMaxFailures;
    break;
  }
  return outcome;
}

}  // namespace verbena::cache
