// SPDX-License-Identifier: Apache-2.0
#include "store/index_loss.h"

#include <algorithm>

namespace verbena::store {

const ObjectDoubt* ObjectDoubts::find(uint64_t number) const {
  const auto found = doubts_.find(number);
  return found == doubts_.end() ? nullptr : &found->second;
}

void ObjectDoubts::add(uint64_t number, ObjectDoubt doubt) {
  if (!doubt.any()) return;
  ObjectDoubt& known = doubts_[number];
  known.bytes |= doubt.bytes;
  known.name |= doubt.name;
  known.older |= doubt.older;
  known.removed |= doubt.removed;
  known.runs.insert(known.runs.end(), doubt.runs.begin(), doubt.runs.end());
}

// What these chunks are is known now.
void ObjectDoubts::replaced(uint64_t number, NumberRange chunks) {
  const auto found = doubts_.find(number);
  if (found == doubts_.end()) return;
  ObjectDoubt& doubt = found->second;
  doubt.bytes = doubt.removed = false;
  std::vector<NumberRange> left;
  for (const NumberRange& range : doubt.runs) {
    if (range.first < chunks.first)
      left.push_back({range.first, std::min(range.end, chunks.first)});
    if (range.end > chunks.end) left.push_back({std::max(range.first, chunks.end), range.end});
  }
  doubt.runs = std::move(left);
  if (chunks == NumberRange{0, kMaxIndex}) doubt.older = false;
  if (!doubt.any()) doubts_.erase(found);
}

// What is in doubt where it comes from is in doubt where it goes.
void ObjectDoubts::cloned(const CloneRecord& record) {
  std::vector<NumberRange> with;
  bool older = false;
  if (const ObjectDoubt* const from = find(record.from)) {
    older = from->older;
    for (const NumberRange& range : from->runs) {
      const uint64_t first = std::max(range.first, record.from_index);
      const uint64_t end = std::min(range.end, record.from_index + record.count);
      if (first >= end) continue;
      with.push_back(
          {first - record.from_index + record.to_index, end - record.from_index + record.to_index});
    }
  }
  replaced(record.to, {record.to_index, record.to_index + record.count});
  ObjectDoubt doubt;
  doubt.older = older;
  doubt.runs = std::move(with);
  add(record.to, std::move(doubt));
}

void ObjectDoubts::applied(const Record& record) {
  if (const auto* const map = std::get_if<MapRecord>(&record)) {
    for (const Run& run : map->runs) replaced(map->number, {run.index, run.index + run.count});
  } else if (const auto* const content = std::get_if<ContentRecord>(&record)) {
    replaced(content->number, {0, kMaxIndex});
  } else if (const auto* const truncate = std::get_if<TruncateRecord>(&record)) {
    replaced(truncate->number, {(truncate->size + kDataBytes - 1) / kDataBytes, kMaxIndex});
  } else if (const auto* const clone = std::get_if<CloneRecord>(&record)) {
    cloned(*clone);
  } else if (const auto* const take = std::get_if<TakeRecord>(&record)) {
    cloned({take->from, 0, take->to, 0, kMaxIndex, 0});
    doubts_.erase(take->from);
  } else if (const auto* const rename = std::get_if<RenameRecord>(&record)) {
    const auto found = doubts_.find(rename->number);
    if (found == doubts_.end()) return;
    found->second.removed = found->second.name = false;
    if (!found->second.any()) doubts_.erase(found);
  } else if (const auto* const gone = std::get_if<DeleteRecord>(&record)) {
    doubts_.erase(gone->number);
  }
}

}  // namespace verbena::store
