// SPDX-License-Identifier: Apache-2.0
// What the log says, made into objects. Bytes from a medium may be anything: whatever does not fit
// what was said before is refused.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "store/object.h"
#include "store/record.h"

namespace verbena::store {

class Replay {
 public:
  // Whether a run may be: within a block of the medium.
  explicit Replay(std::function<bool(const Run&)> possible) : possible_(std::move(possible)) {}

  // One record; the reason it cannot be, if so.
  [[nodiscard]] verbena::Result<void, std::string> apply(const Record& record);
  // The transaction that was applied ended at this time.
  void touched_at(uint64_t time_ns);
  // It was a checkpoint, which has the times by itself.
  void untouched() { touched_.clear(); }

  [[nodiscard]] std::unordered_map<uint64_t, ObjectRef>& objects() { return objects_; }
  [[nodiscard]] uint64_t next_number() const { return next_number_; }

 private:
  using Outcome = verbena::Result<void, std::string>;
  Outcome on(const CreateRecord& record);
  Outcome on(const MapRecord& record);
  Outcome on(const TruncateRecord& record);
  Outcome on(const CloneRecord& record);
  Outcome on(const DeleteRecord& record);
  Outcome on(const RenameRecord& record);
  Outcome on(const CommitRecord& record);
  Outcome on(const CountersRecord& record);
  Outcome on(const StateRecord& record);
  [[nodiscard]] Object* find(uint64_t number);
  void assign(Object& object, uint64_t first, uint64_t end, std::span<const Run> runs);

  std::function<bool(const Run&)> possible_;
  std::unordered_map<uint64_t, ObjectRef> objects_;  // by number
  std::map<ObjectId, uint64_t> ids_;
  std::map<std::string, uint64_t, std::less<>> names_;
  std::vector<uint64_t> touched_;
  uint64_t next_number_ = 1;
  SegmentTable::Change change_;
};

}  // namespace verbena::store
