// SPDX-License-Identifier: Apache-2.0
#include "store/ranges.h"

#include <algorithm>
#include <limits>
#include <new>
#include <set>

namespace verbena::store {
namespace {

constexpr uint64_t kLastByte = std::numeric_limits<uint64_t>::max();

[[nodiscard]] std::string text_of(uint64_t offset, uint64_t last) {
  std::string text = "bytes " + std::to_string(offset) + " to ";
  return text + (last == kLastByte ? "the end" : std::to_string(last));
}

}  // namespace

void RangeRegistry::Ranges::insert(const Range& range) {
  const auto at = std::ranges::upper_bound(all_, range.offset, {}, &Range::offset);
  // Before the insertion, which may move the ranges.
  const auto index = static_cast<size_t>(at - all_.begin());
  all_.insert(at, range);
  refresh(index);
}

void RangeRegistry::Ranges::refresh(size_t first) {
  uint64_t reach = first == 0 ? 0 : all_[first - 1].reach;
  for (size_t i = first; i < all_.size(); ++i) {
    reach = std::max(reach, all_[i].last);
    all_[i].reach = reach;
  }
}

const RangeRegistry::Range* RangeRegistry::Ranges::find_conflict(const Range& wish) const {
  // Backwards from the last that begins early enough, until nothing before reaches as far.
  auto at = std::ranges::upper_bound(all_, wish.last, {}, &Range::offset);
  while (at != all_.begin() && std::prev(at)->reach >= wish.offset) {
    --at;
    const bool overlap = at->last >= wish.offset;
    const bool writing = at->access == Access::kWrite || wish.access == Access::kWrite;
    if (overlap && writing && at->client != wish.client) return &*at;
  }
  return nullptr;
}

Error RangeRegistry::refusal(ObjectId object, const Range& wish, const Range& conflict) {
  return {.code = Code::kConflict,
          .what = text_of(wish.offset, wish.last) + " of object " + store::text_of(object) +
                  " cannot be " + (wish.access == Access::kWrite ? "written" : "read") +
                  " by client " + std::to_string(wish.client) + ": client " +
                  std::to_string(conflict.client) + " has registered " +
                  text_of(conflict.offset, conflict.last) + " for " +
                  (conflict.access == Access::kWrite ? "writing" : "reading")};
}

Result<RangeId> RangeRegistry::add(ClientId client, ObjectId object, uint64_t offset,
                                   uint64_t length, Access access) {
  if (client == 0) return fail(Error{Code::kInvalid, "a range needs a client id other than 0"});
  if (length != 0 && length - 1 > kLastByte - offset) {
    return fail(Error{Code::kInvalid, std::to_string(length) + " bytes at offset " +
                                          std::to_string(offset) + " end past 2^64"});
  }
  const uint64_t last = length == 0 ? kLastByte : offset + (length - 1);

  const MutexLock lock(mutex_);
  Range range{.id = next_, .client = client, .offset = offset, .last = last, .access = access};
  if (const auto there = by_object_.find(object); there != by_object_.end()) {
    if (const Range* conflict = there->second.find_conflict(range)) {
      return fail(refusal(object, range, *conflict));
    }
  }
  const auto own = by_client_.find(client);
  if (own != by_client_.end() && own->second.size() >= kMaxPerClient) {
    return fail(Error{Code::kFull, "client " + std::to_string(client) + " has " +
                                       std::to_string(kMaxPerClient) +
                                       " ranges, which is the maximum"});
  }
  try {
    by_client_[client].emplace(range.id, object);
    by_object_[object].insert(range);
  } catch (const std::bad_alloc&) {
    forget(client, range.id);
    tidy(object);
    return fail(Error{Code::kNoMemory, "out of memory"});
  }
  return next_++;
}

void RangeRegistry::forget(ClientId client, RangeId range) {
  const auto own = by_client_.find(client);
  if (own == by_client_.end()) return;
  own->second.erase(range);
  if (own->second.empty()) by_client_.erase(own);
}

void RangeRegistry::tidy(ObjectId object) {
  const auto there = by_object_.find(object);
  if (there != by_object_.end() && there->second.empty()) by_object_.erase(there);
}

Result<void> RangeRegistry::remove(ClientId client, RangeId range) {
  const MutexLock lock(mutex_);
  if (const auto own = by_client_.find(client); own != by_client_.end()) {
    if (const auto there = own->second.find(range); there != own->second.end()) {
      const ObjectId object = there->second;
      by_object_.at(object).erase_if([&](const Range& r) { return r.id == range; });
      tidy(object);
      forget(client, range);
      return {};
    }
  }
  return fail(Error{Code::kNotFound,
                    "client " + std::to_string(client) + " has no range " + std::to_string(range)});
}

void RangeRegistry::drop(ClientId client) {
  const MutexLock lock(mutex_);
  const auto own = by_client_.extract(client);
  if (own.empty()) return;
  // Each object once, however many of its ranges are this client's.
  std::set<ObjectId> objects;
  for (const auto& [range, object] : own.mapped()) objects.insert(object);
  for (const ObjectId object : objects) {
    by_object_.at(object).erase_if([&](const Range& r) { return r.client == client; });
    tidy(object);
  }
}

void RangeRegistry::drop(ObjectId object) {
  const MutexLock lock(mutex_);
  const auto there = by_object_.extract(object);
  if (there.empty()) return;
  for (const Range& range : there.mapped().all()) forget(range.client, range.id);
}

Result<void> RangeRegistry::check_write(ClientId client, ObjectId object, uint64_t offset,
                                        uint64_t length) const {
  if (length == 0) return {};
  const Range wish{.id = 0,
                   .client = client,
                   .offset = offset,
                   .last = length - 1 > kLastByte - offset ? kLastByte : offset + (length - 1),
                   .access = Access::kWrite};
  const MutexLock lock(mutex_);
  const auto there = by_object_.find(object);
  if (there == by_object_.end()) return {};
  if (const Range* conflict = there->second.find_conflict(wish)) {
    return fail(refusal(object, wish, *conflict));
  }
  return {};
}

size_t RangeRegistry::size() const {
  const MutexLock lock(mutex_);
  size_t size = 0;
  for (const auto& [object, ranges] : by_object_) size += ranges.all().size();
  return size;
}

}  // namespace verbena::store
