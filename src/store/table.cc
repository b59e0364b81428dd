// SPDX-License-Identifier: Apache-2.0
#include "store/table.h"

#include <numeric>

#include "base/check.h"

namespace verbena::store {

uint64_t TableShape::first(Section section) const {
  return std::accumulate(chunks.begin(), chunks.begin() + static_cast<ptrdiff_t>(section),
                         uint64_t{0});
}

uint64_t TableShape::all() const {
  return std::accumulate(chunks.begin(), chunks.end(), uint64_t{0});
}

std::strong_ordering compare(Section section, const TableKey& a, const TableKey& b) {
  switch (section) {
    case Section::kObjects: return a.number <=> b.number;
    case Section::kRuns:    return a.number != b.number ? a.number <=> b.number : a.index <=> b.index;
    case Section::kNames:   return a.name != b.name ? a.name <=> b.name : a.id <=> b.id;
    case Section::kIds:     return a.id <=> b.id;
  }
  return std::strong_ordering::equal;
}

std::optional<TableKey> key_of(Section section, const Record& record) {
  switch (section) {
    case Section::kObjects:
      if (const auto* const object = std::get_if<ObjectRecord>(&record)) {
        return TableKey{.number = object->number, .name = object->name, .id = object->id};
      }
      if (const auto* const gone = std::get_if<DeleteRecord>(&record)) {
        return TableKey{.number = gone->number};
      }
      break;
    case Section::kRuns:
      if (const auto* const map = std::get_if<MapRecord>(&record)) {
        return TableKey{.number = map->number, .index = map->runs.front().index};
      }
      break;
    case Section::kNames:
      if (const auto* const name = std::get_if<NameRecord>(&record)) {
        return TableKey{.number = name->number, .name = name->name, .id = name->id};
      }
      break;
    case Section::kIds:
      if (const auto* const id = std::get_if<IdRecord>(&record)) {
        return TableKey{.number = id->number, .id = id->id};
      }
      break;
  }
  return {};
}

Error TableCursor::disorder(uint64_t chunk) const {
  return table_->chunks().disorder(table_->shape().first(section_) + chunk);
}

// To the first record of a chunk of the section.
Result<void> TableCursor::enter(uint64_t chunk) {
  chunk_ = chunk;
  record_.reset();
  if (chunk >= table_->shape().count(section_)) return {};
  const auto records = table_->chunks().records(table_->shape().first(section_) + chunk);
  if (!records) return fail(records.error());
  reader_ = RecordReader(*records);
  if (reader_.done()) return fail(disorder(chunk));  // none is empty
  auto record = reader_.next();
  const auto key = record ? key_of(section_, *record) : std::nullopt;
  if (!key) return fail(disorder(chunk));
  record_ = std::move(*record);
  key_ = *key;
  return {};
}

Result<void> TableCursor::begin() { return enter(0); }

Result<void> TableCursor::next() {
  VERBENA_CHECK(!done());
  const TableKey before = key_;
  if (reader_.done()) {
    if (const auto done = enter(chunk_ + 1); !done || !record_) return done;
  } else {
    auto record = reader_.next();
    const auto key = record ? key_of(section_, *record) : std::nullopt;
    if (!key) {
      record_.reset();
      return fail(disorder(chunk_));
    }
    record_ = std::move(*record);
    key_ = *key;
  }
  if (compare(section_, before, key_) >= 0) {
    record_.reset();
    return fail(disorder(chunk_));
  }
  return {};
}

Result<TableKey> TableCursor::first_key(uint64_t chunk) const {
  const auto records = table_->chunks().records(table_->shape().first(section_) + chunk);
  if (!records) return fail(records.error());
  RecordReader reader(*records);
  if (reader.done()) return fail(disorder(chunk));
  const auto record = reader.next();
  const auto key = record ? key_of(section_, *record) : std::nullopt;
  if (!key) return fail(disorder(chunk));
  return *key;
}

Result<void> TableCursor::seek(const TableKey& key) {
  // The last chunk that does not begin behind the key has it, if there is one. Where a lost chunk
  // begins nobody knows, so the next one that can be read decides: it takes only those objects with
  // it that may be in it.
  uint64_t low = 0;
  uint64_t high = table_->shape().count(section_);
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    uint64_t at = middle;
    auto first = first_key(at);
    while (!first && at + 1 < high) first = first_key(++at);
    if (first && compare(section_, *first, key) <= 0) {
      low = at;
    } else {
      high = middle;
    }
  }
  if (const auto done = enter(low); !done) return done;
  while (record_ && compare(section_, key_, key) < 0) {
    if (const auto done = next(); !done) return done;
  }
  return {};
}

Result<std::optional<Table::State>> Table::find(uint64_t number) const {
  TableCursor cursor(*this, Section::kObjects);
  if (const auto done = cursor.seek({.number = number}); !done) return fail(done.error());
  if (cursor.done() || cursor.key().number != number) return std::nullopt;
  const auto* const object = std::get_if<ObjectRecord>(&cursor.record());
  return object == nullptr ? State{.gone = true, .object = {}}
                           : State{.gone = false, .object = *object};
}

Result<std::optional<uint64_t>> Table::find(std::string_view name) const {
  TableCursor cursor(*this, Section::kNames);
  if (const auto done = cursor.seek({.name = name}); !done) return fail(done.error());
  if (cursor.done() || cursor.key().name != name) return std::nullopt;
  return cursor.key().number;
}

Result<std::optional<uint64_t>> Table::find(ObjectId id) const {
  TableCursor cursor(*this, Section::kIds);
  if (const auto done = cursor.seek({.id = id}); !done) return fail(done.error());
  if (cursor.done() || cursor.key().id != id) return std::nullopt;
  return cursor.key().number;
}

Result<void> Table::runs(uint64_t number, uint64_t count,
                         const std::function<void(const MapRecord&)>& each) const {
  if (count == 0) return {};
  // What comes before its first run and behind its last is none of its business: it may be lost.
  TableCursor cursor(*this, Section::kRuns);
  Result<void> lost;
  auto done = cursor.seek({.number = number});
  for (uint64_t seen = 0; seen < count;) {
    if (!done) {
      if (lost) lost = done;
      done = cursor.skip();
      continue;
    }
    if (cursor.done() || cursor.key().number != number) return lost;
    const auto& map = std::get<MapRecord>(cursor.record());
    each(map);
    seen += map.runs.size();
    if (seen < count) done = cursor.next();
  }
  return {};
}

void TableWriter::begin(Section section) {
  if (used() > 0) full();
  VERBENA_CHECK(section >= section_);
  section_ = section;
}

TableShape TableWriter::finish() {
  if (used() > 0) full();
  return shape_;
}

void TableWriter::full() {
  chunk(data(), used());
  ++shape_.chunks.at(static_cast<size_t>(section_));
  reset();
}

void MemoryTable::chunk(std::span<const uint8_t, kDataBytes> data, size_t used) {
  chunks_.emplace_back(data.begin(), data.begin() + static_cast<ptrdiff_t>(used));
}

Result<std::span<const uint8_t>> MemoryTable::records(uint64_t sequence) const {
  return std::span<const uint8_t>(chunks_.at(sequence));
}

Error MemoryTable::disorder(uint64_t sequence) const {
  return {Code::kDamaged,
          "a table in memory is out of order",
          {{}, 0, sequence, "table", "records in order", "out of order"}};
}

}  // namespace verbena::store
