// SPDX-License-Identifier: Apache-2.0
// What salvage must know of a store whose index or log has lost chunks in both copies: which
// objects may not be what they were.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "store/error.h"
#include "store/record.h"

namespace verbena::store {

// [first, end)
struct NumberRange {
  uint64_t first = 0;
  uint64_t end = 0;
  bool operator==(const NumberRange&) const = default;
};

inline constexpr uint64_t kEveryNumber = uint64_t{1} << 63;  // objects' are below it

struct ObjectDoubt {
  bool bytes = false;             // they are lost: few, in the index
  bool name = false;              // it is lost
  bool older = false;             // a newer state may be lost
  bool removed = false;           // that it was removed may be lost
  std::vector<NumberRange> runs;  // which chunks of the object, by index, may have been mapped
  [[nodiscard]] bool any() const { return bytes || name || older || removed || !runs.empty(); }
};

// By number. Records of the log take doubts away.
class ObjectDoubts {
 public:
  [[nodiscard]] const std::map<uint64_t, ObjectDoubt>& all() const { return doubts_; }
  // Null: there is none.
  [[nodiscard]] const ObjectDoubt* find(uint64_t number) const;
  void add(uint64_t number, ObjectDoubt doubt);
  // A record that was applied after all that is in doubt.
  void applied(const Record& record);

 private:
  void replaced(uint64_t number, NumberRange chunks);
  void cloned(const CloneRecord& record);
  std::map<uint64_t, ObjectDoubt> doubts_;
};

struct IndexLoss {
  std::vector<Damage> chunks;        // both copies of each that is lost
  std::vector<NumberRange> log;      // sequence numbers of chunks of the log that are
  uint64_t from_txn = 0;             // if there are any: transactions behind this may be lost
  ObjectDoubts objects;              // of those that were found
  std::vector<NumberRange> unknown;  // numbers of objects of which nothing may be known
};

}  // namespace verbena::store
