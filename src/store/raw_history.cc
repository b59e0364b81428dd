// SPDX-License-Identifier: Apache-2.0
#include "store/raw_history.h"

#include <algorithm>
#include <tuple>

#include "store/crc_parts.h"

namespace verbena::store {
namespace {

bool is_sound(std::string_view content, uint32_t crc) {
  return crc_of({reinterpret_cast<const uint8_t*>(content.data()), content.size()}) == crc;
}

}  // namespace

void RawHistory::wrote(const ChunkHead& head, uint64_t number) {
  writes_[head.id] = {number, head.length, head.birth};
}

// It was so when the table was made: in its epoch, and not before it was written.
void RawHistory::table_said(const ChunkHead& head, std::span<const Record> records) {
  for (const Record& record : records) {
    if (const auto* const object = std::get_if<ObjectRecord>(&record)) {
      if (object->content.empty() || !is_sound(object->content, object->crc)) continue;
      changes_.emplace_back(head.birth.txn, Content{object->number, object->modified_ns,
                                                    std::string(object->content)});
    } else if (const auto* const map = std::get_if<MapRecord>(&record)) {
      for (const Run& run : map->runs) {
        if (run.birth.owner == map->number || !run.has_chunks()) continue;
        shared_.push_back({std::max(head.birth.txn, run.birth.txn), map->number, run});
      }
    }
  }
}

void RawHistory::said(const ChunkHead& head, std::span<const Record> records) {
  if (head.flags != kFlagLog) return table_said(head, records);
  LogChunk& chunk = log_[{head.birth.txn, head.birth.index}];
  chunk.open.clear();  // its other copy may have said the same
  for (const Record& record : records) {
    if (const auto* const truncate = std::get_if<TruncateRecord>(&record)) {
      chunk.open.emplace_back(*truncate);
    } else if (const auto* const clone = std::get_if<CloneRecord>(&record)) {
      chunk.open.emplace_back(*clone);
    } else if (const auto* const take = std::get_if<TakeRecord>(&record)) {
      chunk.open.emplace_back(CloneRecord{take->from, 0, take->to, 0, kMaxIndex, 0});
    } else if (const auto* const content = std::get_if<ContentRecord>(&record)) {
      if (!is_sound(content->content, content->crc)) continue;
      chunk.open.emplace_back(Content{content->number, 0, std::string(content->content)});
    } else if (const auto* const commit = std::get_if<CommitRecord>(&record)) {
      if (!chunk.first_commit) chunk.first_commit = commit->txn;
      for (Change& change : chunk.open) {
        if (auto* const bytes = std::get_if<Content>(&change)) bytes->time_ns = commit->time_ns;
        changes_.emplace_back(commit->txn, std::move(change));
      }
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
    std::variant<TruncateRecord, CloneRecord, const Shared*, const Write*, const Content*> what;
    size_t found = 0;  // in the order in which they were found, where nothing else tells
    [[nodiscard]] auto order() const { return std::tuple(txn, what.index(), found); }
  };
  std::vector<Event> events;
  const auto add = [&](uint64_t txn, const Change& change) {
    if (const auto* const content = std::get_if<Content>(&change)) {
      events.push_back({txn, content, 0});
    } else if (const auto* const truncate = std::get_if<TruncateRecord>(&change)) {
      events.push_back({txn, *truncate, 0});
    } else {
      events.push_back({txn, std::get<CloneRecord>(change), 0});
    }
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
  std::map<uint64_t, const Content*> contents;
  const auto happen = [&](const auto& what) {
    using What = std::decay_t<decltype(what)>;
    if constexpr (std::is_same_v<What, const Content*>) {
      // A table's may be older than its place in the order says.
      const Content*& known = contents[what->number];
      if (known == nullptr || what->time_ns == 0 || what->time_ns >= known->time_ns) known = what;
      Object& object = objects[what->number];
      erase(object, object.begin(), object.end());
    } else if constexpr (std::is_same_v<What, TruncateRecord>) {
      contents.erase(what.number);
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
      contents.erase(what.to);
      const auto content = contents.find(what.from);  // which only a TAKE passes on
      if (content != contents.end()) contents[what.to] = content->second;
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
        contents.erase(what->number);
        share(objects[what->number], what->run.index + i,
              {write->second.number, birth.txn, write->second.length});
      }
    } else {
      contents.erase(what->birth.owner);
      objects[what->birth.owner][what->birth.index] = {what->number, what->birth.txn, what->length};
    }
  };
  for (const Event& event : events) std::visit(happen, event.what);
  for (const auto& [number, content] : contents) outcome.contents[number] = content->bytes;
  return outcome;
}

}  // namespace verbena::store
