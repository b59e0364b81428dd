// SPDX-License-Identifier: Apache-2.0
#include "store/partial_index.h"

#include <algorithm>

namespace verbena::store {
namespace {

uint64_t end_of(const MapRecord& map) { return map.runs.back().index + map.runs.back().count; }

// Which chunks of an object of so many may be in MAPs that are lost.
std::vector<NumberRange> lost_runs(const PartialTable& table, uint64_t number, uint64_t chunks) {
  std::vector<NumberRange> lost;
  for (const PartialTable::Gap& gap : table.gaps(Section::kRuns)) {
    if ((gap.low && gap.low->number > number) || (gap.high && gap.high->number < number)) continue;
    NumberRange range{0, chunks};
    if (gap.low && gap.low->number == number) {
      for (const Record& record : table.runs(number)) {
        const auto& map = std::get<MapRecord>(record);
        if (map.runs.front().index <= gap.low->index) range.first = end_of(map);
      }
    }
    if (gap.high && gap.high->number == number) range.end = std::min(chunks, gap.high->index);
    if (range.first < range.end) lost.push_back(range);
  }
  return lost;
}

uint64_t count_runs(std::span<const Record> maps) {
  uint64_t count = 0;
  for (const Record& record : maps) count += std::get<MapRecord>(record).runs.size();
  return count;
}

uint64_t chunks_of(uint64_t size) { return (size + kDataBytes - 1) / kDataBytes; }

}  // namespace

PartialIndex::PartialIndex(std::span<const PartialTable> tables) {
  for (const PartialTable& table : tables) {
    take(table);
    newer_.push_back(&table);
  }
}

void PartialIndex::take(const PartialTable& table) {
  std::set<uint64_t> its;  // numbers
  for (const Record& record : table.records(Section::kObjects)) {
    const auto* const object = std::get_if<ObjectRecord>(&record);
    const uint64_t number =
        object != nullptr ? object->number : std::get<DeleteRecord>(record).number;
    its.insert(number);
    if (decided_.contains(number)) continue;
    if (object != nullptr) take_object(table, *object);
  }
  for (const auto& [number, listed] : table.listed()) {
    if (its.contains(number) || !table.may_lack(Section::kObjects, {.number = number})) continue;
    its.insert(number);
    if (!decided_.contains(number)) take_listed(table, number, listed);
  }
  decided_.merge(its);
  note_unknown(table);
}

void PartialIndex::take_object(const PartialTable& table, const ObjectRecord& object) {
  ObjectDoubt doubt;
  if (count_runs(table.runs(object.number)) != object.runs) {
    doubt.runs = lost_runs(table, object.number, chunks_of(object.size));
  }
  add(table, object, std::move(doubt));
}

// Its OBJECT is lost. MAPs have its size; without any, its bytes were in OBJECT, or it was empty,
// or they are lost, too.
void PartialIndex::take_listed(const PartialTable& table, uint64_t number,
                               const PartialTable::Listed& listed) {
  if (!listed.id) {
    unknown_.push_back({number, number + 1});
    return;
  }
  ObjectRecord object;
  object.number = number;
  object.id = *listed.id;
  object.name = listed.name.value_or(std::string_view{});
  ObjectDoubt doubt;
  const auto maps = table.runs(number);
  if (maps.empty()) {
    doubt.bytes = true;
    doubt.runs = lost_runs(table, number, kMaxIndex);
  } else {
    object.size = std::get<MapRecord>(maps.front()).size;
    doubt.runs = lost_runs(table, number, chunks_of(object.size));
  }
  doubt.name = !listed.name;
  add(table, object, std::move(doubt));
}

void PartialIndex::add(const PartialTable& table, const ObjectRecord& object, ObjectDoubt doubt) {
  for (const PartialTable* const newer : newer_) {
    if (!newer->may_lack(Section::kObjects, {.number = object.number})) continue;
    doubt.removed = true;
    if (!newer->lists(object.id)) doubt.older = true;
  }
  objects_.emplace(object.number, Entry{object, table.runs(object.number), std::move(doubt)});
}

// Where neither name nor id of an object can be found, it is not known that there was one.
void PartialIndex::note_unknown(const PartialTable& table) {
  if (table.gaps(Section::kNames).empty() || table.gaps(Section::kIds).empty()) return;
  for (const PartialTable::Gap& gap : table.gaps(Section::kObjects)) {
    unknown_.push_back(
        {gap.low ? gap.low->number + 1 : 1, gap.high ? gap.high->number : kEveryNumber});
  }
}

}  // namespace verbena::store
