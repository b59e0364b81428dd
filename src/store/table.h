// SPDX-License-Identifier: Apache-2.0
// A table: states of objects, sorted so that one of them is found without reading the others, and
// never changed. A store's index is its tables, the newest first, and the log behind them: what a
// newer one says of an object is all that counts.
//
//   chunks of records, by section    key of a record
//     objects   OBJECT, DELETE       number           a DELETE hides what older tables say
//     runs      MAP                  number, index    of the objects that have chunks
//     names     NAME                 name, id         the id only where there is no name
//     ids       ID                   id
//
// What is read is verified by whoever provides the chunks, but not trusted: an order that is wrong
// is an error, never a crash.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/record.h"
#include "store/record_stream.h"

namespace verbena::store {

enum class Section : uint8_t { kObjects, kRuns, kNames, kIds };
inline constexpr size_t kSections = 4;

// How many chunks each section has; they are numbered through.
struct TableShape {
  std::array<uint32_t, kSections> chunks{};
  [[nodiscard]] uint64_t first(Section section) const;
  [[nodiscard]] uint64_t count(Section section) const {
    return chunks.at(static_cast<size_t>(section));
  }
  [[nodiscard]] uint64_t all() const;
  bool operator==(const TableShape&) const = default;
};

// Provides the records of a table's chunk, verified. They stay in place as long as the table is
// used.
class TableChunks {
 public:
  virtual ~TableChunks() = default;
  [[nodiscard]] virtual Result<std::span<const uint8_t>> records(uint64_t sequence) const = 0;
  // What to say where records contradict the order of a table.
  [[nodiscard]] virtual Error disorder(uint64_t sequence) const = 0;
};

// What a section is sorted by; only the parts that belong to the section count.
struct TableKey {
  uint64_t number = 0;
  uint64_t index = 0;
  std::string_view name{};
  ObjectId id{};
};
[[nodiscard]] std::strong_ordering compare(Section section, const TableKey& a, const TableKey& b);
// None: a record of this type has no place in the section.
[[nodiscard]] std::optional<TableKey> key_of(Section section, const Record& record);

class Table {
 public:
  Table(TableShape shape, const TableChunks& chunks) : shape_(shape), chunks_(&chunks) {}
  [[nodiscard]] const TableShape& shape() const { return shape_; }
  [[nodiscard]] const TableChunks& chunks() const { return *chunks_; }

  // What it says of an object: an OBJECT, a DELETE, or nothing.
  struct State {
    bool gone = false;
    ObjectRecord object;
  };
  [[nodiscard]] Result<std::optional<State>> find(uint64_t number) const;
  // Of a name that is not empty.
  [[nodiscard]] Result<std::optional<uint64_t>> find(std::string_view name) const;
  [[nodiscard]] Result<std::optional<uint64_t>> find(ObjectId id) const;
  // The MAPs of an object that has so many runs, in order.
  [[nodiscard]] Result<void> runs(uint64_t number, uint64_t count,
                                  const std::function<void(const MapRecord&)>& each) const;

 private:
  TableShape shape_;
  const TableChunks* chunks_;
};

// Goes through a section. Copies share nothing.
class TableCursor {
 public:
  TableCursor(const Table& table, Section section) : table_(&table), section_(section) {}
  // To the first record, or the first whose key is not less. A chunk that is lost is an error only
  // where that record may be in it.
  [[nodiscard]] Result<void> begin();
  [[nodiscard]] Result<void> seek(const TableKey& key);
  [[nodiscard]] Result<void> next();
  // After an error: to the first record of the next chunk.
  [[nodiscard]] Result<void> skip() { return enter(chunk_ + 1); }
  [[nodiscard]] bool done() const { return !record_.has_value(); }
  // If not done().
  [[nodiscard]] const Record& record() const { return *record_; }
  [[nodiscard]] const TableKey& key() const { return key_; }

 private:
  [[nodiscard]] Result<void> enter(uint64_t chunk);
  [[nodiscard]] Result<TableKey> first_key(uint64_t chunk) const;
  [[nodiscard]] Error disorder(uint64_t chunk) const;

  const Table* table_;
  Section section_;
  uint64_t chunk_ = 0;  // in the section
  RecordReader reader_{{}};
  std::optional<Record> record_;
  TableKey key_;
};

// Writes a table: begin() each section in order, then its records in order of their keys.
class TableWriter : public RecordStream {
 public:
  void begin(Section section);
  // Ends the last section.
  [[nodiscard]] TableShape finish();

 protected:
  // One more chunk, the data with zeros behind what is used.
  virtual void chunk(std::span<const uint8_t, kDataBytes> data, size_t used) = 0;

 private:
  void full() final;
  Section section_ = Section::kObjects;
  TableShape shape_;
};

// A table in memory: the newest, before it is written anywhere.
class MemoryTable final : public TableWriter, public TableChunks {
 public:
  [[nodiscard]] Result<std::span<const uint8_t>> records(uint64_t sequence) const override;
  [[nodiscard]] Error disorder(uint64_t sequence) const override;

 private:
  void chunk(std::span<const uint8_t, kDataBytes> data, size_t used) override;
  std::vector<std::vector<uint8_t>> chunks_;
};

}  // namespace verbena::store
