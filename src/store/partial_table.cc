// SPDX-License-Identifier: Apache-2.0
#include "store/partial_table.h"

#include <algorithm>
#include <ranges>

namespace verbena::store {
namespace {

std::optional<Section> section_of(const Record& record) {
  for (const Section section :
       {Section::kObjects, Section::kRuns, Section::kNames, Section::kIds}) {
    if (key_of(section, record)) return section;
  }
  return {};
}

// All records of a chunk, which are of one section and in order; none otherwise.
std::vector<Record> decode(std::span<const uint8_t> bytes) {
  std::vector<Record> records;
  RecordReader reader(bytes);
  while (!reader.done()) {
    auto record = reader.next();
    if (!record) return {};
    records.push_back(std::move(*record));
  }
  const auto section = records.empty() ? std::nullopt : section_of(records.front());
  if (!section) return {};
  for (size_t i = 1; i < records.size(); ++i) {
    const auto before = key_of(*section, records[i - 1]);
    const auto key = key_of(*section, records[i]);
    if (!key || compare(*section, *before, *key) >= 0) return {};
  }
  return records;
}

}  // namespace

PartialTable::PartialTable(const StoredTable& table) {
  const auto chunks = read(table);
  for (const Section section :
       {Section::kObjects, Section::kRuns, Section::kNames, Section::kIds}) {
    take(section, chunks);
  }
  for (const Record& record : records(Section::kNames)) {
    const auto& name = std::get<NameRecord>(record);
    Listed& listed = listed_[name.number];
    listed.name = name.name;
    if (name.name.empty()) listed.id = name.id;
  }
  for (const Record& record : records(Section::kIds)) {
    const auto& id = std::get<IdRecord>(record);
    listed_[id.number].id = id.id;
  }
}

std::vector<PartialTable::Chunk> PartialTable::read(const StoredTable& table) {
  std::vector<Chunk> chunks(table.chunks() - 1);
  const auto shape = table.shape();
  Section least = Section::kObjects;
  for (size_t i = 0; i < chunks.size(); ++i) {
    Chunk& chunk = chunks[i];
    if (const auto bytes = table.records(i)) chunk.records = decode(*bytes);
    if (shape) {
      while (i >= shape->first(least) + shape->count(least)) {
        least = static_cast<Section>(static_cast<size_t>(least) + 1);
      }
      chunk.first = chunk.last = least;
      if (!chunk.records.empty() && section_of(chunk.records.front()) != least) {
        chunk.records.clear();
      }
    } else if (!chunk.records.empty()) {
      const Section section = *section_of(chunk.records.front());
      if (section < least) chunk.records.clear();
      least = std::max(least, section);
      chunk.first = chunk.last = least;
    } else {
      chunk.first = least;
    }
  }
  // Sections are in order: a chunk that is lost is of none behind that of the next one.
  Section most = Section::kIds;
  for (Chunk& chunk : std::views::reverse(chunks)) {
    if (chunk.records.empty()) {
      chunk.last = std::min(chunk.last, most);
    } else {
      most = chunk.last;
    }
  }
  return chunks;
}

void PartialTable::take(Section section, const std::vector<Chunk>& chunks) {
  auto& records = records_.at(static_cast<size_t>(section));
  auto& gaps = gaps_.at(static_cast<size_t>(section));
  const auto last_key = [&]() -> std::optional<TableKey> {
    return records.empty() ? std::nullopt : key_of(section, records.back());
  };
  bool open = false;
  for (const Chunk& chunk : chunks) {
    if (section < chunk.first || section > chunk.last) continue;
    const auto first =
        chunk.records.empty() ? std::nullopt : key_of(section, chunk.records.front());
    const auto before = last_key();
    if (!first || (before && compare(section, *before, *first) >= 0)) {
      open = true;
      continue;
    }
    if (open) gaps.push_back({before, first});
    open = false;
    records.insert(records.end(), chunk.records.begin(), chunk.records.end());
  }
  if (open) gaps.push_back({last_key(), {}});
}

bool PartialTable::may_lack(Section section, const TableKey& key) const {
  // They are in order.
  const auto gap = std::ranges::partition_point(gaps(section), [&](const Gap& one) {
    return one.high && compare(section, *one.high, key) <= 0;
  });
  return gap != gaps(section).end() && (!gap->low || compare(section, *gap->low, key) < 0);
}

bool PartialTable::lists(ObjectId id) const {
  return !may_lack(Section::kIds, {.id = id}) || gaps(Section::kNames).empty();
}

std::span<const Record> PartialTable::runs(uint64_t number) const {
  const auto number_of = [](const Record& record) { return std::get<MapRecord>(record).number; };
  const auto found = std::ranges::equal_range(records(Section::kRuns), number, {}, number_of);
  return {found.begin(), found.end()};
}

}  // namespace verbena::store
