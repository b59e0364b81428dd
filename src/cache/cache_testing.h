// SPDX-License-Identifier: Apache-2.0
// For tests of the cache: a small store in front of a tier that fails, or lets others act, when the
// test says so.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backend/faulty_tier.h"
#include "backend/memory_tier.h"
#include "cache/cache.h"
#include "store/drafts.h"
#include "store/memory_medium.h"

namespace verbena::cache {

// Another tier, of which the test does something in the middle of some calls.
class WatchedTier final : public backend::Tier {
 public:
  explicit WatchedTier(backend::Tier& below) : below_(below) {}
  std::function<void()> after_load{};
  std::function<void()> before_state{};

  [[nodiscard]] std::string describe() const override { return below_.describe(); }
  [[nodiscard]] Result<backend::State> state(const backend::Key& key) override {
    call(before_state);
    return below_.state(key);
  }
  [[nodiscard]] Result<void> list(const Each& each) override { return below_.list(each); }
  [[nodiscard]] Result<void> load(const backend::Key& key, uint64_t version, uint64_t first,
                                  std::span<backend::PartToLoad> parts) override {
    auto done = below_.load(key, version, first, parts);
    if (done) call(after_load);
    return done;
  }
  [[nodiscard]] Result<std::unique_ptr<backend::Update>> update(
      const backend::Key& key, const backend::NewState& wanted) override {
    return below_.update(key, wanted);
  }
  [[nodiscard]] Result<void> remove(const backend::Key& key, uint64_t version) override {
    return below_.remove(key, version);
  }

 private:
  static void call(const std::function<void()>& what) {
    if (what) what();
  }
  backend::Tier& below_;
};

using Bytes = std::vector<uint8_t>;
using store::Code;

inline Bytes pattern(size_t size, uint64_t seed) {
  SeededRandom random(seed);
  Bytes bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next());
  return bytes;
}

// How many seeds a test has: VERBENA_TEST_SEEDS, if more are wanted.
inline uint64_t seeds(uint64_t usual) {
  const char* const wanted = std::getenv("VERBENA_TEST_SEEDS");
  return wanted == nullptr ? usual : std::max<uint64_t>(1, std::strtoull(wanted, nullptr, 10));
}

// A store of a few hundred chunks, of which much is for the log, in front of a tier: one in memory,
// or another one.
class CacheTest : public ::testing::Test {
 protected:
  CacheTest() = default;
  explicit CacheTest(std::unique_ptr<backend::Tier> other) : other_(std::move(other)) {}

  static constexpr uint32_t kPerBlock = 16;
  static constexpr uint32_t kBlocks = 48;

  void SetUp() override { begin(); }
  void TearDown() override { end(); }

  void begin() {
    end();
    medium_ = std::make_unique<store::MemoryMedium>(kPerBlock, blocks_);
    open(true);
  }
  void open(bool fresh) {
    store::Options options;
    options.cache = true;
    options.flush_bytes = 1 << 20;
    auto made = fresh ? store::Store::create(medium_->open(), options, random_)
                      : store::Store::open(medium_->open(), options);
    ASSERT_TRUE(made.has_value()) << made.error().what;
    store_ = std::move(*made);
    ASSERT_TRUE(store::remove_drafts(*store_));  // as a server does
    start();
  }
  void start() {
    Options options;
    options.flushers = flushers_;
    options.flush_after = flush_after_;
    options.random = [this]() -> std::optional<uint64_t> {
      const MutexLock lock(draws_);
      return random_of_cache_.next();
    };
    options.tell = [this](const std::string& what) { told_.push_back(what); };
    cache_ = std::make_unique<Cache>(*store_, tier_, options);
    const auto opened = cache_->open();
    ASSERT_TRUE(opened.has_value()) << opened.error().what;
  }
  void end() {
    cache_.reset();
    store_.reset();
  }
  // As if the process were killed after a flush.
  void crash() {
    ASSERT_TRUE(store_->flush());
    kill();
  }
  // As if it were killed now.
  void kill() {
    cache_.reset();
    const auto all = medium_->bytes();
    const Bytes image(all.begin(), all.end());
    const uint32_t existing = medium_->existing;
    store_.reset();
    std::ranges::copy(image, all.begin());
    medium_->existing = existing;
    open(false);
  }

  ObjectId id_of(const std::string& name) {
    const auto found = store_->find(name);
    EXPECT_TRUE(found.has_value()) << name;
    return found.value_or(ObjectId{});
  }
  void put(const std::string& name, const Bytes& bytes) {
    const ObjectId id{1, ++last_id_};
    const auto made = cache_->run([&] { return store_->create_object(id, name); });
    ASSERT_TRUE(made.has_value()) << made.error().what;
    write_all(id, bytes);
  }
  void write_all(ObjectId id, const Bytes& bytes) {
    for (size_t at = 0; at < bytes.size(); at += kPiece) {
      const auto part = std::span(bytes).subspan(at, std::min(kPiece, bytes.size() - at));
      const auto done = cache_->run([&] { return store_->write(id, at, part); });
      ASSERT_TRUE(done.has_value()) << done.error().what;
    }
  }
  Bytes get(const std::string& name) {
    const ObjectId id = id_of(name);
    const auto info = store_->stat(id);
    EXPECT_TRUE(info.has_value());
    Bytes bytes(info ? info->size : 0);
    for (size_t at = 0; at < bytes.size(); at += kPiece) {
      const auto part = std::span(bytes).subspan(at, std::min(kPiece, bytes.size() - at));
      const auto done = cache_->run([&] { return store_->read(id, at, part); });
      EXPECT_TRUE(done.has_value()) << done.error().what;
      if (!done) return {};
      cache_->used(id, at, part.size());
      if (*done < part.size()) bytes.resize(at + *done);
    }
    return bytes;
  }

  static constexpr size_t kPiece = 100'000;
  Duration flush_after_ = Options{}.flush_after;
  uint32_t blocks_ = kBlocks;  // of a new store
  uint32_t flushers_ = 1;  // more of them do not draw random numbers in the same order each time
  SeededRandom random_{11};
  Mutex draws_;
  SeededRandom random_of_cache_ VERBENA_GUARDED_BY(draws_){12};
  backend::MemoryTier behind_;
  std::unique_ptr<backend::Tier> other_;
  WatchedTier watched_{other_ ? *other_ : behind_};
  backend::FaultyTier tier_{watched_, 5, {}};
  std::unique_ptr<store::MemoryMedium> medium_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Cache> cache_;
  std::vector<std::string> told_;
  uint64_t last_id_ = 0;
};

}  // namespace verbena::cache
