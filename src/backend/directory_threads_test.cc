// SPDX-License-Identifier: Apache-2.0
// Several threads at once: each read is of one version, and no update is lost.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "backend/directory_testing.h"
#include "backend/faulty_files.h"

namespace verbena::backend {
namespace {

constexpr size_t kThreadParts = 20;

// Every byte of it says the version.
Bytes content_of(uint64_t version) {
  return Bytes(kThreadParts * kPartBytes, static_cast<uint8_t>(version));
}

TEST(DirectoryThreads, ReadersSeeOneVersion) {
  TemporaryFolder folder;
  FaultyFiles files;
  files.syncs = false;
  auto tier = open_tier(folder.path(), files);
  const std::vector<Key> keys{{"f/a", {}}, {"f/b", {}}};
  std::atomic<int> writing = static_cast<int>(keys.size());
  std::atomic<uint64_t> read = 0;
  const auto write = [&](const Key& key) {
    std::optional<uint64_t> base;
    for (uint64_t version = 1; version <= 60; ++version) {
      const State state{version, kThreadParts * kPartBytes, 5};
      const auto done = write_object(*tier, key, {base, state}, content_of(version));
      EXPECT_TRUE(done.has_value()) << done.error().what;
      base = version;
      if (version % 7 != 0) continue;
      EXPECT_TRUE(tier->remove(key, version));
      base.reset();
    }
    --writing;
  };
  const auto look = [&] {
    for (uint64_t turn = 0; writing > 0; ++turn) {
      const Key& key = keys[turn % keys.size()];
      const auto state = tier->state(key);
      if (!state) {
        EXPECT_EQ(state.error().code, Code::kNotFound) << state.error().what;
        continue;
      }
      EXPECT_LE(state->version, 60u);  // not that of an adopted file
      Bytes bytes(kThreadParts * kPartBytes);
      std::vector<PartToLoad> parts;
      for (size_t i = 0; i < kThreadParts; ++i) parts.push_back({bytes.data() + i * kPartBytes, 0});
      const auto loaded = tier->load(key, state->version, 0, parts);
      if (!loaded) {
        const Code code = loaded.error().code;
        EXPECT_TRUE(code == Code::kConflict || code == Code::kNotFound) << loaded.error().what;
        continue;
      }
      EXPECT_TRUE(bytes == content_of(state->version));
      ++read;
    }
  };
  std::vector<std::thread> threads;
  for (const Key& key : keys) threads.emplace_back(write, key);
  for (int i = 0; i < 2; ++i) threads.emplace_back(look);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tier->counters().adopted, 0u);
  for (const Key& key : keys) EXPECT_EQ(tier->state(key)->version, 60u);
  EXPECT_EQ(files_below(folder.at(".verbena/sums")).size(), keys.size());
}

TEST(DirectoryThreads, PartsOfOneUpdateFromSeveralThreads) {
  TemporaryFolder folder;
  auto tier = open_tier(folder.path());
  constexpr size_t kEach = 300;
  SeededRandom random(1);
  const Bytes bytes = random_bytes(random, 4 * kEach * kPartBytes);
  auto update = tier->update({"x", {}}, {std::nullopt, {1, bytes.size(), 1}});
  ASSERT_TRUE(update.has_value());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (size_t part = 0; part < kEach; part += 10) {
        EXPECT_TRUE(put_parts(**update, bytes, i * kEach + part, 10));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE((*update)->commit());
  EXPECT_TRUE(read_object(*tier, {"x", {}}).value() == bytes);
}

}  // namespace
}  // namespace verbena::backend
