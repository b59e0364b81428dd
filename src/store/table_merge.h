// SPDX-License-Identifier: Apache-2.0
// Several tables read as one: of each object what the newest says.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "store/table.h"

namespace verbena::store {

class TableMerge {
 public:
  // The newest first; they must outlive this.
  explicit TableMerge(std::span<const Table> tables) : tables_(tables), stale_(tables.size()) {}

  // The objects, in order of their numbers, DELETEs too, of which each(record, source) is called
  // with the place of the table that says so. First of all: it finds out what is stale.
  using Each = std::function<Result<void>(const Record& record, size_t source)>;
  [[nodiscard]] Result<void> objects(const Each& each);
  // Then the records of another section that are of these objects.
  [[nodiscard]] Result<void> others(Section section, const Each& each) const;

 private:
  [[nodiscard]] Result<std::vector<TableCursor>> begin(Section section) const;
  [[nodiscard]] bool is_stale(uint64_t number, size_t source) const;

  std::span<const Table> tables_;
  // Of each table, the objects that a newer one has, in order.
  std::vector<std::vector<uint64_t>> stale_;
};

// Writes one table that says what these do. `oldest`: there are none before them, so that DELETEs
// have nothing to hide.
[[nodiscard]] Result<void> merge_tables(std::span<const Table> tables, bool oldest,
                                        TableWriter& to);

}  // namespace verbena::store
