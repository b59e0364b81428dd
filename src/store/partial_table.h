// SPDX-License-Identifier: Apache-2.0
// What can be read of a table of which chunks are lost, for salvage: its records, and between which
// keys others may be missing. The first chunk can be done without: records tell their section.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "store/tables.h"

namespace verbena::store {

class PartialTable {
 public:
  // Between these keys, exclusively, records may be lost; none: from the beginning, to the end.
  struct Gap {
    std::optional<TableKey> low;
    std::optional<TableKey> high;
  };
  // What NAME and ID say of an object; none: not found.
  struct Listed {
    std::optional<std::string_view> name;
    std::optional<ObjectId> id;
  };

  explicit PartialTable(const StoredTable& table);

  // In order of their keys.
  [[nodiscard]] const std::vector<Record>& records(Section section) const {
    return records_.at(static_cast<size_t>(section));
  }
  [[nodiscard]] const std::vector<Gap>& gaps(Section section) const {
    return gaps_.at(static_cast<size_t>(section));
  }
  [[nodiscard]] bool may_lack(Section section, const TableKey& key) const;
  // Whether an OBJECT with this id, which never changes, would be known by its NAME or its ID.
  [[nodiscard]] bool lists(ObjectId id) const;
  // By number.
  [[nodiscard]] const std::map<uint64_t, Listed>& listed() const { return listed_; }
  // Of an object, in order; empty: it has none that are left.
  [[nodiscard]] std::span<const Record> runs(uint64_t number) const;

 private:
  // A chunk, and which sections it may belong to.
  struct Chunk {
    std::vector<Record> records;  // none: it is lost
    Section first = Section::kObjects;
    Section last = Section::kIds;
  };
  [[nodiscard]] static std::vector<Chunk> read(const StoredTable& table);
  void take(Section section, const std::vector<Chunk>& chunks);

  std::array<std::vector<Record>, kSections> records_;
  std::array<std::vector<Gap>, kSections> gaps_;
  std::map<uint64_t, Listed> listed_;
};

}  // namespace verbena::store
