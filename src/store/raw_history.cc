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

// The transaction that is open at the end of a log chunk.
std::optional<uint64_t> RawHistory::end_of(Place place) const {
  for (++place.second;; ++place.second) {
    const auto next = log_.find(place);
    if (next == log_.end()) return std::nullopt;  // it was not finished, or its end is lost
    if (next->second.first_commit) return next->second.first_commit;
  }
}

std::map<uint64_t, RawHistory::Object> RawHistory::objects() const {
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
  for (const auto& [place, chunk] : log_) {
    const auto txn = chunk.open.empty() ? std::nullopt : end_of(place);
    if (!txn) continue;
    for (const Change& change : chunk.open) add(*txn, change);
  }
  for (const Shared& shared : shared_) events.push_back({shared.txn, &shared, 0});
  for (const auto& [id, write] : writes_) events.push_back({write.birth.txn, &write, 0});
  for (size_t i = 0; i < events.size(); ++i) events[i].found = i;
  std::ranges::sort(events, {}, &Event::order);

  // Clones of clones of clones: what a log that was made for it may ask for is bounded.
  uint64_t room = 16 * writes_.size() + 1'000'000;
  std::map<uint64_t, Object> objects;
  const auto happen = [&](const auto& what) {
    using What = std::decay_t<decltype(what)>;
    if constexpr (std::is_same_v<What, TruncateRecord>) {
      Object& object = objects[what.number];
      object.erase(object.lower_bound((what.size + kDataBytes - 1) / kDataBytes), object.end());
    } else if constexpr (std::is_same_v<What, CloneRecord>) {
      std::vector<std::pair<uint64_t, Chunk>> copies;
      const Object& from = objects[what.from];
      for (auto at = from.lower_bound(what.from_index);
           at != from.end() && at->first - what.from_index < what.count && room > 0; ++at) {
        --room;
        copies.emplace_back(at->first - what.from_index + what.to_index, at->second);
      }
      Object& to = objects[what.to];
      to.erase(to.lower_bound(what.to_index), to.lower_bound(what.to_index + what.count));
      for (const auto& [index, chunk] : copies) to[index] = chunk;
    } else if constexpr (std::is_same_v<What, const Shared*>) {
      for (uint32_t i = 0; i < what->run.count; ++i) {
        const auto write = writes_.find(what->run.chunk + i);
        const Birth& birth = what->run.birth;
        if (write == writes_.end() ||
            write->second.birth != Birth{birth.owner, birth.index + i, birth.txn}) {
          continue;
        }
        objects[what->number][what->run.index + i] = {write->second.number, birth.txn,
                                                      write->second.length};
      }
    } else {
      objects[what->birth.owner][what->birth.index] = {what->number, what->birth.txn, what->length};
    }
  };
  for (const Event& event : events) std::visit(happen, event.what);
  return objects;
}

}  // namespace verbena::store
