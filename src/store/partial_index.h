// SPDX-License-Identifier: Apache-2.0
// The objects of an index of which chunks are lost, for salvage. What can be told of an object
// whose OBJECT is lost: its name and id by NAME and ID of the same table, its chunks and size by
// MAP.
#pragma once

#include <map>
#include <set>
#include <span>
#include <vector>

#include "store/index_loss.h"
#include "store/partial_table.h"

namespace verbena::store {

class PartialIndex {
 public:
  struct Entry {
    ObjectRecord object;
    std::span<const Record> maps;
    ObjectDoubt doubt;
  };
  // The newest first; they stay.
  explicit PartialIndex(std::span<const PartialTable> tables);

  // By number.
  [[nodiscard]] const std::map<uint64_t, Entry>& objects() const { return objects_; }
  // Numbers of objects of which nothing may be known.
  [[nodiscard]] const std::vector<NumberRange>& unknown() const { return unknown_; }

 private:
  void take(const PartialTable& table);
  void take_object(const PartialTable& table, const ObjectRecord& object);
  void take_listed(const PartialTable& table, uint64_t number, const PartialTable::Listed& listed);
  void add(const PartialTable& table, const ObjectRecord& object, ObjectDoubt doubt);
  void note_unknown(const PartialTable& table);

  std::vector<const PartialTable*> newer_;  // than the one that is taken
  std::set<uint64_t> decided_;
  std::map<uint64_t, Entry> objects_;
  std::vector<NumberRange> unknown_;
};

}  // namespace verbena::store
