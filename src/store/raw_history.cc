// SPDX-License-Identifier: Apache-2.0
#include "store/raw_history.h"

#include <algorithm>
#include <tuple>

namespace verbena::store {

void RawHistory::wrote(const ChunkHead& head, uint64_t number) {
  writes_[head.id] = {number, head.length, head.birth};
}

void RawHistory::said(const ChunkHead& head, std::span<const Record> records) {
  if (head.flags != kFlagLog) {
    for (const Record& record : records) {
      const auto* const map = std::get_if<MapRecord>(&record);
      if (map == nullptr) continue;
      for (const Run& run : map->runs) {
        if (run.birth.owner == map->number) continue;
        // It was so when the checkpoint was made: in its epoch, and not before it was written.
        shared_.push_back({std::max(head.birth.txn, run.birth.txn), map->number, run});
      }
    }
    return;
  }
  LogChunk& chunk = log_[{head.birth.txn, head.birth.index}];
  chunk.open.clear();  // its other copy may have said the same
  for (const Record& record : records) {
    if (const auto* const truncate = std::get_if<TruncateRecord>(&record)) {
      chunk.open.emplace_back(*truncate);
    } else if (const auto* const clone = std::get_if<CloneRecord>(&record)) {
      chunk.open.emplace_back(*clone);
    } else if (const auto* const commit = std::get_if<CommitRecord>(&record)) {
      if (!chunk.first_commit) chunk.first_commit = commit->txn;
      for (const Change& change : chunk.open) changes_.emplace_back(commit->txn, change);
      chunk.open.clear();
    }
  }
}

// For each log chunk the transaction that is open at its end; none if that was not finished, or its
// end is lost. Backwards, so that each chunk is looked at once.
template <typename Found>
void RawHistory::for_each_end(const Found& found) const {
  Place next{};
  std::optional<uint64_t> commit;
  for (auto at = log_.rbegin(); at != log_.rend(); ++at) {
    const auto& [place, chunk] = *at;
    if (next != Place{place.first, place.second + 1}) commit.reset();
    found(chunk, commit);
    if (chunk.first_commit) commit = chunk.first_commit;
    next = place;
  }
}

RawHistory::Outcome RawHistory::objects() const {
  // In a transaction what goes away does so first, then what comes from elsewhere comes.
  struct Event {
    uint64_t txn = 0;
    std::variant<TruncateRecord, CloneRecord, const Shared*, const Write*> what;
    size_t found = 0;  // in the order in which they were found, where nothing else tells
    [[nodiscard]] auto order() const { return std::tuple(txn, what.index(), found); }
  };
  std::vector<Event> events;
  const auto add = [&](uint64_t txn, const Change& change) {
    std::visit([&](const auto& record) { events.push_back({txn, record, 0}); }, change);
  };
  for (const auto& [txn, change] : changes_) add(txn, change);
  for_each_end([&](const LogChunk& chunk, const std::optional<uint64_t>& txn) {
    if (!txn) return;
    for (const Change& change : chunk.open) add(*txn, change);
  });
  for (const Shared& shared : shared_) events.push_back({shared.txn, &shared, 0});
  for (const auto& [id, write] : writes_) events.push_back({write.birth.txn, &write, 0});
  for (size_t i = 0; i < events.size(); ++i) events[i].found = i;
  std::ranges::sort(events, {}, &Event::order);

  // Clones of clones of clones: what a log that was made for it may ask for is bounded, in memory
  // (chunks that objects have of others, at one time) and in time (all that are passed on).
  uint64_t room = 16 * writes_.size() + 1'000'000;
  uint64_t steps = 64 * room;
  Outcome outcome;
  auto& objects = outcome.objects;
  const auto may = [&](uint64_t& left) {
    if (left == 0) outcome.all = false;
    return left > 0;
  };
  const auto erase = [&](Object& object, Object::iterator from, Object::iterator to) {
    const size_t before = object.size();
    object.erase(from, to);
    room += before - object.size();
  };
  const auto share = [&](Object& object, uint64_t index, const Chunk& chunk) {
    if (may(room) && object.insert_or_assign(index, chunk).second) --room;
  };
  const auto happen = [&](const auto& what) {
    using What = std::decay_t<decltype(what)>;
    if constexpr (std::is_same_v<What, TruncateRecord>) {
      Object& object = objects[what.number];
      erase(object, object.lower_bound((what.size + kDataBytes - 1) / kDataBytes), object.end());
    } else if constexpr (std::is_same_v<What, CloneRecord>) {
      std::vector<std::pair<uint64_t, Chunk>> copies;
      const Object& from = objects[what.from];
      for (auto at = from.lower_bound(what.from_index);
           at != from.end() && at->first - what.from_index < what.count && may(steps); ++at) {
        --steps;
        copies.emplace_back(at->first - what.from_index + what.to_index, at->second);
      }
      Object& to = objects[what.to];
      erase(to, to.lower_bound(what.to_index), to.lower_bound(what.to_index + what.count));
      for (const auto& [index, chunk] : copies) share(to, index, chunk);
    } else if constexpr (std::is_same_v<What, const Shared*>) {
      for (uint32_t i = 0; i < what->run.count && may(steps); ++i) {
        --steps;
        const auto write = writes_.find(what->run.chunk + i);
        const Birth& birth = what->run.birth;
        if (write == writes_.end() ||
            write->second.birth != Birth{birth.owner, birth.index + i, birth.txn}) {
          continue;
        }
        share(objects[what->number], what->run.index + i,
              {write->second.number, birth.txn, write->second.length});
      }
    } else {
      objects[what->birth.owner][what->birth.index] = {what->number, what->birth.txn, what->length};
    }
  };
  for (const Event& event : events) std::visit(happen, event.what);
  return outcome;
}

}  // namespace verbena::store
