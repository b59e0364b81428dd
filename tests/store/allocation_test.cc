// SPDX-License-Identifier: Apache-2.0
// Memory that cannot be had, at every point where some is asked for: the operation is refused, the
// store is as it was and goes on. And a medium that fails: the store is read-only from then on.
#include <functional>

#include <gtest/gtest.h>

#include "compare.h"
#include "failing_new.h"
#include "medium/faulty_backend.h"
#include "operation.h"
#include "places.h"
#include "recording_backend.h"
#include "store/memory_medium.h"
#include "store/store.h"

namespace verbena::store::trial {
namespace {

constexpr MediumShape kShape{.chunks_per_block = 16, .blocks = 40};
constexpr ObjectId kA{.high = 0, .low = 1};
constexpr ObjectId kB{.high = 0, .low = 2};
constexpr ObjectId kNew{.high = 5, .low = 5};

// A store and its model, both with a few objects.
class Subject {
 public:
  explicit Subject(bool persistent, Durability durability = Durability::kFlush, bool tended = false)
      : medium_(kShape, 1), random_(7) {
    medium_.restore(medium_.recording().start, false);
    options_.durability = durability;
    if (tended) options_.on_due = [] {};
    auto place = make_place("malloc",
                            {.chunks_per_block = kShape.chunks_per_block, .blocks = kShape.blocks});
    auto under = persistent ? medium_.open_backend() : std::move(*place->backend());
    auto created = Store::create(std::make_unique<medium::FaultyBackend>(std::move(under), faults),
                                 options_, random_);
    EXPECT_TRUE(created.has_value());
    store = std::move(*created);
    const auto both = [this](const Operation& operation) {
      EXPECT_EQ(apply(*store, operation), apply(model, operation));
    };
    using Kind = Operation::Kind;
    both({.kind = Kind::kCreate, .id = kA, .name = "first"});
    both({.kind = Kind::kCreate, .id = kB});
    both({.kind = Kind::kWrite, .id = kA, .length = 50'000, .data_seed = 1});
    both({.kind = Kind::kWrite, .id = kB, .offset = 9000, .length = 30'001, .data_seed = 2});
    both({.kind = Kind::kClone, .id = kA, .to = {.high = 0, .low = 3}, .name = "clone"});
    both({.kind = Kind::kFlush});
    both({.kind = Kind::kWrite, .id = kA, .offset = 100, .length = 5000, .data_seed = 3});
  }

  [[nodiscard]] std::string compare_all() { return compare(*store, model, random_); }

  // It is worked with, killed if it can be opened again, and opened.
  void go_on() {
    const Profile profile{.objects = 6,
                          .object_bytes = 60'000,
                          .write_bytes = 30'000,
                          .sparse_bytes = 0,
                          .nonsense_per_mille = 0};
    for (int i = 0; i < 40; ++i) {
      const Operation operation = draw(random_, model, profile);
      Model next = model;
      const Refusal expected = apply(next, operation);
      const Refusal actual = apply(*store, operation);
      if (actual == Code::kFull) continue;
      ASSERT_EQ(actual, expected) << describe(operation);
      if (!expected.has_value()) model = std::move(next);
    }
    ASSERT_EQ(compare_all(), "");
    ASSERT_TRUE(store->flush().has_value());
    if (!store->medium_properties().persistent) return;
    medium_.kill();
    store.reset();
    auto opened = Store::open(medium_.open_backend(), options_);
    ASSERT_TRUE(opened.has_value()) << opened.error().what;
    store = std::move(*opened);
    ASSERT_EQ(compare_all(), "");
  }

 private:
  RecordingMedium medium_;
  SeededRandom random_;
  Options options_;

 public:
  medium::Faults faults;
  Model model;
  std::unique_ptr<Store> store;
};

// Something that a store is asked for, with all that it needs at hand already: only the store's own
// allocations fail.
struct Request {
  const char* name;
  std::function<Refusal(Store&)> ask;
  Operation same;  // as the model has it; a flush: it changes nothing
};

template <typename T>
Refusal refusal(const Result<T>& result) {
  return result.has_value() ? Refusal{} : Refusal{result.error().code};
}

Request request(const char* name, const Operation& operation) {
  auto bytes = std::make_shared<std::vector<uint8_t>>(bytes_of(operation));
  auto kept = std::make_shared<Operation>(operation);
  using Kind = Operation::Kind;
  switch (operation.kind) {
    case Kind::kWrite:
      return {name,
              [=](Store& store) { return refusal(store.write(kept->id, kept->offset, *bytes)); },
              operation};
    case Kind::kPreparedWrite:
      return {name,
              [=](Store& store) -> Refusal {
                auto prepared = store.prepare_write(kept->id, kept->offset, kept->length);
                if (!prepared.has_value()) return prepared.error().code;
                scatter(prepared->pieces(), *bytes);
                return refusal(prepared->commit({}));
              },
              operation};
    default: return {name, [=](Store& store) { return apply(store, *kept); }, operation};
  }
}

std::vector<Request> requests() {
  using Kind = Operation::Kind;
  std::vector<Request> all;
  all.push_back(request("create", {.kind = Kind::kCreate, .id = kNew}));
  all.push_back(
      request("create named", {.kind = Kind::kCreate, .id = kNew, .name = std::string(300, 'n')}));
  all.push_back(
      request("small write",
              {.kind = Kind::kWrite, .id = kA, .offset = 5000, .length = 10, .data_seed = 5}));
  all.push_back(
      request("large write",
              {.kind = Kind::kWrite, .id = kB, .offset = 1001, .length = 400'000, .data_seed = 5}));
  all.push_back(request("write far out", {.kind = Kind::kWrite,
                                          .id = kB,
                                          .offset = uint64_t{1} << 40,
                                          .length = 9000,
                                          .data_seed = 5}));
  all.push_back(request(
      "prepared write",
      {.kind = Kind::kPreparedWrite, .id = kA, .offset = 3000, .length = 150'000, .data_seed = 6}));
  all.push_back(request("truncate", {.kind = Kind::kTruncate, .id = kA, .length = 10'000}));
  all.push_back(request("grow", {.kind = Kind::kTruncate, .id = kA, .length = 1'000'000}));
  all.push_back(request("clone", {.kind = Kind::kClone, .id = kA, .to = kNew, .name = "copy"}));
  all.push_back(request("clone with edges", {.kind = Kind::kClone,
                                             .id = kA,
                                             .to = kB,
                                             .offset = 1000,
                                             .length = 20'000,
                                             .to_offset = 1000,
                                             .allow_existing = true}));
  all.push_back(request("clone by copying", {.kind = Kind::kClone,
                                             .id = kA,
                                             .to = kB,
                                             .offset = 10,
                                             .length = 20'000,
                                             .to_offset = 77,
                                             .allow_existing = true}));
  all.push_back(
      request("rename", {.kind = Kind::kRename, .id = kA, .name = std::string(200, 'r')}));
  all.push_back(request("replace", {.kind = Kind::kReplace, .id = kA, .to = kB}));
  all.push_back(request("remove", {.kind = Kind::kRemove, .id = kA}));
  all.push_back(request("flush", {.kind = Kind::kFlush}));
  all.push_back(request("checkpoint", {.kind = Kind::kCheckpoint}));
  all.push_back(request("compact", {.kind = Kind::kCompact}));
  const auto bytes = std::make_shared<std::vector<uint8_t>>(40'000);
  all.push_back({"read",
                 [bytes](Store& store) {
                   uint32_t crc = 0;
                   return refusal(store.read(kA, 7, *bytes, &crc));
                 },
                 {}});
  all.push_back({"prepared read",
                 [](Store& store) { return refusal(store.prepare_read(kA, 7, 40'000)); },
                 {}});
  all.push_back({"stat", [](Store& store) { return refusal(store.stat(kA)); }, {}});
  all.push_back({"segments", [](Store& store) { return refusal(store.segments(kA, 0, 100)); }, {}});
  return all;
}

struct Case {
  bool persistent;
  Durability durability;
  bool tended = false;  // checkpoints are folded from the log
};

class StoreAllocationTest : public ::testing::TestWithParam<Case> {
 protected:
  // For n = 1, 2, ... until nothing fails any more.
  void fail_each(const Request& request, const std::function<void(Subject&, uint64_t)>& arm,
                 const std::function<bool(Subject&)>& disarm) {
    SCOPED_TRACE(request.name);
    const auto make = [] {
      return std::make_unique<Subject>(GetParam().persistent, GetParam().durability,
                                       GetParam().tended);
    };
    std::unique_ptr<Subject> subject = make();
    for (uint64_t n = 1;; ++n) {
      SCOPED_TRACE("failure " + std::to_string(n));
      ASSERT_LT(n, 5000u);
      arm(*subject, n);
      Refusal refusal;
      bool thrown = false;
      try {
        refusal = request.ask(*subject->store);
      } catch (const std::bad_alloc&) {
        thrown = true;
      }
      const bool failed = disarm(*subject);
      ASSERT_FALSE(thrown) << "an exception came out of the store";
      if (!refusal.has_value()) {
        ASSERT_EQ(apply(subject->model, request.same), Refusal{});
        ASSERT_EQ(subject->compare_all(), "");
        if (!failed) break;
        subject = make();  // it went well in spite of the failure
        continue;
      }
      ASSERT_TRUE(failed) << "refused with nothing failing: " << describe(refusal);
      ASSERT_TRUE(refusal == Code::kNoMemory || refusal == Code::kFull) << describe(refusal);
      ASSERT_EQ(subject->compare_all(), "");
    }
    subject->go_on();
  }
};

TEST_P(StoreAllocationTest, AnAllocationFails) {
  for (const Request& request : requests()) {
    fail_each(
        request, [](Subject&, uint64_t n) { fail_allocation(n, false); },
        [](Subject&) { return stop_failing(); });
    if (HasFatalFailure()) return;
  }
}

TEST_P(StoreAllocationTest, AllAllocationsFailFromOneOn) {
  for (const Request& request : requests()) {
    fail_each(
        request, [](Subject&, uint64_t n) { fail_allocation(n, true); },
        [](Subject&) { return stop_failing(); });
    if (HasFatalFailure()) return;
  }
}

TEST_P(StoreAllocationTest, ABlockIsRefused) {
  for (const Request& request : requests()) {
    fail_each(
        request, [](Subject& subject, uint64_t n) { subject.faults.allocate.arm(n); },
        [](Subject& subject) {
          medium::Fault& fault = subject.faults.allocate;
          const bool struck = fault.calls >= fault.fail_at;
          fault.disarm();
          return struck;
        });
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreAllocationTest,
                         ::testing::Values(Case{false, Durability::kFlush},
                                           Case{true, Durability::kFlush},
                                           Case{true, Durability::kFlush, true},
                                           Case{true, Durability::kEach}));

TEST(StoreFailureTest, AFailedFenceMakesItReadOnly) {
  for (const bool checkpoint : {false, true}) {
    Subject subject(true);
    ASSERT_TRUE(subject.store->flush().has_value());
    ASSERT_FALSE(apply(subject.model, {.kind = Operation::Kind::kTruncate, .id = kA, .length = 9})
                     .has_value());
    ASSERT_TRUE(subject.store->truncate(kA, 9).has_value());
    subject.faults.fence.arm(1, true);
    const auto flushed = checkpoint ? subject.store->checkpoint() : subject.store->flush();
    ASSERT_FALSE(flushed.has_value());
    EXPECT_TRUE(flushed.error().code == Code::kIo || flushed.error().code == Code::kReadOnly);
    // A retry would lie: what the kernel could not write it has forgotten.
    EXPECT_FALSE(subject.store->flush().has_value());
    EXPECT_EQ(refusal(subject.store->create_object(kNew)), Code::kReadOnly);
    EXPECT_EQ(refusal(subject.store->write(kA, 0, std::vector<uint8_t>(10))), Code::kReadOnly);
    EXPECT_EQ(refusal(subject.store->remove(kA)), Code::kReadOnly);
    EXPECT_EQ(refusal(subject.store->truncate(kA, 1)), Code::kReadOnly);
    EXPECT_EQ(refusal(subject.store->rename(kA, "x")), Code::kReadOnly);
    EXPECT_EQ(subject.compare_all(), "");
    EXPECT_FALSE(subject.store->close().has_value());
  }
}

// A checkpoint that is due waits for memory. That is no failure of the store, which would end its
// upkeep.
TEST(StoreFailureTest, ACheckpointThatIsDueWaitsForMemory) {
  MemoryMedium medium(256, 40);
  SeededRandom random(7);
  const Options options{.on_due = [] {}};
  auto store = Store::create(medium.open(), options, random);
  ASSERT_TRUE(store.has_value());
  ASSERT_TRUE((*store)->create_object(kA).has_value());
  for (int i = 0; i < 600; ++i) {
    ASSERT_TRUE((*store)->rename(kA, std::string(990, 'n') + std::to_string(i)).has_value());
  }
  const uint64_t before = (*store)->info().generation;
  bool failed = true;
  for (uint64_t n = 1; failed; ++n) {
    SCOPED_TRACE("failure " + std::to_string(n));
    fail_allocation(n, false);
    const auto done = (*store)->tend();
    failed = stop_failing();
    ASSERT_TRUE(done.has_value()) << done.error().what;
  }
  EXPECT_GT((*store)->info().generation, before);
  EXPECT_TRUE((*store)->find(std::string(990, 'n') + "599").has_value());
}

// One that had no memory to begin with changes nothing in what is kept free for the next: objects
// that are in a table already are counted when they change again.
TEST(StoreFailureTest, ACheckpointThatDidNotBeginLeavesRoomForTheNext) {
  constexpr uint64_t kClones = 40;
  MemoryMedium medium(64, 96);
  SeededRandom random(7);
  auto store = Store::create(medium.open(), {.on_due = [] {}}, random);
  ASSERT_TRUE(store.has_value());
  ASSERT_TRUE((*store)->create_object(kA).has_value());
  // Chunks with a hole behind each, and what shares them: short in the log, long in a table.
  const std::vector<uint8_t> bytes(kDataBytes, 7);
  for (uint64_t i = 0; i < 700; ++i) {
    ASSERT_TRUE((*store)->write(kA, 2 * i * kDataBytes, bytes).has_value());
  }
  for (uint64_t i = 0; i < kClones; ++i) {
    ASSERT_TRUE((*store)->clone({.from = kA, .to = {.high = 3, .low = i}}).has_value());
  }
  ASSERT_TRUE((*store)->checkpoint().has_value());
  fail_allocation(1, false);
  EXPECT_EQ(refusal((*store)->checkpoint()), Code::kNoMemory);
  ASSERT_TRUE(stop_failing());
  for (uint64_t i = 0; i < kClones; ++i) {
    ASSERT_TRUE((*store)->rename({.high = 3, .low = i}, std::to_string(i)).has_value());
  }
  ASSERT_TRUE((*store)->create_object(kB).has_value());
  uint64_t offset = 0;
  while ((*store)->write(kB, offset, bytes)) offset += bytes.size();
  const auto done = (*store)->checkpoint();
  EXPECT_TRUE(done.has_value()) << done.error().what;
}

// A medium on files that runs out of memory in a fence may not say later that all is durable.
TEST(StoreFailureTest, AFenceWithoutMemoryLosesNothingSilently) {
  for (const std::string kind : {"nvdimm", "staged"}) {
    bool failed = true;
    for (uint64_t n = 1; failed; ++n) {
      auto place = make_place(kind, {.chunks_per_block = 64, .blocks = 16});
      SeededRandom random(7);
      const std::vector<uint8_t> bytes(100'000, 0x5a);
      bool durable = false;
      {
        auto backend = place->backend();
        ASSERT_TRUE(backend.has_value());
        auto made = Store::create(std::move(*backend), {}, random);
        ASSERT_TRUE(made.has_value());
        ASSERT_TRUE((*made)->create_object(kA).has_value());
        ASSERT_TRUE((*made)->flush().has_value());
        ASSERT_TRUE((*made)->write(kA, 0, bytes).has_value());
        fail_allocation(n, false);
        static_cast<void>((*made)->flush());
        failed = stop_failing();
        durable = (*made)->flush().has_value();
        static_cast<void>((*made)->close());
      }
      auto backend = place->backend();
      ASSERT_TRUE(backend.has_value());
      auto again = Store::open(std::move(*backend), {});
      ASSERT_TRUE(again.has_value()) << again.error().what;
      std::vector<uint8_t> there(bytes.size());
      if (!durable) continue;
      const auto read = (*again)->read(kA, 0, there);
      ASSERT_TRUE(read.has_value()) << kind << " " << n << ": " << read.error().what;
      EXPECT_EQ(there, bytes);
    }
  }
}

// Each allocation of a compaction that has something to move: no chunk is lost by it.
TEST(StoreCompaction, AnAllocationFails) {
  for (uint64_t n = 1;; ++n) {
    SCOPED_TRACE(n);
    ASSERT_LT(n, 2000u);
    MemoryMedium medium(16, 60);
    auto made = Store::create(medium.open(), {});
    ASSERT_TRUE(made);
    Store& store = **made;
    const std::vector<uint8_t> bytes(9 * kDataBytes, 0x5a);
    for (uint64_t i = 1; i <= 40; ++i) {
      ASSERT_TRUE(store.create_object({0, i}) && store.write({0, i}, 0, bytes));
    }
    for (uint64_t i = 1; i < 40; ++i) ASSERT_TRUE(store.remove({0, i}));
    ASSERT_TRUE(store.checkpoint());
    fail_allocation(n, false);
    const auto report = store.compact();
    const bool failed = stop_failing();
    if (!failed) {
      ASSERT_TRUE(report) << report.error().what;
      EXPECT_GT(report->moved, 0u);
    }
    ASSERT_TRUE(store.checkpoint());
    EXPECT_EQ(store.space().used, 9u);
    EXPECT_EQ(store.space().pending, 0u);
    std::vector<uint8_t> got(bytes.size());
    ASSERT_TRUE(store.read({0, 40}, 0, got));
    ASSERT_EQ(got, bytes);
    ASSERT_TRUE(store.close());
    if (!failed) break;
  }
}

}  // namespace
}  // namespace verbena::store::trial
