// SPDX-License-Identifier: Apache-2.0
// Any bytes as the chunks of two tables, searched, gone through and merged: an order that is wrong
// is an error, and what comes out in the end is in order.
//
//   | twice: | four counts u8 | for each chunk: length number, bytes | | keys to look for
#include <array>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/fuzz_input.h"
#include "store/table.h"
#include "store/table_merge.h"

namespace verbena::store {
namespace {

constexpr std::array kAll{Section::kObjects, Section::kRuns, Section::kNames, Section::kIds};

class FuzzChunks final : public TableChunks {
 public:
  explicit FuzzChunks(FuzzInput& input) {
    for (uint32_t& count : shape_.chunks) {
      count = input.u8() % 4;
      for (uint32_t i = 0; i < count; ++i) {
        const auto bytes = input.bytes(input.number());
        chunks_.emplace_back(bytes.begin(), bytes.end());
      }
    }
  }
  [[nodiscard]] const TableShape& shape() const { return shape_; }
  [[nodiscard]] Result<std::span<const uint8_t>> records(uint64_t sequence) const override {
    VERBENA_CHECK(sequence < chunks_.size());
    return chunks_[sequence];
  }
  [[nodiscard]] Error disorder(uint64_t sequence) const override {
    VERBENA_CHECK(sequence < chunks_.size());
    return {Code::kDamaged, "not in order", {}};
  }

 private:
  TableShape shape_;
  std::vector<std::vector<uint8_t>> chunks_;
};

// All of a section, in order; what is passed is found again.
void go_through(const Table& table, Section section) {
  TableCursor cursor(table, section);
  if (!cursor.begin()) return;
  std::optional<Record> last;
  while (!cursor.done()) {
    if (last) {
      VERBENA_CHECK(compare(section, *key_of(section, *last), cursor.key()) < 0);
    }
    last = cursor.record();
    if (!cursor.next()) return;
  }
  TableCursor found(table, section);
  if (last && found.seek(*key_of(section, *last))) {
    VERBENA_CHECK(!found.done() && found.record() == *last);
  }
}

void look(const Table& table, FuzzInput keys) {
  for (const Section section : kAll) go_through(table, section);
  for (int i = 0; i < 4 && !keys.empty(); ++i) {
    const uint64_t number = keys.u8();
    const auto text = keys.bytes(keys.u8() % 8);
    if (const auto state = table.find(number); state && *state && !(*state)->gone) {
      VERBENA_CHECK((*state)->object.number == number);
    }
    if (!text.empty()) {
      static_cast<void>(
          table.find(std::string_view(reinterpret_cast<const char*>(text.data()), text.size())));
    }
    static_cast<void>(table.find(ObjectId{keys.u8(), number}));
    static_cast<void>(table.runs(
        number, ~uint64_t{0}, [&](const MapRecord& map) { VERBENA_CHECK(map.number == number); }));
  }
}

void take_table(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const FuzzChunks newer(input);
  const FuzzChunks older(input);
  const std::array<Table, 2> tables{Table(newer.shape(), newer), Table(older.shape(), older)};
  for (const Table& table : tables) look(table, input);
  MemoryTable merged;
  if (!merge_tables(tables, true, merged)) return;
  const TableShape shape = merged.finish();
  const Table table(shape, merged);
  for (const Section section : kAll) {
    TableCursor cursor(table, section);
    VERBENA_CHECK(cursor.begin());
    while (!cursor.done()) VERBENA_CHECK(cursor.next());
  }
}

}  // namespace
}  // namespace verbena::store

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::store::take_table(data, size);
  return 0;
}
