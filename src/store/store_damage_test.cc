// SPDX-License-Identifier: Apache-2.0
// A medium that is spoilt or cannot be read, one case at a time. Ten thousand:
// tests/store/corruption.
#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "medium/faulty_backend.h"
#include "medium/staged_backend.h"
#include "store/memory_medium.h"
#include "store/store_testing.h"
#include "store/superblock.h"
#include "store/table.h"

namespace verbena::store {
namespace {

TEST_F(StoreTest, ScrubFindsWhatIsSpoilt) {
  ASSERT_TRUE(store_->create_object(kOne));
  write(kOne, 0, pattern(100'000, 1));
  auto report = store_->scrub();
  ASSERT_TRUE(report.has_value()) << report.error().what;
  EXPECT_EQ(report->damaged, 0u);
  EXPECT_EQ(report->chunks, 25u);
  EXPECT_GT(report->log_chunks, 3u);
  const auto segment = store_->segments(kOne, 0, 1)->front();
  ASSERT_TRUE(store_->close());
  store_.reset();
  {
    auto raw = backend();
    auto block = raw->claim(static_cast<uint32_t>(segment.chunk / kPerBlock));
    ASSERT_TRUE(block.has_value());
    uint8_t* const at = block->memory + segment.chunk % kPerBlock * kChunkBytes + 3 * kChunkBytes;
    at[100] ^= 1;
    raw->flush(at, kChunkBytes);
    ASSERT_TRUE(raw->fence());
  }
  auto made = Store::open(backend(), {});
  ASSERT_TRUE(made.has_value()) << made.error().what;
  store_ = std::move(*made);
  report = store_->scrub();
  ASSERT_TRUE(report.has_value());
  ASSERT_EQ(report->damaged, 1u);
  EXPECT_EQ(report->damage[0].object, kOne);
  EXPECT_EQ(report->damage[0].offset, 3 * kDataBytes);
  EXPECT_EQ(report->damage[0].field, "data CRC");
  Bytes bytes(100'000);
  const auto bad = store_->read(kOne, 0, bytes);
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().code, Code::kDamaged);
  EXPECT_EQ(bad.error().damage.offset, 3 * kDataBytes);
  EXPECT_EQ(read(kOne, 0, 3 * kDataBytes).size(), 3 * kDataBytes);
  // Part of it cannot be written over, all of it can.
  EXPECT_EQ(store_->write(kOne, 3 * kDataBytes, Bytes(10)).error().code, Code::kDamaged);
  write(kOne, 3 * kDataBytes, Bytes(kDataBytes));
  EXPECT_EQ(read(kOne, 0, 100'000).size(), 100'000u);
}

TEST_F(StoreTest, ScrubGoesOnWhereTheMediumCannotBeRead) {
  ASSERT_TRUE(store_->create_object(kOne));
  write(kOne, 0, pattern(100'000, 1));
  ASSERT_TRUE(store_->close());
  store_.reset();
  medium::Faults faults;
  auto made = Store::open(std::make_unique<medium::FaultyBackend>(backend(), faults), {});
  ASSERT_TRUE(made.has_value()) << made.error().what;
  // Once is no damage: it is read again, chunk by chunk.
  faults.read.arm(1);
  auto report = (*made)->scrub();
  ASSERT_TRUE(report.has_value()) << report.error().what;
  EXPECT_EQ(report->damaged, 0u);
  faults.read.arm(1, true);
  report = (*made)->scrub();
  ASSERT_TRUE(report.has_value()) << report.error().what;
  EXPECT_EQ(report->chunks, 25u);
  EXPECT_EQ(report->damaged, report->chunks + report->log_chunks);
}

// Superblocks, checkpoint and log are there twice, in blocks 0 and 1.
TEST_F(StoreTest, OneCopyOfTheLogIsEnoughToRead) {
  ASSERT_TRUE(store_->create_object(kOne));
  write(kOne, 0, pattern(100'000, 1));
  ASSERT_TRUE(store_->close());
  store_.reset();
  for (const uint32_t block : {0u, 1u}) {
    medium::Faults faults;
    faults.unreadable_block = block;
    medium::StagedOptions staged;
    staged.files.folder = folder_;
    staged.files.block_bytes = kPerBlock * kChunkBytes;
    const auto open = [&](bool read_only, OpenReport* report) {
      staged.files.read_only = read_only;
      auto files = medium::open_staged_backend(staged);
      EXPECT_TRUE(files.has_value()) << files.error().what;
      return Store::open(std::make_unique<medium::FaultyBackend>(*std::move(files), faults),
                         {.read_only = read_only}, report);
    };
    OpenReport report;
    auto made = open(true, &report);
    ASSERT_TRUE(made.has_value()) << made.error().what;
    store_ = std::move(*made);
    EXPECT_EQ(read(kOne, 0, 100'000), pattern(100'000, 1));
    EXPECT_FALSE(report.damage.empty());
    store_.reset();
    made = open(false, &report);
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code, Code::kIo);
  }
}

// All names are listed, page by page, or said to be missing: those that are lost.
void check_list(const Store& store, const std::map<std::string, uint64_t>& numbers,
                const std::set<uint64_t>& lost) {
  std::set<std::string> listed;
  std::vector<ListLoss> losses;
  std::optional<Cursor> after;
  for (;;) {
    const auto page = store.list(after, 7, &losses);
    ASSERT_TRUE(page) << page.error().what;
    for (const ObjectInfo& object : *page) {
      EXPECT_TRUE(listed.insert(object.name).second) << object.name;
      EXPECT_FALSE(after && object.name <= after->name) << object.name;
      after = Cursor{object.name, object.id};
    }
    if (page->size() < 7) break;
  }
  EXPECT_EQ(losses.empty(), lost.empty());
  for (const auto& [name, number] : numbers) {
    EXPECT_EQ(listed.contains(name), !lost.contains(number)) << name;
    const bool said = std::ranges::any_of(losses, [&](const ListLoss& loss) {
      return loss.name ? *loss.name == name
                       : loss.after < name && (!loss.before || name < *loss.before);
    });
    if (lost.contains(number)) {
      EXPECT_TRUE(said) << name;
    }
  }
  EXPECT_EQ(store.list(std::nullopt, 1000).has_value(), lost.empty());
}

// Both copies of one chunk of the index: only the objects that are in it are lost. Without names
// and ids the store can be read as a whole.
TEST(LostIndex, TakesOnlyWhatIsInIt) {
  constexpr uint32_t kPer = 64;
  MemoryMedium medium(kPer, 12);
  std::map<std::string, uint64_t> numbers;
  {
    auto store = Store::create(medium.open(), {});
    ASSERT_TRUE(store);
    for (uint64_t i = 1; i <= 120; ++i) {
      const std::string name = "object " + std::to_string(i);
      ASSERT_TRUE((*store)->create_object({i * 7919 % 1000, i}, name));
      ASSERT_TRUE((*store)->write({i * 7919 % 1000, i}, 0, pattern(i % 2 == 0 ? 900 : 300, i)));
      numbers[name] = (*store)->stat({i * 7919 % 1000, i})->number;
    }
    ASSERT_TRUE((*store)->checkpoint());
    ASSERT_TRUE((*store)->close());
  }
  const auto root = decode_superblock(medium.chunk(0));
  ASSERT_TRUE(root);
  ASSERT_EQ(root->checkpoint.size(), 1u);
  const Extent& extent = root->checkpoint.front();
  std::map<Section, int> seen;
  for (uint32_t i = 1; i < extent.count; ++i) {
    const auto a = medium.chunk(uint64_t{extent.block_a} * kPer + extent.first + i);
    const auto b = medium.chunk(uint64_t{extent.block_b} * kPer + extent.first + i);
    std::set<uint64_t> lost;
    std::optional<Section> section;
    RecordReader reader({a.data(), head_of(a.data()).length});
    while (!reader.done()) {
      const auto record = reader.next();
      for (const Section one :
           {Section::kObjects, Section::kRuns, Section::kNames, Section::kIds}) {
        const auto key = key_of(one, *record);
        if (!key) continue;
        section = one;
        lost.insert(key->number);
      }
    }
    ASSERT_TRUE(section);
    ++seen[*section];
    a[100] ^= 1;
    b[100] ^= 1;
    Options options;
    options.read_only = options.on_demand = true;
    auto store = Store::open(medium.open(), options);
    ASSERT_TRUE(store) << store.error().what;
    for (const auto& [name, number] : numbers) {
      const auto id = (*store)->find(name);
      Bytes bytes(900);
      const bool got = id && (*store)->read(*id, 0, bytes);
      EXPECT_EQ(got, !lost.contains(number)) << name << " without chunk " << i;
    }
    const bool listed = section == Section::kRuns || section == Section::kIds;
    check_list(**store, numbers, listed ? std::set<uint64_t>{} : lost);
    options.on_demand = false;
    OpenReport report;
    auto all = Store::open(medium.open(), options, &report);
    const bool may = section == Section::kNames || section == Section::kIds;
    ASSERT_EQ(all.has_value(), may) << i;
    if (may) {
      EXPECT_EQ(report.damage.size(), 2u);
      EXPECT_EQ((*all)->list(std::nullopt, 1000)->size(), 120u);
      EXPECT_EQ((*all)->scrub()->damaged, 2u);
    }
    EXPECT_FALSE(Store::open(medium.open(), {})) << i;
    a[100] ^= 1;
    b[100] ^= 1;
  }
  EXPECT_EQ(seen.size(), kSections);
}

// The log changes objects whose state in a table is lost: only these are damaged.
TEST(LostIndex, AndTheLogAfterIt) {
  constexpr uint32_t kPer = 64;
  MemoryMedium medium(kPer, 12);
  const auto id_of = [](uint64_t i) { return ObjectId{1, i}; };
  {
    auto store = Store::create(medium.open(), {});
    ASSERT_TRUE(store);
    for (uint64_t i = 1; i <= 90; ++i) {
      ASSERT_TRUE((*store)->create_object(id_of(i), "object " + std::to_string(i)));
      ASSERT_TRUE((*store)->write(id_of(i), 0, pattern(i < 80 ? 400 : 900, i)));
    }
    ASSERT_TRUE((*store)->checkpoint());
    // Of the first chunk of objects 1 to 4, of the first one of runs 80 to 83.
    ASSERT_TRUE((*store)->rename(id_of(1), "renamed"));
    ASSERT_TRUE((*store)->write(id_of(2), 0, pattern(400, 1002)));
    ASSERT_TRUE((*store)->remove(id_of(3)));
    ASSERT_TRUE((*store)->rename(id_of(80), "renamed too"));
    ASSERT_TRUE((*store)->clone({.from = id_of(81), .to = {2, 1}, .to_name = "clone"}));
    ASSERT_TRUE((*store)->clone({.from = id_of(82), .to = id_of(50), .allow_existing = true}));
    ASSERT_TRUE((*store)->remove(id_of(83)));
    ASSERT_TRUE((*store)->write(id_of(60), 0, pattern(400, 1060)));
    ASSERT_TRUE((*store)->close());
  }
  const auto root = decode_superblock(medium.chunk(0));
  ASSERT_TRUE(root);
  ASSERT_EQ(root->checkpoint.size(), 1u);
  const Extent& extent = root->checkpoint.front();
  const uint64_t first = uint64_t{extent.block_a} * kPer + extent.first;
  const auto head = RecordReader({medium.chunk(first).data(), kDataBytes}).next();
  ASSERT_TRUE(head && std::holds_alternative<TableRecord>(*head));
  const uint32_t runs = 1 + std::get<TableRecord>(*head).chunks[0];
  for (const uint32_t lost : {1u, runs}) {
    SCOPED_TRACE(lost);
    const bool of_runs = lost == runs;
    const auto flip = [&] {
      medium.chunk(first + lost)[100] ^= 1;
      medium.chunk(uint64_t{extent.block_b} * kPer + extent.first + lost)[100] ^= 1;
    };
    flip();
    Options options;
    options.read_only = options.on_demand = true;
    auto store = Store::open(medium.open(), options);
    ASSERT_TRUE(store) << store.error().what;
    const auto read = [&](const std::string& name) -> std::pair<Code, Bytes> {
      const auto id = (*store)->find(name);
      if (!id) return {id.error().code, {}};
      Bytes bytes(900);
      const auto got = (*store)->read(*id, 0, bytes);
      if (!got) return {got.error().code, {}};
      bytes.resize(*got);
      return {Code{}, bytes};
    };
    const auto good = [](Bytes bytes) { return std::pair(Code{}, std::move(bytes)); };
    const std::pair<Code, Bytes> damaged{Code::kDamaged, {}};
    const std::pair<Code, Bytes> none{Code::kNotFound, {}};
    EXPECT_EQ(read("renamed"), of_runs ? good(pattern(400, 1)) : damaged);
    EXPECT_EQ(read("object 2"), of_runs ? good(pattern(400, 1002)) : damaged);
    EXPECT_EQ(read("object 3"), none);
    EXPECT_EQ(read("object 80"), none);
    EXPECT_EQ(read("renamed too"), of_runs ? damaged : good(pattern(900, 80)));
    EXPECT_EQ(read("clone"), of_runs ? damaged : good(pattern(900, 81)));
    EXPECT_EQ(read("object 50"), of_runs ? damaged : good(pattern(900, 82)));
    EXPECT_EQ(read("object 83"), none);
    EXPECT_EQ(read("object 60"), good(pattern(400, 1060)));
    EXPECT_EQ(read("object 70"), good(pattern(400, 70)));
    EXPECT_EQ((*store)->stat({2, 1}).has_value(), !of_runs);
    std::vector<ListLoss> losses;
    const auto listed = (*store)->list(std::nullopt, 1000, &losses);
    ASSERT_TRUE(listed);
    EXPECT_LT(listed->size(), 89u);
    EXPECT_FALSE(losses.empty());
    flip();
  }
}

// The medium has lost the writes of both copies: what a table that the same opening wrote there
// before has left is not taken for the new one.
class EarlierTable : public ::testing::Test {
 protected:
  static constexpr uint32_t kPer = 64;
  static constexpr uint64_t kObjects = 60;

  static Bytes content(uint64_t object, uint64_t round) {
    return pattern(object % 2 == 0 ? 900 : 300, 100 * object + round);
  }
  // Changes all objects, so that they are in a new table.
  void change_all(Store& store, uint64_t round) {
    for (uint64_t i = 1; i <= kObjects; ++i) {
      ASSERT_TRUE(store.write({0, i}, 0, content(i, round)));
    }
    ASSERT_TRUE(store.checkpoint());
    images_.emplace_back(medium_.bytes().begin(), medium_.bytes().end());
  }
  static std::span<const uint8_t> chunk_of(const Bytes& image, uint64_t chunk) {
    return std::span(image).subspan(chunk * kChunkBytes, kChunkBytes);
  }
  // All objects are as in this round, or damaged, and said to be so because of this chunk.
  void expect_no_other(uint64_t round, uint64_t chunk) {
    Options options;
    options.read_only = options.on_demand = true;
    const auto store = Store::open(medium_.open(), options);
    if (!store) {
      EXPECT_EQ(store.error().damage.chunk, chunk) << store.error().what;
      return;
    }
    for (uint64_t i = 1; i <= kObjects; ++i) {
      Bytes bytes(content(i, round).size());
      const auto got = (*store)->read({0, i}, 0, bytes);
      if (got) {
        EXPECT_EQ(bytes, content(i, round)) << "object " << i << ", chunk " << chunk;
      } else {
        EXPECT_EQ(got.error().damage.chunk, chunk) << got.error().what;
      }
    }
    options.on_demand = false;
    const auto all = Store::open(medium_.open(), options);
    const auto record = RecordReader(chunk_of(images_[round], chunk)).next();
    const bool dispensable =
        std::holds_alternative<NameRecord>(*record) || std::holds_alternative<IdRecord>(*record);
    EXPECT_EQ(all.has_value(), dispensable) << "chunk " << chunk;
  }

  MemoryMedium medium_{kPer, 12};
  std::vector<Bytes> images_;  // the medium after each round
};

TEST_F(EarlierTable, IsNotTakenForTheNewOne) {
  constexpr uint64_t kRounds = 6;
  auto made = Store::create(medium_.open(), {});
  ASSERT_TRUE(made);
  for (uint64_t i = 1; i <= kObjects; ++i) ASSERT_TRUE((*made)->create_object({0, i}));
  for (uint64_t round = 0; round < kRounds; ++round) change_all(**made, round);
  made->reset();
  size_t replaced = 0;
  for (uint64_t round = 1; round < kRounds; ++round) {
    std::ranges::copy(images_[round], medium_.bytes().begin());
    const auto root = decode_superblock(medium_.chunk(0));
    ASSERT_TRUE(root);
    for (const Extent& extent : root->checkpoint) {
      for (uint32_t i = 0; i < extent.count; ++i) {
        const uint64_t a = uint64_t{extent.block_a} * kPer + extent.first + i;
        const uint64_t b = uint64_t{extent.block_b} * kPer + extent.first + i;
        const auto old = chunk_of(images_[round - 1], a);
        const ChunkHead head = head_of(old.data());
        if (head.flags != kFlagCheckpoint || head.birth.txn != extent.txn) continue;
        ++replaced;
        std::ranges::copy(old, medium_.chunk(a).begin());
        std::ranges::copy(chunk_of(images_[round - 1], b), medium_.chunk(b).begin());
        expect_no_other(round, a);
        std::ranges::copy(chunk_of(images_[round], a), medium_.chunk(a).begin());
        std::ranges::copy(chunk_of(images_[round], b), medium_.chunk(b).begin());
      }
    }
  }
  EXPECT_GT(replaced, 10u);
}

}  // namespace
}  // namespace verbena::store
