// SPDX-License-Identifier: Apache-2.0
// For tests and fuzzers: any record written, and all records of a chunk's data read.
#pragma once

#include <span>
#include <variant>
#include <vector>

#include "store/record.h"

namespace verbena::store {

// False if it does not fit, all of it.
[[nodiscard]] inline bool write_record(RecordWriter& writer, const Record& record) {
  struct Write {
    RecordWriter& to;
    bool operator()(const CreateRecord& r) const { return to.create(r); }
    bool operator()(const MapRecord& r) const {
      return to.map(r.number, r.size, r.runs) == r.runs.size();
    }
    bool operator()(const TruncateRecord& r) const { return to.truncate(r); }
    bool operator()(const CloneRecord& r) const { return to.clone(r); }
    bool operator()(const DeleteRecord& r) const { return to.remove(r); }
    bool operator()(const RenameRecord& r) const { return to.rename(r); }
    bool operator()(const FlushedRecord& r) const { return to.flushed(r); }
    bool operator()(const TakeRecord& r) const { return to.take(r); }
    bool operator()(const CommitRecord& r) const { return to.commit(r); }
    bool operator()(const TableRecord& r) const { return to.table(r); }
    bool operator()(const ContentRecord& r) const { return to.content(r); }
    bool operator()(const ObjectRecord& r) const { return to.object(r); }
    bool operator()(const NameRecord& r) const { return to.name(r); }
    bool operator()(const IdRecord& r) const { return to.id(r); }
  };
  return std::visit(Write{writer}, record);
}

// Up to the first fault.
[[nodiscard]] inline std::vector<Record> read_records(std::span<const uint8_t> bytes) {
  std::vector<Record> records;
  RecordReader reader(bytes);
  while (!reader.done()) {
    auto record = reader.next();
    if (!record) break;
    records.push_back(std::move(*record));
  }
  return records;
}

}  // namespace verbena::store
