// SPDX-License-Identifier: Apache-2.0
// Random operations on a directory and on a model: they agree, also after it is opened again, with
// short reads and writes, with a file system that clones, and with calls that fail.
#include <map>
#include <vector>

#include "backend/directory_testing.h"
#include "backend/faulty_files.h"
#include "backend/faulty_tier.h"
#include "backend/memory_tier.h"

namespace verbena::backend {
namespace {

const std::vector<Key>& property_keys() {
  static const std::vector<Key> keys{
      {"a", {}},       {"a/b", {}},        {"a/b/c", {}},
      {"d/e", {1, 2}}, {"../x", {}},       {"", {7, 8}},
      {"", {7, 9}},    {".verbena/x", {}}, {std::string(300, 'q'), {}}};
  return keys;
}

class PropertyRun {
 public:
  explicit PropertyRun(uint64_t seed) : random_(seed) {
    files_.syncs = false;
    files_.clones = seed % 2 == 0;
    if (seed % 3 == 0) files_.most_bytes = [this] { return 1 + random_.below(9000); };
    reopen();
  }

  void step(uint32_t fail_ppm) {
    const auto before = [this, fail_ppm](const FaultyFiles::Call&) {
      if (!random_.chance_ppm(fail_ppm)) return 0;
      return random_.below(2) == 0 ? -EIO : -ENOSPC;
    };
    const Key& key = property_keys()[random_.below(property_keys().size())];
    if (fail_ppm > 0) files_.before = before;
    const uint64_t what = random_.below(10);
    if (what < 7) {
      update(key);
    } else if (what < 9) {
      remove(key);
    }
    files_.before = nullptr;
    if (what == 9) reopen();
    compare(key);
  }
  void compare_all() {
    std::map<std::string, State> states;
    ASSERT_TRUE(tier_->list([&](const Entry& entry) {
      states[name_of_key(entry.key)] = entry.state;
      return true;
    }));
    std::map<std::string, State> expected;
    ASSERT_TRUE(model_.list([&](const Entry& entry) {
      expected[name_of_key(entry.key)] = entry.state;
      return true;
    }));
    EXPECT_EQ(states, expected);
    for (const Key& key : property_keys()) compare(key);
    EXPECT_EQ(tier_->counters().adopted, 0u);
  }
  void reopen() {
    tier_.reset();
    tier_ = open_tier(folder_.path(), files_);
    ASSERT_NE(tier_, nullptr);
  }
  void expect_nothing_left() {
    EXPECT_TRUE(files_below(folder_.at(".verbena/tmp")).empty());
    size_t objects = 0;
    ASSERT_TRUE(model_.list([&](const Entry&) { return ++objects > 0; }));
    EXPECT_EQ(files_below(folder_.at(".verbena/sums")).size(), objects);
  }
  // What has failed before the end of an update is not in the model.
  uint64_t failed = 0;

 private:
  struct Piece {
    uint64_t first = 0;
    uint64_t count = 0;
    bool hole = false;
  };

  static std::string name_of_key(const Key& key) {
    return key.name.empty() ? "id " + text_of(key.id) : key.name;
  }
  [[nodiscard]] uint64_t draw_size() {
    switch (random_.below(5)) {
      case 0:  return random_.below(3);
      case 1:  return random_.below(8) * kPartBytes;
      case 2:  return (750 + random_.below(10)) * kPartBytes + random_.below(2);
      default: return random_.below(20 * kPartBytes);
    }
  }
  // Ranges that do not overlap, in no order.
  [[nodiscard]] std::vector<Piece> draw_pieces(uint64_t parts) {
    std::vector<Piece> pieces;
    const uint64_t most = random_.below(2) == 0 ? 4 : 2 * parts + 1;
    for (uint64_t at = random_.below(most); at < parts && pieces.size() < 20;) {
      const uint64_t count = std::min(parts - at, 1 + random_.below(most));
      pieces.push_back({at, count, random_.below(3) == 0});
      at += count + random_.below(3);
    }
    for (size_t i = pieces.size(); i > 1; --i) std::swap(pieces[i - 1], pieces[random_.below(i)]);
    return pieces;
  }
  static Result<void> apply(Tier& tier, const Key& key, const NewState& wanted,
                            const std::vector<Piece>& pieces, const Bytes& bytes) {
    auto update = tier.update(key, wanted);
    if (!update) return fail(update.error());
    for (const Piece& piece : pieces) {
      auto done = piece.hole ? (*update)->hole(piece.first, piece.count)
                             : put_parts(**update, bytes, piece.first, piece.count);
      if (!done) return done;
    }
    return (*update)->commit();
  }
  void update(const Key& key) {
    const auto before = model_.state(key);
    NewState wanted{std::nullopt,
                    {.version = ++version_, .size = draw_size(), .modified_ns = random_.below(3)}};
    if (before) wanted.base = before->version;
    if (random_.below(20) == 0) wanted.base = 999'999;
    const Key& other = property_keys()[random_.below(property_keys().size())];
    if (const auto source = model_.state(other); source && random_.below(4) == 0) {
      wanted.source = Source{other, source->version};
    }
    const auto pieces = draw_pieces(part_count(wanted.state.size));
    const Bytes bytes = random_bytes(random_, wanted.state.size);
    const auto done = apply(*tier_, key, wanted, pieces, bytes);
    if (wanted.base == 999'999) {
      EXPECT_FALSE(done.has_value());
      return;
    }
    files_.before = nullptr;
    if (!done) ++failed;
    const auto now = tier_->state(key);
    const bool happened = now && *now == wanted.state;
    EXPECT_TRUE(happened || !done);
    if (!happened) return;
    const auto modelled = apply(model_, key, wanted, pieces, bytes);
    EXPECT_TRUE(modelled.has_value()) << modelled.error().what;
  }
  void remove(const Key& key) {
    const auto before = model_.state(key);
    const uint64_t version = before ? before->version : 5;
    const auto done = tier_->remove(key, version);
    files_.before = nullptr;
    if (!done) ++failed;
    const bool gone = !tier_->state(key).has_value();
    EXPECT_TRUE(gone || !done);
    EXPECT_TRUE(!gone || model_.remove(key, version));
  }
  void compare(const Key& key) {
    const auto expected = read_object(model_, key);
    const auto bytes = read_object(*tier_, key);
    ASSERT_EQ(bytes.has_value(), expected.has_value())
        << (bytes ? std::string() : bytes.error().what);
    if (!bytes) {
      EXPECT_EQ(bytes.error().code, expected.error().code);
      return;
    }
    EXPECT_EQ(tier_->state(key).value(), model_.state(key).value());
    EXPECT_TRUE(*bytes == *expected) << name_of_key(key);
  }

  SeededRandom random_;
  TemporaryFolder folder_;
  FaultyFiles files_;
  MemoryTier model_;
  std::unique_ptr<DirectoryTier> tier_;
  uint64_t version_ = 10;
};

TEST(DirectoryProperty, AgreesWithTheModel) {
  for (uint64_t seed = 1; seed <= 12 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PropertyRun run(seed);
    for (int i = 0; i < 60 && !::testing::Test::HasFailure(); ++i) run.step(0);
    run.compare_all();
    run.expect_nothing_left();
    EXPECT_EQ(run.failed, 0u);
  }
}

TEST(DirectoryProperty, AgreesWithTheModelWhileCallsFail) {
  uint64_t failed = 0;
  for (uint64_t seed = 1; seed <= 12 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PropertyRun run(seed);
    for (int i = 0; i < 60 && !::testing::Test::HasFailure(); ++i) run.step(20'000);
    run.compare_all();
    run.reopen();
    run.compare_all();
    run.expect_nothing_left();
    failed += run.failed;
  }
  EXPECT_GT(failed, 20u);
}

TEST(FaultyTier, FailsAsItIsToldTo) {
  MemoryTier below;
  FaultyTier tier(below, 3, {});
  const State state{.version = 1, .size = 10, .modified_ns = 1};
  ASSERT_TRUE(write_object(tier, {"x", {}}, {std::nullopt, state}, Bytes(10)));
  tier.set({.fail_ppm = 1'000'000});
  EXPECT_EQ(tier.state({"x", {}}).error().code, Code::kIo);
  tier.set({.full_ppm = 1'000'000});
  EXPECT_EQ(write_object(tier, {"y", {}}, {std::nullopt, state}, Bytes(10)).error().code,
            Code::kFull);
  EXPECT_EQ(below.state({"y", {}}).error().code, Code::kNotFound);
  tier.set({.lost_answer_ppm = 1'000'000, .delay_ppm = 1'000'000, .delay_us = 10});
  EXPECT_FALSE(write_object(tier, {"y", {}}, {std::nullopt, state}, Bytes(10)));
  EXPECT_EQ(below.state({"y", {}}).value(), state);
  EXPECT_EQ(tier.failed_calls(), 3u);
  // Half of it was done.
  tier.set({.short_ppm = 1'000'000, .late_ppm = 1'000'000, .delay_us = 10});
  EXPECT_FALSE(write_object(tier, {"z", {}}, {std::nullopt, state}, Bytes(10)));
  EXPECT_EQ(below.state({"z", {}}).error().code, Code::kNotFound);
  Bytes bytes(store::kDataBytes);
  PartToLoad part{bytes.data(), 0};
  EXPECT_FALSE(tier.load({"x", {}}, 1, 0, {&part, 1}));
}

}  // namespace
}  // namespace verbena::backend
