// SPDX-License-Identifier: Apache-2.0
#include "store/table.h"

#include <map>
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include "base/random.h"
#include "store/table_merge.h"

namespace verbena::store {
namespace {

// An object as a test knows it; none: deleted.
struct Known {
  std::string name;
  uint64_t size = 0;
  uint64_t runs = 0;
  std::string content;
  bool operator==(const Known&) const = default;
};
using States = std::map<uint64_t, std::optional<Known>>;

ObjectId id_of(uint64_t number) { return {number * 0x9e3779b97f4a7c15, number}; }

void write_table(const States& states, TableWriter& to) {
  to.begin(Section::kObjects);
  std::map<std::pair<std::string, ObjectId>, uint64_t> names;
  std::map<ObjectId, uint64_t> ids;
  for (const auto& [number, known] : states) {
    if (!known) {
      to.remove({number});
      continue;
    }
    to.object({.number = number,
               .id = id_of(number),
               .created_ns = number,
               .modified_ns = known->size,
               .size = known->size,
               .runs = known->runs,
               .chunks = 2 * known->runs,
               .name = known->name,
               .crc = known->content.empty() ? 0 : 1u,
               .content = known->content});
    names[{known->name, known->name.empty() ? id_of(number) : ObjectId{}}] = number;
    ids[id_of(number)] = number;
  }
  to.begin(Section::kRuns);
  for (const auto& [number, known] : states) {
    if (!known) continue;
    std::vector<Run> runs;
    for (uint64_t i = 0; i < known->runs; ++i) {
      runs.push_back({i * 3, number * 1000 + i, 2, Held::kHere, {number, i * 3, known->size}});
    }
    to.map(number, known->size, runs);
  }
  to.begin(Section::kNames);
  for (const auto& [key, number] : names) to.name({key.first, key.second, number});
  to.begin(Section::kIds);
  for (const auto& [id, number] : ids) to.id({id, number});
}

struct Made {
  std::unique_ptr<MemoryTable> memory = std::make_unique<MemoryTable>();
  TableShape shape;
  [[nodiscard]] Table table() const { return {shape, *memory}; }
};

Made make(const States& states) {
  Made made;
  write_table(states, *made.memory);
  made.shape = made.memory->finish();
  return made;
}

Known random_object(RandomSource& random) {
  Known known;
  known.size = 600 + random.next() % 100000;
  known.runs = random.next() % 16 == 0 ? random.next() % 500 : random.next() % 3;
  if (random.next() % 4 != 0) known.name = "name/" + std::to_string(random.next() % 100000);
  if (random.next() % 3 == 0) {
    known.content = std::string(1 + random.next() % kMaxContentBytes, 'c');
    known.size = known.content.size();
    known.runs = 0;
  }
  return known;
}

void expect_says(const Table& table, const States& states) {
  for (const auto& [number, known] : states) {
    const auto state = table.find(number);
    ASSERT_TRUE(state) << state.error().what;
    ASSERT_TRUE(state->has_value()) << number;
    ASSERT_EQ((*state)->gone, !known);
    if (!known) continue;
    EXPECT_EQ((*state)->object.name, known->name);
    EXPECT_EQ((*state)->object.size, known->size);
    EXPECT_EQ((*state)->object.content, known->content);
    uint64_t runs = 0;
    ASSERT_TRUE(table.runs(number, known->runs, [&](const MapRecord& map) {
      for (const Run& run : map.runs) EXPECT_EQ(run.index, 3 * runs++);
    }));
    EXPECT_EQ(runs, known->runs);
    EXPECT_EQ(*table.find(id_of(number)), number);
    if (!known->name.empty()) {
      EXPECT_EQ(*table.find(known->name), number);
    }
  }
}

TEST(Table, FindsWhatIsThereAndNothingElse) {
  SeededRandom random(1);
  for (const size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{300}, size_t{5000}}) {
    States states;
    while (states.size() < count) {
      const uint64_t number = 2 + 2 * (random.next() % 100000);
      states[number] = random_object(random);
      states[number]->name = "name " + std::to_string(number);
      if (random.next() % 9 == 0) states[number].reset();
    }
    const Made made = make(states);
    expect_says(made.table(), states);
    for (uint64_t number = 1; number < 1000; number += 2) {
      EXPECT_FALSE(made.table().find(number)->has_value());
      EXPECT_FALSE(made.table().find("name " + std::to_string(number))->has_value());
      EXPECT_FALSE(made.table().find(id_of(number))->has_value());
    }
    EXPECT_FALSE(made.table().find(~uint64_t{0})->has_value());
    EXPECT_FALSE(made.table().find("a")->has_value());
    EXPECT_FALSE(made.table().find("z")->has_value());
  }
}

TEST(Table, MergedTheNewestCounts) {
  SeededRandom random(2);
  for (int round = 0; round < 20; ++round) {
    States all;
    std::vector<Made> made;  // the oldest first
    for (int i = 0; i < 5; ++i) {
      States states;
      const uint64_t count = random.next() % 300;
      for (uint64_t n = 0; n < count; ++n) {
        const uint64_t number = 1 + random.next() % 500;
        states[number] = random_object(random);
        // One object has a name at a time.
        states[number]->name = random.next() % 5 == 0 ? ""
                                                      : std::to_string(number) + "/" +
                                                            std::to_string(random.next() % 3);
        if (random.next() % 5 == 0) states[number].reset();
      }
      made.push_back(make(states));
      for (const auto& [number, known] : states) all[number] = known;
    }
    std::vector<Table> tables;
    for (auto one = made.rbegin(); one != made.rend(); ++one) tables.push_back(one->table());
    Made merged;
    ASSERT_TRUE(merge_tables(tables, false, *merged.memory));
    merged.shape = merged.memory->finish();
    expect_says(merged.table(), all);
    std::erase_if(all, [](const auto& one) { return !one.second; });
    Made whole;
    ASSERT_TRUE(merge_tables(tables, true, *whole.memory));
    whole.shape = whole.memory->finish();
    expect_says(whole.table(), all);
    // What is not needed is not there: byte for byte a table of these objects, but for where their
    // MAPs are divided.
    const Made again = make(all);
    for (const Section section : {Section::kObjects, Section::kNames, Section::kIds}) {
      ASSERT_EQ(whole.shape.count(section), again.shape.count(section));
      for (uint64_t i = 0; i < again.shape.count(section); ++i) {
        EXPECT_TRUE(std::ranges::equal(*whole.memory->records(whole.shape.first(section) + i),
                                       *again.memory->records(again.shape.first(section) + i)));
      }
    }
    EXPECT_LE(whole.shape.all(), again.shape.all() + 5);
  }
}

// What a table of another program, or of somebody hostile, may hold.
class Spoilt final : public TableChunks {
 public:
  explicit Spoilt(std::vector<std::vector<uint8_t>> chunks) : chunks_(std::move(chunks)) {}
  [[nodiscard]] Result<std::span<const uint8_t>> records(uint64_t sequence) const override {
    return std::span<const uint8_t>(chunks_.at(sequence));
  }
  [[nodiscard]] Error disorder(uint64_t sequence) const override {
    return {Code::kDamaged, "disorder in " + std::to_string(sequence), {}};
  }

 private:
  std::vector<std::vector<uint8_t>> chunks_;
};

TEST(Table, DisorderIsAnErrorNeverACrash) {
  SeededRandom random(3);
  States states;
  for (uint64_t number = 1; number < 400; ++number) states[number] = random_object(random);
  for (auto& [number, known] : states) known->name = "n" + std::to_string(number);
  const Made made = make(states);
  int errors = 0;
  for (int round = 0; round < 150; ++round) {
    std::vector<std::vector<uint8_t>> chunks;
    for (uint64_t i = 0; i < made.shape.all(); ++i) {
      const auto records = *made.memory->records(i);
      chunks.emplace_back(records.begin(), records.end());
    }
    const size_t victim = random.next() % chunks.size();
    switch (random.next() % 4) {
      case 0:
        chunks[victim][random.next() % chunks[victim].size()] ^=
            static_cast<uint8_t>(1u << random.next() % 8);
        break;
      case 1:  std::swap(chunks[victim], chunks[random.next() % chunks.size()]); break;
      case 2:  chunks[victim].resize(random.next() % chunks[victim].size()); break;
      default: chunks[victim] = chunks[random.next() % chunks.size()]; break;
    }
    const Spoilt spoilt(std::move(chunks));
    const Table table(made.shape, spoilt);
    for (uint64_t number = 1; number < 400; number += 7) {
      if (const auto found = table.find(number); !found) ++errors;
      static_cast<void>(table.find("n" + std::to_string(number)));
      static_cast<void>(table.runs(number, ~uint64_t{0}, [](const MapRecord&) {}));
    }
    const std::array<Table, 2> both = {table, made.table()};
    MemoryTable merged;
    if (!merge_tables(both, true, merged)) ++errors;
    static_cast<void>(merged.finish());
  }
  EXPECT_GT(errors, 150);
}

// Of a table in memory, but for one chunk.
class WithoutOne final : public TableChunks {
 public:
  WithoutOne(const TableChunks& all, uint64_t lost) : all_(all), lost_(lost) {}
  [[nodiscard]] Result<std::span<const uint8_t>> records(uint64_t sequence) const override {
    if (sequence == lost_) return fail(Error{Code::kDamaged, "lost", {}});
    return all_.records(sequence);
  }
  [[nodiscard]] Error disorder(uint64_t sequence) const override { return all_.disorder(sequence); }

 private:
  const TableChunks& all_;
  uint64_t lost_;
};

// The objects whose records of the section are in this chunk of it.
std::set<uint64_t> numbers_in(const Made& made, Section section, uint64_t chunk) {
  std::set<uint64_t> numbers;
  RecordReader reader(*made.memory->records(made.shape.first(section) + chunk));
  while (!reader.done()) numbers.insert(key_of(section, *reader.next())->number);
  return numbers;
}

// Whether what the section has of an object is found.
bool is_found(const Table& table, Section section, uint64_t number, const Known& known) {
  switch (section) {
    case Section::kObjects: return table.find(number).has_value();
    case Section::kRuns:    return table.runs(number, known.runs, [](const MapRecord&) {}).has_value();
    case Section::kNames:   return table.find(known.name).has_value();
    case Section::kIds:     return table.find(id_of(number)).has_value();
  }
  return false;
}

TEST(Table, ALostChunkTakesOnlyWhatIsInIt) {
  States states;
  for (uint64_t number = 1; number < 400; ++number) {
    states[number] = Known{.name = std::string(20, 'n') + std::to_string(number),
                           .size = 100'000,
                           .runs = number % 50 == 0 ? 200 : number % 3,
                           .content = {}};
  }
  const Made made = make(states);
  for (const Section section :
       {Section::kObjects, Section::kRuns, Section::kNames, Section::kIds}) {
    ASSERT_GT(made.shape.count(section), 2);
    for (uint64_t chunk = 0; chunk < made.shape.count(section); ++chunk) {
      const WithoutOne rest(*made.memory, made.shape.first(section) + chunk);
      const Table table(made.shape, rest);
      const auto lost = numbers_in(made, section, chunk);
      for (const auto& [number, known] : states) {
        ASSERT_EQ(is_found(table, section, number, *known), !lost.contains(number))
            << number << " without " << chunk;
      }
    }
  }
}

TEST(Table, AWrongOrderIsNamed) {
  MemoryTable memory;
  memory.begin(Section::kObjects);
  memory.remove({5});
  memory.remove({4});
  const TableShape shape = memory.finish();
  const Table table(shape, memory);
  TableCursor cursor(table, Section::kObjects);
  ASSERT_TRUE(cursor.begin());
  const auto next = cursor.next();
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code, Code::kDamaged);
}

}  // namespace
}  // namespace verbena::store
