// SPDX-License-Identifier: Apache-2.0
// The S3 tier on a real service: what is written and read, and what is refused.
#include <map>

#include <fmt/format.h>

#include "backend/memory_tier.h"
#include "backend/object_path.h"
#include "s3_testing.h"

namespace verbena::backend {
namespace {

TEST_F(S3Test, RoundTripsOfManySizes) {
  std::map<std::string, std::pair<State, Bytes>> written;
  auto tier = open();
  ASSERT_TRUE(tier);
  for (const uint64_t size :
       {uint64_t{0}, uint64_t{1}, uint64_t{kPartBytes}, kPieceBytes, kPieceBytes + 1}) {
    const Bytes bytes = random_bytes(random_, size);
    const std::string name = "size " + std::to_string(size);
    written[name] = {write(*tier, {name, {}}, bytes), bytes};
  }
  const Bytes unnamed = random_bytes(random_, 5000);
  write(*tier, {"", {3, 4}}, unnamed);
  for (int round = 0; round < 2; ++round) {
    size_t listed = 0;
    ASSERT_TRUE(tier->list([&](const Entry& entry) {
      if (entry.key.name.empty()) {
        EXPECT_EQ(entry.key.id, (ObjectId{3, 4}));
      } else {
        EXPECT_EQ(entry.state, written.at(entry.key.name).first);
      }
      ++listed;
      return true;
    }));
    EXPECT_EQ(listed, written.size() + 1);
    for (const auto& [name, object] : written) expect(*tier, {name, {}}, object.second);
    expect(*tier, {"", {3, 4}}, unnamed);
    tier.reset();
    tier = open();
    ASSERT_TRUE(tier);
    EXPECT_EQ(tier->removed_leftovers(), 0u);
  }
  EXPECT_EQ(count_uploads(), 0u);
  EXPECT_EQ(keys(kS3Sums).size(), written.size() + 1);
  EXPECT_TRUE(keys(kS3Uploads).empty());
}

// Any program can read them.
TEST_F(S3Test, NamesAndBytesAreThoseOfTheObject) {
  auto tier = open();
  ASSERT_TRUE(tier);
  for (const char* const name : {"a",
                                 "a/b",
                                 "a b+c&d=e?f#g%20h",
                                 "\xc3\xa4/\xe2\x82\xac",
                                 "~'()*!",
                                 "../x",
                                 "a//b",
                                 "/a",
                                 "a/",
                                 ".verbena/lease",
                                 "a/../b",
                                 "a/./b",
                                 "%2e%2e/c",
                                 "?uploads",
                                 "a\\b",
                                 "\xf0\x9f\x90\x8d",
                                 "a ",
                                 " a",
                                 "<&>\"';,:@$=[]{}|^`",
                                 "+",
                                 "%",
                                 "%%",
                                 "%zz",
                                 "%00"}) {
    const Key key{name, {}};
    const std::string text = std::string("content of ") + name;
    write(*tier, key, Bytes(text.begin(), text.end()));
    EXPECT_EQ(get_plain(s3_path_of(key)).body, text) << name;
    size_t listed = 0;
    ASSERT_TRUE(tier->list([&](const Entry& entry) {
      listed += entry.key.name == name ? 1 : 0;
      return true;
    }));
    EXPECT_EQ(listed, 1u) << name;
  }
  // As long as a key may be: the prefix, a slash, and the rest.
  const size_t most = std::min<size_t>(1000, kMaxS3KeyBytes - options_.prefix.size() - 1);
  std::string longest;
  while (longest.size() < most) longest += longest.size() % 100 == 99 ? '/' : 'x';
  longest.back() = 'x';
  write(*tier, {longest, {}}, {1, 2, 3});
  expect(*tier, {longest, {}}, {1, 2, 3});
  Key too_long;  // escaped, each byte takes three
  for (int i = 0; i < 500; ++i) too_long.name += "\xc3\xa4";
  const auto state = tier->state(too_long);
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, Code::kUnsupported);
}

TEST_F(S3Test, AgreesWithTheModel) {
  const std::vector<Key> keys{{"a", {}}, {"a/b", {}}, {"../x", {}}, {"", {7, 8}}};
  MemoryTier model;
  auto tier = open();
  ASSERT_TRUE(tier);
  for (int step = 0; step < 20 && !HasFailure(); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    const Key& key = keys[random_.below(keys.size())];
    const auto before = model.state(key);
    const uint64_t what = random_.below(12);
    if (what == 0) {
      tier.reset();
      tier = open();
      ASSERT_TRUE(tier);
    } else if (what == 1) {
      const uint64_t version = before ? before->version : 5;
      ASSERT_TRUE(tier->remove(key, version));
      ASSERT_TRUE(model.remove(key, version));
    } else {
      const uint64_t limit = random_.below(3) > 0 ? 10 * kPartBytes : 3 * kPieceBytes;
      NewState wanted{std::nullopt, {++version_, random_.below(limit), version_}};
      if (before) wanted.base = before->version;
      const Key& other = keys[random_.below(keys.size())];
      if (const auto source = model.state(other); source && random_.below(3) == 0) {
        wanted.source = Source{other, source->version};
      }
      const Bytes bytes = random_bytes(random_, wanted.state.size);
      auto update = tier->update(key, wanted);
      auto modelled = model.update(key, wanted);
      ASSERT_TRUE(update && modelled);
      const uint64_t parts = part_count(bytes.size());
      const uint64_t most = 1 + random_.below(2 * parts + 1);
      for (uint64_t at = random_.below(most); at < parts;) {
        const uint64_t count = std::min(parts - at, 1 + random_.below(most));
        if (random_.below(3) == 0) {
          ASSERT_TRUE((*update)->hole(at, count) && (*modelled)->hole(at, count));
        } else {
          ASSERT_TRUE(put_parts(**update, bytes, at, count) &&
                      put_parts(**modelled, bytes, at, count));
        }
        at += count + random_.below(most);
      }
      const auto done = (*update)->commit();
      ASSERT_TRUE(done.has_value()) << done.error().what;
      ASSERT_TRUE((*modelled)->commit());
    }
    const auto state = model.state(key);
    ASSERT_EQ(tier->state(key).has_value(), state.has_value());
    if (!state) continue;
    EXPECT_EQ(tier->state(key).value(), *state);
    expect(*tier, key, read_object(model, key).value());
  }
  // Nothing is left of versions that were replaced.
  size_t objects = 0;
  ASSERT_TRUE(model.list([&](const Entry&) { return ++objects > 0; }));
  EXPECT_EQ(this->keys(kS3Sums).size(), objects);
  EXPECT_EQ(count_uploads(), 0u);
}

TEST_F(S3Test, RefusesOtherVersions) {
  auto tier = open();
  ASSERT_TRUE(tier);
  const Bytes bytes = random_bytes(random_, 100);
  const State state = write(*tier, kObject, bytes);
  const auto code_of = [](const auto& result) { return result ? Code::kIo : result.error().code; };
  EXPECT_EQ(code_of(tier->update(kObject, {std::nullopt, {7, 1, 1}})), Code::kConflict);
  EXPECT_EQ(code_of(tier->update(kObject, {state.version + 1, {7, 1, 1}})), Code::kConflict);
  EXPECT_EQ(code_of(tier->update(kObject, {state.version, {state.version, 1, 1}})), Code::kInvalid);
  EXPECT_EQ(code_of(tier->remove(kObject, 7)), Code::kConflict);
  Bytes part(kPartBytes);
  std::vector<PartToLoad> parts{{part.data(), 0}};
  EXPECT_EQ(code_of(tier->load(kObject, 7, 0, parts)), Code::kConflict);
  EXPECT_EQ(code_of(tier->load(kObject, state.version, 1, parts)), Code::kInvalid);
  EXPECT_EQ(code_of(tier->load({"none", {}}, 7, 0, parts)), Code::kNotFound);
  EXPECT_TRUE(tier->remove({"none", {}}, 7));
}

// Of two updates that begin from one version, the second is refused; of one and of several pieces.
TEST_F(S3Test, TheSecondOfTwoUpdatesIsRefused) {
  auto tier = open();
  ASSERT_TRUE(tier);
  for (const uint64_t size : {uint64_t{500}, kPieceBytes + 500}) {
    const Key key{"size " + std::to_string(size), {}};
    const State base = write(*tier, key, random_bytes(random_, size));
    const Bytes news = random_bytes(random_, size);
    auto one = tier->update(key, {base.version, {7, size, 7}});
    auto two = tier->update(key, {base.version, {8, size, 8}});
    ASSERT_TRUE(one && two);
    ASSERT_TRUE(put_parts(**one, news, 0, part_count(size)));
    ASSERT_TRUE(put_parts(**two, news, 0, part_count(size)));
    ASSERT_TRUE((*one)->commit());
    const auto second = (*two)->commit();
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::kConflict) << second.error().what;
    two->reset();
    expect(*tier, key, news);
  }
  EXPECT_EQ(count_uploads(), 0u);
  EXPECT_EQ(keys(kS3Sums).size(), 2u);
}

// Both have looked at the base before either has switched: then the service's condition decides.
TEST_F(S3Test, OfUpdatesAtTheSameTimeOneIsDone) {
  auto tier = open();
  ASSERT_TRUE(tier && tier->is_guarded());
  constexpr int kAtOnce = 4;
  for (int round = 0; round < 5 && !HasFailure(); ++round) {
    const State base = write(*tier, kObject, random_bytes(random_, 500));
    std::vector<std::unique_ptr<Update>> updates;
    for (uint8_t i = 0; i < kAtOnce; ++i) {
      const uint64_t version = base.version + 100 + i;
      auto update = tier->update(kObject, {base.version, {version, 500, 7}});
      ASSERT_TRUE(update && put_parts(**update, Bytes(500, i), 0, 1));
      updates.push_back(std::move(*update));
    }
    std::vector<Result<void>> results(kAtOnce);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kAtOnce; ++i) {
      threads.emplace_back([&, i] { results[i] = updates[i]->commit(); });
    }
    for (std::thread& thread : threads) thread.join();
    updates.clear();
    std::vector<uint8_t> done;
    for (uint8_t i = 0; i < kAtOnce; ++i) {
      if (results[i]) {
        done.push_back(i);
      } else {
        EXPECT_EQ(results[i].error().code, Code::kConflict) << results[i].error().what;
      }
    }
    ASSERT_EQ(done.size(), 1u);
    expect(*tier, kObject, Bytes(500, done[0]));
    version_ += 1000;
  }
  EXPECT_EQ(keys(kS3Sums).size(), 1u);
}

TEST_F(S3Test, AnUpdateThatIsNotCommittedLeavesNothing) {
  auto tier = open();
  ASSERT_TRUE(tier);
  const Bytes bytes = random_bytes(random_, 3 * kPieceBytes);
  {
    auto update = tier->update(kObject, {std::nullopt, {7, bytes.size(), 7}});
    ASSERT_TRUE(update);
    ASSERT_TRUE(put_parts(**update, bytes, 0, 2 * kS3PieceParts));
    EXPECT_EQ(count_uploads(), 1u);
    EXPECT_EQ(keys(kS3Uploads).size(), 1u);
  }
  EXPECT_EQ(count_uploads(), 0u);
  EXPECT_EQ(keys(""), std::vector<std::string>{std::string(kS3Lease)});
}

TEST_F(S3Test, AdoptsObjectsOfOthers) {
  auto tier = open();
  ASSERT_TRUE(tier);
  put_plain(kObject.name, "one");
  const auto one = tier->state(kObject);
  ASSERT_TRUE(one.has_value()) << one.error().what;
  EXPECT_EQ(one->size, 3u);
  EXPECT_GT(one->modified_ns, 0u);
  expect(*tier, kObject, {'o', 'n', 'e'});
  put_plain(kObject.name, "two");
  EXPECT_NE(tier->state(kObject).value().version, one->version);
  Bytes part(kPartBytes);
  std::vector<PartToLoad> parts{{part.data(), 0}};
  EXPECT_EQ(tier->load(kObject, one->version, 0, parts).error().code, Code::kConflict);
  // A part of it stays: its CRC is made now.
  const uint64_t base = tier->state(kObject).value().version;
  auto update = tier->update(kObject, {base, {7, 2, 7}});
  ASSERT_TRUE(update && (*update)->commit());
  expect(*tier, kObject, {'t', 'w'});
  EXPECT_EQ(keys(kS3Sums).size(), 1u);
  // A copy has the metadata of another object, and is adopted too.
  const S3Answer answer = get_plain(kObject.name);
  S3Headers metadata;
  for (const auto& [name, value] : answer.headers) {
    if (name.starts_with("x-amz-meta-")) metadata[name] = value;
  }
  EXPECT_EQ(metadata.size(), 5u);
  put_plain("copy", answer.body, metadata);
  EXPECT_NE(tier->state({"copy", {}}).value().version, 7u);
  expect(*tier, {"copy", {}}, {'t', 'w'});
}

// Another program writes between the beginning and the end of an update.
TEST_F(S3Test, AChangeOfAnotherProgramIsNotOverwritten) {
  auto tier = open();
  ASSERT_TRUE(tier);
  for (const uint64_t size : {uint64_t{500}, kPieceBytes + 500}) {
    const Bytes bytes = random_bytes(random_, size);
    const State base = write(*tier, kObject, bytes);
    auto update = tier->update(kObject, {base.version, {++version_, size, 8}});
    ASSERT_TRUE(update && put_parts(**update, bytes, 0, 1));
    put_plain(kObject.name, "another");
    EXPECT_EQ((*update)->commit().error().code, Code::kConflict);
    update->reset();
    EXPECT_EQ(get_plain(kObject.name).body, "another");
  }
}

TEST_F(S3Test, DamageIsFound) {
  auto tier = open();
  ASSERT_TRUE(tier);
  Bytes bytes = random_bytes(random_, 10 * kPartBytes);
  const State state = write(*tier, kObject, bytes);
  bytes[5 * kPartBytes + 7] ^= 1;
  put_plain(kObject.name, std::string(bytes.begin(), bytes.end()), metadata_of(kObject, state));
  Bytes part(kPartBytes);
  std::vector<PartToLoad> parts{{part.data(), 0}};
  EXPECT_TRUE(tier->load(kObject, state.version, 4, parts));
  const auto bad = tier->load(kObject, state.version, 5, parts);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::kDamaged);
  EXPECT_EQ(bad.error().damage.offset, 5 * kPartBytes);
  // It stays damage when another part is replaced, and is none when this one is.
  auto update = tier->update(kObject, {state.version, {7, bytes.size(), 7}});
  ASSERT_TRUE(update && put_parts(**update, bytes, 0, 1) && (*update)->commit());
  EXPECT_EQ(tier->load(kObject, 7, 5, parts).error().code, Code::kDamaged);
  update = tier->update(kObject, {7, {8, bytes.size(), 8}});
  ASSERT_TRUE(update && put_parts(**update, bytes, 5, 1) && (*update)->commit());
  expect(*tier, kObject, bytes);
  // Sums that are damaged, cut and missing.
  const std::string sums = std::string(kS3Sums) + text_of(S3Version{digest_of(kObject), 8});
  std::string content = get_plain(sums).body;
  content[100] ^= 1;
  put_plain(sums, content);
  EXPECT_EQ(tier->load(kObject, 8, 0, parts).error().code, Code::kDamaged);
  put_plain(sums, content.substr(0, 1000));
  EXPECT_EQ(tier->load(kObject, 8, 0, parts).error().code, Code::kDamaged);
  S3Request removal;
  removal.method = "DELETE";
  removal.path = sums;
  ASSERT_TRUE(client_->ask(removal, "test"));
  EXPECT_EQ(tier->load(kObject, 8, 0, parts).error().code, Code::kDamaged);
  // An object that is shorter than it was written, and one whose metadata are damaged.
  put_plain(kObject.name, "short", metadata_of(kObject, {8, bytes.size(), 8}));
  EXPECT_EQ(tier->state(kObject).error().code, Code::kDamaged);
  S3Headers metadata = metadata_of(kObject, {8, 5, 8});
  metadata["x-amz-meta-verbena-version"] = "x";
  put_plain(kObject.name, "short", metadata);
  EXPECT_EQ(tier->state(kObject).error().code, Code::kDamaged);
  size_t unknown = 0;
  ASSERT_TRUE(tier->list([&](const Entry& entry) {
    unknown += entry.state.version == 0 ? 1 : 0;
    return true;
  }));
  EXPECT_EQ(unknown, 1u);
}

TEST_F(S3Test, ListsMoreThanOnePage) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 5; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 201; ++i) put_plain(fmt::format("o{}-{}", thread, i), "x");
    });
  }
  for (std::thread& thread : threads) thread.join();
  auto tier = open();
  ASSERT_TRUE(tier);
  std::map<std::string, int> seen;
  ASSERT_TRUE(tier->list([&](const Entry& entry) { return ++seen[entry.key.name] > 0; }));
  EXPECT_EQ(seen.size(), 1005u);
  size_t some = 0;
  ASSERT_TRUE(tier->list([&](const Entry&) { return ++some < 3; }));
  EXPECT_EQ(some, 3u);
}

}  // namespace
}  // namespace verbena::backend
