// SPDX-License-Identifier: Apache-2.0
// Opening a store again: what its tables have.
#include <algorithm>

#include <fmt/format.h>

#include "store/partial_replay.h"
#include "store/recovery.h"
#include "store/table_merge.h"

namespace verbena::store {

Result<void> StoreImpl::Recovery::read_index() {
  if (partial()) return read_partial();
  return store_.on_demand() ? open_tables() : read_tables();
}

// Why a record makes no sense.
Error StoreImpl::Recovery::refused(const char* of, uint64_t sequence, uint64_t chunk,
                                   const std::string& why) {
  if (lacking_) {
    return Error{Code::kDamaged,
                 fmt::format("a file of the store is missing or was cut off: chunk {} of {}: {}; "
                             "what is left can be read, and `verbena salvage` builds a new store "
                             "from it",
                             sequence, of, why),
                 {{}, 0, chunk, "file", "blocks", "missing"}};
  }
  if (replay_.too_many()) {
    return Error{Code::kFull, "the index of the store would use too much memory: " + why, {}};
  }
  return damaged_log(fmt::format("chunk {} of {}: {}", sequence, of, why),
                     log_damage("record", chunk, sequence));
}

// Objects that the log changes are read from them when it does.
Result<void> StoreImpl::Recovery::open_tables() {
  if (const auto done = store_.tables_.open(root_); !done) return done;
  replay_.number_from(store_.tables_.next_number());
  replay_.load_by([this](uint64_t number) -> Result<ObjectRef> {
    const auto found = store_.tables_.find(number);
    if (!found) return fail(found.error());
    if (!*found) return fail(Error{Code::kNotFound, {}, {}});
    auto object = store_.load(**found);
    if (!object) {
      const ObjectRecord& record = (*found)->object;
      unloaded_[number] = {record.id, std::string(record.name)};
    }
    return object;
  });
  return {};
}

// All objects, of each what the newest table says.
Result<void> StoreImpl::Recovery::read_tables() {
  Result<void> origin;
  bool dispensable = false;  // what is read now
  bool lost = false;         // some of that
  const auto seen = [&](const LogChunk& chunk) {
    irregular_ = bad_tables_ = true;
    if (!origin) return;
    if (chunk.good == nullptr || chunk.differ) {
      if (dispensable) {
        lost = true;
        report_.damage.push_back(copy_damage(chunk, false));
        report_.damage.push_back(copy_damage(chunk, true));
        return;
      }
      origin = check_copies(chunk);
      return;
    }
    report_.damage.push_back(copy_damage(chunk, chunk.a));
  };
  // What was said of a lost chunk is more than that it is lost.
  const auto outcome = [&](Result<void> done) { return !done && !origin ? origin : done; };
  Tables& tables = store_.tables_;
  if (const auto done = outcome(tables.open(root_, seen)); !done) return done;
  TableMerge merge(tables.all());
  const auto add = [&](const auto& record) -> Result<void> {
    const auto added = replay_.add(record);
    return added ? Result<void>{} : fail(refused("the index", 0, 0, added.error()));
  };
  const auto objects = outcome(merge.objects([&](const Record& record, size_t) -> Result<void> {
    const auto* const object = std::get_if<ObjectRecord>(&record);
    return object == nullptr ? Result<void>{} : add(*object);
  }));
  if (!objects) return objects;
  const auto runs =
      outcome(merge.others(Section::kRuns, [&](const Record& record, size_t) -> Result<void> {
        return add(std::get<MapRecord>(record));
      }));
  if (!runs) return runs;
  // Names and ids have no more to say, so a store is read without them; but it is not written to
  // with damage in it unseen.
  dispensable = store_.options_.read_only;
  for (const Section section : {Section::kNames, Section::kIds}) {
    uint64_t count = 0;
    const auto check = [&](const Record& record, size_t) -> Result<void> {
      ++count;
      const auto* const name = std::get_if<NameRecord>(&record);
      const auto same =
          name != nullptr ? replay_.check(*name) : replay_.check(std::get<IdRecord>(record));
      return same ? Result<void>{} : fail(refused("the index", 0, 0, same.error()));
    };
    lost = false;
    const auto done = outcome(merge.others(section, check));
    if (!done && lost) continue;
    if (!done) return done;
    if (count != replay_.objects().size()) {
      return fail(refused("the index", 0, 0, "an object has no NAME or no ID record"));
    }
  }
  replay_.number_from(tables.next_number());
  return {};
}

// What can be read of the tables: what is certain first.
Result<void> StoreImpl::Recovery::read_partial() {
  const auto seen = [&](const LogChunk& chunk) {
    if (chunk.good != nullptr && !chunk.differ) {
      report_.damage.push_back(copy_damage(chunk, chunk.a));
    } else {
      note_lost(chunk);
    }
  };
  if (const auto done = store_.tables_.open_partial(root_, seen); !done) return done;
  std::vector<PartialTable> tables;
  for (size_t i = 0; i < store_.tables_.count(); ++i) {
    tables.emplace_back(store_.tables_.stored(i));
    replay_.number_from(store_.tables_.stored(i).head().next_number);
  }
  for (const PartialTable& table : tables) {
    for (const Record& record : table.records(Section::kRuns)) {
      for (const Run& run : std::get<MapRecord>(record).runs) {
        last_txn_ = std::max(last_txn_, run.birth.txn);
      }
    }
  }
  const auto added = PartialReplay(replay_, report_.lost).add(PartialIndex(tables));
  return added ? Result<void>{} : fail(refused("the index", 0, 0, added.error()));
}

}  // namespace verbena::store
