// SPDX-License-Identifier: Apache-2.0
// Writes of single pages that fail, behind a page cache that shows them as if they had not: an
// operation that was reported as failed has not happened, and what an opened store shows is there
// when the cache is gone.
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "cached_medium.h"
#include "store/store.h"

namespace verbena::store::trial {
namespace {

constexpr MediumShape kSmall{.chunks_per_block = 16, .blocks = 24};
constexpr ObjectId kOld{0, 1};
constexpr ObjectId kOther{0, 2};

std::vector<uint8_t> bytes_of(uint64_t seed, size_t size) {
  SeededRandom random(seed);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next());
  return bytes;
}

const std::vector<uint8_t> kBefore = bytes_of(1, 9'000);
const std::vector<uint8_t> kAfter = bytes_of(2, 14'000);
const std::vector<uint8_t> kElse = bytes_of(3, 30'000);

// An operation on a store that has kBefore, after which it has kAfter; the error, if it failed.
using Change = std::function<bool(Store&)>;

bool write_and_flush(Store& store) {
  return store.write(kOld, 0, kAfter).has_value() && store.flush().has_value();
}
bool write_and_close(Store& store) {
  return store.write(kOld, 0, kAfter).has_value() && store.close().has_value();
}
bool write_and_checkpoint(Store& store) {
  return store.write(kOld, 0, kAfter).has_value() && store.checkpoint().has_value();
}
// As `verbena put` does it.
bool replace_and_close(Store& store) {
  constexpr ObjectId kDraft{7, 7};
  return store.create_object(kDraft).has_value() && store.write(kDraft, 0, kAfter).has_value() &&
         store.replace(kOld, kDraft).has_value() && store.close().has_value();
}
constexpr std::array kChanges = {write_and_flush, write_and_close, write_and_checkpoint,
                                 replace_and_close};

class FailedWrites : public testing::Test {
 protected:
  // The store with one object, on a medium that has all of it.
  void make() {
    medium_.emplace(kSmall);
    SeededRandom random(5);
    auto store = Store::create(medium_->open_backend(), {}, random);
    ASSERT_TRUE(store);
    ASSERT_TRUE((*store)->create_object(kOld));
    ASSERT_TRUE((*store)->write(kOld, 0, kBefore));
    ASSERT_TRUE((*store)->close());
  }
  // Whether the change says that it is done. The process is gone afterwards.
  bool change(const Change& change, CachedMedium::Failure failure) {
    medium_->fail(failure);
    auto store = Store::open(medium_->open_backend(), {});
    return store && change(**store);
  }
  std::unique_ptr<Store> open() {
    medium_->fail({});
    auto store = Store::open(medium_->open_backend(), {});
    // An error that nobody has been told of yet is told to whoever comes next.
    if (!store) store = Store::open(medium_->open_backend(), {});
    EXPECT_TRUE(store) << store.error().what;
    return store ? *std::move(store) : nullptr;
  }
  static std::vector<uint8_t> read(const Store& store, ObjectId id) {
    std::vector<uint8_t> bytes(40'000);
    const auto got = store.read(id, 0, bytes);
    EXPECT_TRUE(got) << got.error().what;
    bytes.resize(got.value_or(0));
    return bytes;
  }
  // The next process sees one of the two, goes on, and finds the same when the cache is gone.
  void look(bool before_allowed, bool after_allowed) {
    std::vector<uint8_t> seen;
    {
      const auto store = open();
      ASSERT_TRUE(store);
      seen = read(*store, kOld);
      ASSERT_TRUE((before_allowed && seen == kBefore) || (after_allowed && seen == kAfter))
          << seen.size() << " bytes";
      ASSERT_TRUE(store->create_object(kOther));
      ASSERT_TRUE(store->write(kOther, 0, kElse));
      ASSERT_TRUE(store->close());
    }
    medium_->drop();
    const auto store = open();
    ASSERT_TRUE(store);
    EXPECT_EQ(read(*store, kOld), seen);
    EXPECT_EQ(read(*store, kOther), kElse);
    const auto scrubbed = store->scrub();
    ASSERT_TRUE(scrubbed);
    EXPECT_EQ(scrubbed->damaged, 0U);
  }
  // The writes of pages that opening and the change make, if all goes well.
  uint64_t writes_of(const Change& what) {
    make();
    EXPECT_TRUE(change(what, {}));
    return medium_->writes();
  }
  void each(CachedMedium::Failure failure,
            const std::function<void(bool done, bool failed)>& check) {
    for (size_t kind = 0; kind < kChanges.size(); ++kind) {
      const uint64_t writes = writes_of(kChanges.at(kind));
      ASSERT_GT(writes, 8U);
      for (failure.at = 1; failure.at <= writes; ++failure.at) {
        SCOPED_TRACE("change " + std::to_string(kind) + ", page write " +
                     std::to_string(failure.at));
        make();
        const bool done = change(kChanges.at(kind), failure);
        check(done, medium_->failed());
        if (HasFailure()) return;
      }
    }
  }

  std::optional<CachedMedium> medium_;
};

TEST_F(FailedWrites, WhatWasReportedAsFailedHasNotHappened) {
  each({}, [&](bool done, bool failed) {
    EXPECT_TRUE(failed);
    look(!done, done);
  });
}

TEST_F(FailedWrites, AReaderSeesItNeither) {
  each({}, [&](bool done, bool /*failed*/) {
    auto store = Store::open(medium_->open_backend(), {.read_only = true});
    ASSERT_TRUE(store) << store.error().what;
    EXPECT_EQ(read(**store, kOld), done ? kAfter : kBefore);
  });
}

TEST_F(FailedWrites, AProcessThatIsKilledLeavesOneOrTheOther) {
  each({.kill = true}, [&](bool, bool) { look(true, true); });
}

TEST_F(FailedWrites, TheNextProcessMayBeToldOfIt) {
  each({.kill = true, .told_again = true}, [&](bool, bool) { look(true, true); });
}

// The medium takes nothing any more, then it does: nobody can know what it had taken before.
TEST_F(FailedWrites, AMediumThatFailsAltogetherLeavesOneOrTheOther) {
  each({.and_after = true}, [&](bool done, bool) { look(!done, true); });
}

}  // namespace
}  // namespace verbena::store::trial
