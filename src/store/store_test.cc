// SPDX-License-Identifier: Apache-2.0
// The store's operations one by one. Long random sequences, crashes and damage: tests/store.
#include "store/store.h"

#include <cstring>
#include <filesystem>
#include <numeric>

#include <gtest/gtest.h>

#include "medium/faulty_backend.h"
#include "medium/malloc_backend.h"
#include "medium/nvdimm_backend.h"
#include "medium/staged_backend.h"
#include "store/crc_parts.h"
#include "store/record.h"
#include "store/store_testing.h"

namespace verbena::store {
namespace {

constexpr uint32_t kPerBlock = 64;

// On files, in a folder that is gone afterwards.
class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "verbena-store-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    make();
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::unique_ptr<medium::Backend> backend() const {
    medium::NvdimmOptions options;
    options.files.folder = folder_;
    options.files.block_bytes = kPerBlock * kChunkBytes;
    options.files.capacity = 32;
    auto made = medium::open_nvdimm_backend(options);
    EXPECT_TRUE(made.has_value()) << made.error().what;
    return std::move(*made);
  }
  void make(const Options& options = {}) {
    store_.reset();
    SeededRandom random(7);
    auto made = Store::create(backend(), options, random);
    ASSERT_TRUE(made.has_value()) << made.error().what;
    store_ = std::move(*made);
  }
  OpenReport reopen() {
    EXPECT_TRUE(store_->close().has_value());
    store_.reset();
    OpenReport report;
    auto made = Store::open(backend(), {}, &report);
    EXPECT_TRUE(made.has_value()) << made.error().what;
    if (made) store_ = std::move(*made);
    return report;
  }
  void write(ObjectId id, uint64_t offset, const Bytes& bytes) {
    const auto done = store_->write(id, offset, bytes);
    ASSERT_TRUE(done.has_value()) << done.error().what;
  }
  [[nodiscard]] Bytes read(ObjectId id, uint64_t offset, size_t size) const {
    Bytes bytes(size);
    uint32_t crc = 0;
    const auto done = store_->read(id, offset, bytes, &crc);
    EXPECT_TRUE(done.has_value()) << done.error().what;
    if (!done) return {};
    bytes.resize(*done);
    EXPECT_EQ(crc, crc_of(bytes));
    return bytes;
  }

  std::string folder_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTest, ReadsWhatWasWrittenAtAnyOffset) {
  ASSERT_TRUE(store_->create_object(kOne, "one"));
  Bytes model;
  SeededRandom random(3);
  for (int i = 0; i < 200; ++i) {
    const size_t offset = random.below(40'000);
    const Bytes bytes = pattern(1 + random.below(12'000), static_cast<uint64_t>(i));
    write(kOne, offset, bytes);
    if (model.size() < offset + bytes.size()) model.resize(offset + bytes.size());
    std::ranges::copy(bytes, model.begin() + static_cast<ptrdiff_t>(offset));
    ASSERT_EQ(read(kOne, 0, 100'000), model) << i;
  }
  EXPECT_EQ(store_->stat(kOne)->size, model.size());
  const auto report = reopen();
  EXPECT_TRUE(report.clean);
  EXPECT_TRUE(report.damage.empty());
  EXPECT_EQ(read(kOne, 0, 100'000), model);
  EXPECT_EQ(*store_->find("one"), kOne);
}

TEST_F(StoreTest, HolesAreZerosAndTruncationCuts) {
  ASSERT_TRUE(store_->create_object(kOne));
  write(kOne, 20'000, pattern(100, 1));
  EXPECT_EQ(read(kOne, 0, 20'000), Bytes(20'000));
  write(kOne, 0, pattern(9000, 2));
  ASSERT_TRUE(store_->truncate(kOne, 5000));
  ASSERT_TRUE(store_->truncate(kOne, 30'000));
  Bytes expected = pattern(9000, 2);
  expected.resize(5000);
  expected.resize(30'000);
  EXPECT_EQ(read(kOne, 0, 40'000), expected);
  reopen();
  EXPECT_EQ(read(kOne, 0, 40'000), expected);
  EXPECT_EQ(store_->space().used, 2u);
}

TEST_F(StoreTest, ClonesShareUntilWritten) {
  ASSERT_TRUE(store_->create_object(kOne));
  const Bytes bytes = pattern(100'000, 1);
  write(kOne, 0, bytes);
  const uint64_t used = store_->space().used;
  CloneRequest whole;
  whole.from = kOne;
  whole.to = kTwo;
  ASSERT_TRUE(store_->clone(whole));
  EXPECT_EQ(store_->space().used, used);
  EXPECT_EQ(store_->clone(whole).error().code, Code::kExists);
  write(kTwo, 50'000, Bytes(10, 7));
  EXPECT_EQ(store_->space().used, used + 1);
  EXPECT_EQ(read(kOne, 0, 100'000), bytes);
  Bytes changed = bytes;
  std::fill_n(changed.begin() + 50'000, 10, 7);
  EXPECT_EQ(read(kTwo, 0, 100'000), changed);
  ASSERT_TRUE(store_->remove(kOne));
  reopen();
  EXPECT_EQ(read(kTwo, 0, 100'000), changed);
  EXPECT_EQ(store_->space().used, used);
}

TEST_F(StoreTest, FullRefusesAndGoesOn) {
  ASSERT_TRUE(store_->create_object(kOne));
  ASSERT_TRUE(store_->create_object(kTwo));
  write(kTwo, 0, pattern(1000, 9));
  uint64_t at = 0;
  Result<void> last;
  while ((last = store_->write(kOne, at, pattern(100'000, at)))) at += 100'000;
  EXPECT_EQ(last.error().code, Code::kFull) << last.error().what;
  EXPECT_EQ(store_->stat(kOne)->size, at);
  EXPECT_EQ(read(kTwo, 0, 1000), pattern(1000, 9));
  ASSERT_TRUE(store_->truncate(kOne, 100'123));
  for (int i = 0; i < 20; ++i) write(kTwo, 0, pattern(200'000, 5));
  reopen();
  EXPECT_EQ(read(kTwo, 0, 200'000), pattern(200'000, 5));
}

TEST_F(StoreTest, PreparedWritesAreSeenWhenCommitted) {
  ASSERT_TRUE(store_->create_object(kOne));
  write(kOne, 0, Bytes(30'000, 1));
  const Bytes bytes = pattern(10'000, 3);
  const uint64_t used = store_->space().used;
  for (const bool commit : {false, true}) {
    auto prepared = store_->prepare_write(kOne, 1234, bytes.size());
    ASSERT_TRUE(prepared.has_value());
    size_t at = 0;
    for (const Scatter& piece : prepared->pieces()) {
      for (uint32_t i = 0; i < piece.count; ++i) {
        std::memcpy(piece.memory + size_t{i} * piece.stride, bytes.data() + at, piece.bytes);
        at += piece.bytes;
      }
    }
    ASSERT_EQ(at, bytes.size());
    if (!commit) continue;
    EXPECT_EQ(prepared->commit({false, crc_of(bytes) ^ 1}).error().code, Code::kDamaged);
    EXPECT_EQ(read(kOne, 0, 30'000), Bytes(30'000, 1));
    const auto done = prepared->commit({false, crc_of(bytes)});
    ASSERT_TRUE(done.has_value()) << done.error().what;
  }
  Bytes expected(30'000, 1);
  std::ranges::copy(bytes, expected.begin() + 1234);
  EXPECT_EQ(read(kOne, 0, 30'000), expected);
  ASSERT_TRUE(store_->flush() && store_->flush());
  EXPECT_EQ(store_->space().used, used);
  EXPECT_EQ(store_->space().pending, 0u);
}

TEST_F(StoreTest, PinnedBytesStayAsTheyAre) {
  ASSERT_TRUE(store_->create_object(kOne));
  const Bytes bytes = pattern(20'000, 3);
  write(kOne, 0, bytes);
  {
    const auto pinned = store_->prepare_read(kOne, 100, 15'000);
    ASSERT_TRUE(pinned.has_value());
    for (int i = 0; i < 50; ++i) {
      write(kOne, 0, pattern(20'000, 100 + static_cast<uint64_t>(i)));
      ASSERT_TRUE(store_->flush());
    }
    Bytes seen;
    for (const Scatter& piece : pinned->pieces()) {
      for (uint32_t i = 0; i < piece.count; ++i) {
        const uint8_t* from = piece.memory + size_t{i} * piece.stride;
        seen.insert(seen.end(), from, from + piece.bytes);
      }
    }
    EXPECT_EQ(seen, Bytes(bytes.begin() + 100, bytes.begin() + 15'100));
    EXPECT_EQ(pinned->crc(), crc_of(seen));
  }
  ASSERT_TRUE(store_->flush() && store_->flush());
  EXPECT_EQ(store_->space().used, 5u);
  EXPECT_EQ(store_->space().pending, 0u);
}

TEST_F(StoreTest, ReplacesInOneStep) {
  ASSERT_TRUE(store_->create_object(kOne, "name"));
  ASSERT_TRUE(store_->create_object(kTwo));
  write(kOne, 0, pattern(50'000, 1));
  write(kTwo, 0, pattern(12'345, 2));
  ASSERT_TRUE(store_->replace(kOne, kTwo));
  EXPECT_EQ(store_->stat(kTwo).error().code, Code::kNotFound);
  reopen();
  EXPECT_EQ(read(*store_->find("name"), 0, 100'000), pattern(12'345, 2));
  EXPECT_EQ(store_->space().used, 4u);
}

TEST_F(StoreTest, ListsInPages) {
  for (uint64_t i = 0; i < 25; ++i) {
    ASSERT_TRUE(store_->create_object({0, i + 1}, i < 5 ? "" : "name " + std::to_string(100 + i)));
  }
  std::optional<Cursor> after;
  std::vector<uint64_t> seen;
  for (;;) {
    const auto page = store_->list(after, 7);
    for (const auto& object : page) seen.push_back(object.id.low);
    if (page.empty()) break;
    after = Cursor{page.back().name, page.back().id};
  }
  std::vector<uint64_t> expected(25);
  std::iota(expected.begin(), expected.end(), 1);
  EXPECT_EQ(seen, expected);
}

TEST_F(StoreTest, ReadsAtTheEdgesOfWhatCanBe) {
  ASSERT_TRUE(store_->create_object(kOne));
  ASSERT_TRUE(store_->truncate(kOne, kMaxSize));
  Bytes bytes(100);
  EXPECT_EQ(store_->read(kOne, kMaxSize - 10, bytes).value_or(99), 10u);
  EXPECT_EQ(store_->read(kOne, kMaxSize, bytes).value_or(99), 0u);
  EXPECT_EQ(store_->read(kOne, UINT64_MAX, bytes).value_or(99), 0u);
  EXPECT_EQ(store_->write(kOne, kMaxSize - 10, bytes).error().code, Code::kInvalid);
  write(kOne, kMaxSize - 100, pattern(100, 1));
  // However long a hole is, few pieces say so.
  const auto pinned = store_->prepare_read(kOne, 0, UINT64_MAX);
  ASSERT_TRUE(pinned.has_value());
  EXPECT_EQ(pinned->length(), kMaxSize);
  ASSERT_LE(pinned->pieces().size(), 5u);
  uint64_t sum = 0;
  for (const Scatter& piece : pinned->pieces()) sum += uint64_t{piece.bytes} * piece.count;
  EXPECT_EQ(sum, kMaxSize);
}

// Clones make the index grow much faster than the log.
TEST_F(StoreTest, ThereIsRoomForEveryCheckpoint) {
  ASSERT_TRUE(store_->create_object(kOne));
  constexpr uint64_t kRuns = 200;
  for (const uint64_t first : {0, 1}) {
    for (uint64_t i = first; i < kRuns; i += 2) write(kOne, i * kDataBytes, pattern(kDataBytes, i));
  }
  uint64_t clones = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 30; ++i) {
      const auto cloned = store_->clone({.from = kOne, .to = {2, ++clones}});
      ASSERT_TRUE(cloned.has_value()) << cloned.error().what;
    }
    ASSERT_GE(store_->space().mappings, kRuns * clones);
    for (int i = 0; i < 3; ++i) {
      const auto done = store_->checkpoint();
      ASSERT_TRUE(done.has_value()) << done.error().what;
    }
    for (uint64_t i = 0; i < 3000; ++i) {
      write(kOne, i % kRuns * kDataBytes, pattern(10, i));
      ASSERT_FALSE(HasFatalFailure());
    }
  }
  reopen();
  EXPECT_EQ(store_->list({}, 1000).size(), 1 + clones);
}

TEST_F(StoreTest, ObjectsAreBounded) {
  Options options;
  options.max_objects = 3;
  make(options);
  for (uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(store_->create_object({0, i}));
  EXPECT_EQ(store_->create_object({0, 4}).error().code, Code::kFull);
  ASSERT_TRUE(store_->remove({0, 2}));
  EXPECT_TRUE(store_->create_object({0, 4}));
}

TEST_F(StoreTest, ObjectsAreBoundedWhenOpened) {
  for (uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(store_->create_object({0, i}));
  ASSERT_TRUE(store_->close());
  store_.reset();
  Options options;
  options.max_objects = 2;
  EXPECT_EQ(Store::open(backend(), options).error().code, Code::kFull);
  options.max_objects = 3;
  EXPECT_TRUE(Store::open(backend(), options).has_value());
}

// While the log is replayed, what replaces an object is there twice.
TEST_F(StoreTest, AReplacementOfAllSegmentsIsOpenedAgain) {
  Options options;
  options.max_mappings = 10'000;
  make(options);
  ASSERT_TRUE(store_->create_object(kOne));
  ASSERT_TRUE(store_->create_object(kTwo));
  // Chunks that lie apart, shared so that they take no room.
  const Bytes chunk = pattern(kDataBytes, 1);
  write(kTwo, 0, chunk);
  for (uint64_t runs = 1; runs < 8192; runs *= 2) {
    ASSERT_TRUE(store_->clone({.from = kTwo,
                               .to = kTwo,
                               .length = (2 * runs - 1) * kDataBytes,
                               .to_offset = 2 * runs * kDataBytes,
                               .allow_existing = true}));
  }
  ASSERT_EQ(store_->stat(kTwo)->segments, 8192u);
  ASSERT_TRUE(store_->replace(kOne, kTwo));
  ASSERT_TRUE(store_->close());
  store_.reset();
  const auto again = Store::open(backend(), options);
  ASSERT_TRUE(again.has_value()) << again.error().what;
  EXPECT_EQ((*again)->stat(kOne)->segments, 8192u);
}

// What opening has to verify is bounded, whatever wrote it.
TEST_F(StoreTest, CopiesOfClonesAreFlushedInTime) {
  Options options;
  options.flush_bytes = 50 * kDataBytes;
  make(options);
  ASSERT_TRUE(store_->create_object(kOne));
  write(kOne, 0, pattern(10 * kDataBytes, 1));
  for (uint64_t i = 0; i < 30; ++i) {
    ASSERT_TRUE(store_->clone({.from = kOne, .to = kTwo, .to_offset = 1, .allow_existing = true}));
  }
  // The store is left as a process that was killed would leave it.
  OpenReport report;
  Options reading;
  reading.read_only = true;
  ASSERT_TRUE(Store::open(backend(), reading, &report).has_value());
  EXPECT_LE(report.verified_chunks, 110u);
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

TEST_F(StoreTest, RegisteredRangesAreKeptFromOthers) {
  constexpr ClientId kOwner = 1;
  constexpr ClientId kStranger = 2;
  make({.enforce_ranges = true});
  ASSERT_TRUE(store_->create_object(kOne));
  ASSERT_TRUE(store_->create_object(kTwo));
  write(kOne, 0, pattern(10'000, 1));
  write(kTwo, 0, pattern(10'000, 2));
  auto early = store_->prepare_write(kOne, 1500, 10, kStranger);
  ASSERT_TRUE(early);
  ASSERT_TRUE(store_->ranges().add(kOwner, kOne, 1000, 1000, Access::kWrite));

  const Bytes bytes(100);
  const auto code = [](const auto& result) {
    return result ? std::optional<Code>() : result.error().code;
  };
  for (const ClientId client : {kStranger, ClientId{0}}) {
    EXPECT_EQ(code(store_->write(kOne, 1999, bytes, client)), Code::kConflict);
    EXPECT_EQ(code(store_->write(kOne, 901, bytes, client)), Code::kConflict);
    EXPECT_EQ(code(store_->prepare_write(kOne, 0, 1001, client)), Code::kConflict);
    EXPECT_EQ(code(store_->truncate(kOne, 1999, client)), Code::kConflict);
    EXPECT_EQ(code(store_->replace(kOne, kTwo, client)), Code::kConflict);
    const CloneRequest over{.from = kTwo, .to = kOne, .allow_existing = true};
    EXPECT_EQ(code(store_->clone(over, client)), Code::kConflict);
  }
  EXPECT_EQ(code(early->commit({})), Code::kConflict);
  EXPECT_EQ(read(kOne, 0, 10'000), pattern(10'000, 1));

  EXPECT_TRUE(store_->write(kOne, 900, bytes, kStranger));
  EXPECT_TRUE(store_->write(kOne, 2000, bytes, kStranger));
  EXPECT_TRUE(store_->write(kOne, 1950, bytes, kOwner));
  EXPECT_TRUE(store_->truncate(kOne, 2000, kStranger));
  store_->ranges().drop(kOwner);
  EXPECT_TRUE(store_->write(kOne, 1999, bytes, kStranger));
  EXPECT_TRUE(store_->replace(kOne, kTwo, kStranger));
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

TEST(VolatileStore, WorksWithoutALog) {
  medium::MallocOptions options;
  options.block_bytes = kPerBlock * kChunkBytes;
  options.capacity = 8;
  SeededRandom random(1);
  auto backend = medium::make_malloc_backend(options);
  ASSERT_TRUE(backend.has_value());
  auto store = Store::create(std::move(*backend), {}, random);
  ASSERT_TRUE(store.has_value()) << store.error().what;
  ASSERT_TRUE((*store)->create_object(kOne));
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE((*store)->write(kOne, i * 1000, pattern(50'000, i)));
  }
  Bytes bytes(50'000);
  ASSERT_TRUE((*store)->read(kOne, 99'000, bytes));
  EXPECT_EQ(bytes, pattern(50'000, 99));
  EXPECT_TRUE((*store)->flush());
}

}  // namespace
}  // namespace verbena::store
