// SPDX-License-Identifier: Apache-2.0
#include "store/table_merge.h"

#include <algorithm>
#include <optional>

namespace verbena::store {
namespace {

// The one with the smallest key; of equals the newest. Null: all are done.
TableCursor* smallest(Section section, std::vector<TableCursor>& cursors) {
  TableCursor* least = nullptr;
  for (TableCursor& cursor : cursors) {
    if (cursor.done()) continue;
    if (least == nullptr || compare(section, cursor.key(), least->key()) < 0) least = &cursor;
  }
  return least;
}

struct Write {
  TableWriter& to;
  void operator()(const ObjectRecord& record) const { to.object(record); }
  void operator()(const DeleteRecord& record) const { to.remove(record); }
  void operator()(const MapRecord& record) const {
    to.map(record.number, record.size, record.runs);
  }
  void operator()(const NameRecord& record) const { to.name(record); }
  void operator()(const IdRecord& record) const { to.id(record); }
  template <typename Other>
  void operator()(const Other& /*record*/) const {}  // no table has any
};

}  // namespace

Result<std::vector<TableCursor>> TableMerge::begin(Section section) const {
  std::vector<TableCursor> cursors;
  cursors.reserve(tables_.size());
  for (const Table& table : tables_) {
    cursors.emplace_back(table, section);
    if (const auto done = cursors.back().begin(); !done) return fail(done.error());
  }
  return cursors;
}

bool TableMerge::is_stale(uint64_t number, size_t source) const {
  return std::ranges::binary_search(stale_[source], number);
}

Result<void> TableMerge::objects(const Each& each) {
  auto cursors = begin(Section::kObjects);
  if (!cursors) return fail(cursors.error());
  for (auto& list : stale_) list.clear();
  while (TableCursor* const least = smallest(Section::kObjects, *cursors)) {
    const uint64_t number = least->key().number;
    const auto source = static_cast<size_t>(least - cursors->data());
    if (const auto done = each(least->record(), source); !done) return done;
    for (size_t i = source; i < cursors->size(); ++i) {
      TableCursor& cursor = (*cursors)[i];
      if (cursor.done() || cursor.key().number != number) continue;
      if (i != source) stale_[i].push_back(number);
      if (const auto done = cursor.next(); !done) return done;
    }
  }
  return {};
}

Result<void> TableMerge::others(Section section, const Each& each) const {
  auto cursors = begin(section);
  if (!cursors) return fail(cursors.error());
  std::optional<Record> last;
  while (TableCursor* const least = smallest(section, *cursors)) {
    const auto source = static_cast<size_t>(least - cursors->data());
    if (!is_stale(least->key().number, source)) {
      // Two objects of the same name, in two tables.
      if (last && compare(section, *key_of(section, *last), least->key()) >= 0) {
        return fail(tables_[source].chunks().disorder(tables_[source].shape().first(section)));
      }
      last = least->record();
      if (const auto done = each(*last, source); !done) return done;
    }
    if (const auto done = least->next(); !done) return done;
  }
  return {};
}

Result<void> merge_tables(std::span<const Table> tables, bool oldest, TableWriter& to) {
  TableMerge merge(tables);
  to.begin(Section::kObjects);
  const Write write{to};
  const auto objects = merge.objects([&](const Record& record, size_t) -> Result<void> {
    if (!oldest || !std::holds_alternative<DeleteRecord>(record)) std::visit(write, record);
    return {};
  });
  if (!objects) return objects;
  for (const Section section : {Section::kRuns, Section::kNames, Section::kIds}) {
    to.begin(section);
    const auto done = merge.others(section, [&](const Record& record, size_t) -> Result<void> {
      std::visit(write, record);
      return {};
    });
    if (!done) return done;
  }
  return {};
}

}  // namespace verbena::store
