// SPDX-License-Identifier: Apache-2.0
// Applies the records of the log to objects. The records are not trusted: a record that contradicts
// earlier ones is refused. Its objects are nobody else's: their locks are not taken.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "store/object.h"
#include "store/record.h"

namespace verbena::store {

class Replay {
 public:
  // possible: whether a run may be: within a block of the medium. max_runs: that objects may
  // consist of, all together; a few bytes of log can ask for very many. max_objects: of those.
  Replay(std::function<bool(const Run&)> possible, uint64_t max_runs, uint64_t max_objects)
      : possible_(std::move(possible)), max_runs_(max_runs), max_objects_(max_objects) {}

  // Applies one record, or returns the reason why it is invalid.
  [[nodiscard]] verbena::Result<void, std::string> apply(const Record& record);
  // The transaction that was applied ended at this time.
  void touched_at(uint64_t time_ns);
  // An object as a table has it, and then its MAPs.
  [[nodiscard]] verbena::Result<void, std::string> add(const ObjectRecord& record);
  [[nodiscard]] verbena::Result<void, std::string> add(const MapRecord& record);
  // And that its names and ids are those of the objects; all of them, if so many were added.
  [[nodiscard]] verbena::Result<void, std::string> check(const NameRecord& record) const;
  [[nodiscard]] verbena::Result<void, std::string> check(const IdRecord& record) const;
  // Which object has this name, or this id.
  [[nodiscard]] std::optional<uint64_t> holder(std::string_view name) const;
  [[nodiscard]] std::optional<uint64_t> holder(ObjectId id) const;
  void number_from(uint64_t next) { next_number_ = std::max(next_number_, next); }

  // How to get objects that were not added; none: there are no others.
  using Load = std::function<Result<ObjectRef>(uint64_t number)>;
  void load_by(Load load) { load_ = std::move(load); }
  // Objects that could not be loaded, or have chunks of such, and what the log says of them.
  struct Damaged {
    Error error;
    std::optional<ObjectId> id;       // none: not known
    std::optional<std::string> name;  // none: as it was
    bool removed = false;
  };
  [[nodiscard]] const std::map<uint64_t, Damaged>& damaged() const { return damaged_; }

  // Objects that the log changed; and those of tables that it removed.
  [[nodiscard]] const std::vector<uint64_t>& changed() const { return changed_; }
  [[nodiscard]] std::vector<ObjectRef>& removed() { return removed_; }

  [[nodiscard]] std::unordered_map<uint64_t, ObjectRef>& objects() { return objects_; }
  [[nodiscard]] uint64_t next_number() const { return next_number_; }
  // What was refused was nothing but too much.
  [[nodiscard]] bool too_many() const { return too_many_; }

 private:
  using Outcome = verbena::Result<void, std::string>;
  Outcome on(const CreateRecord& record);
  Outcome on(const MapRecord& record);
  Outcome on(const TruncateRecord& record);
  Outcome on(const CloneRecord& record);
  Outcome on(const DeleteRecord& record);
  Outcome on(const RenameRecord& record);
  Outcome on(const FlushedRecord& record);
  Outcome on(const TakeRecord& record);
  Outcome on(const CommitRecord& record);
  Outcome on(const ContentRecord& record);
  [[nodiscard]] static Outcome set_content(Object& object, uint32_t crc, std::string_view content)
      VERBENA_REQUIRES(object.lock);
  // What only tables have, but for OBJECT.
  template <typename Other>
  Outcome on(const Other& /*record*/) {
    return fail(std::string("record of a table in the log"));
  }
  [[nodiscard]] Outcome apply_on_demand(const Record& record);
  void damage(uint64_t number, const Error& error);
  [[nodiscard]] Object* look_up(uint64_t number);
  [[nodiscard]] Object* find(uint64_t number);
  [[nodiscard]] Outcome grow(Object& object, const char* what, uint64_t end, uint64_t size)
      VERBENA_REQUIRES(object.lock);
  [[nodiscard]] Outcome assign(Object& object, uint64_t first, uint64_t end,
                               std::span<const Run> runs) VERBENA_REQUIRES(object.lock);

  std::function<bool(const Run&)> possible_;
  const uint64_t max_runs_;
  const uint64_t max_objects_;
  uint64_t runs_ = 0;
  bool too_many_ = false;
  std::unordered_map<uint64_t, ObjectRef> objects_;  // by number
  std::map<ObjectId, uint64_t> ids_;
  std::map<std::string, uint64_t, std::less<>> names_;
  std::vector<uint64_t> touched_;
  std::vector<uint64_t> changed_;
  std::vector<ObjectRef> removed_;
  Load load_;
  std::optional<Error> load_error_;  // of the record that is being applied
  std::map<uint64_t, Damaged> damaged_;
  uint64_t next_number_ = 1;
  SegmentTable::Change change_;
};

}  // namespace verbena::store
