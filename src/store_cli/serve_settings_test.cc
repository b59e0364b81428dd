// SPDX-License-Identifier: Apache-2.0
#include "store_cli/serve_settings.h"

#include <cstdio>
#include <fstream>

#include <gtest/gtest.h>

#include "medium/testing.h"

namespace verbena::store_cli {
namespace {

std::string file_with(const medium::TemporaryFolder& folder, const std::string& text) {
  const std::string path = folder.path() / "file";
  std::ofstream(path) << text;
  return path;
}

TEST(ServeSettings, OptionsVariablesFile) {
  const Given file{{"data", {"/f"}}, {"workers", {"3"}}, {"window", {"5"}}, {"drain", {"1.5"}}};
  const Given environment{{"workers", {"4"}}, {"window", {"6"}}};
  const Given options{{"window", {"7"}}};
  const auto all = combine(options, environment, file);
  ASSERT_TRUE(all) << all.error();
  EXPECT_EQ(all->service.folders, std::vector<std::string>{"/f"});
  EXPECT_EQ(all->service.server.workers, 4U);
  EXPECT_EQ(all->service.server.sessions.limits.window, 7U);
  EXPECT_EQ(all->service.server.drain, 1500 * kMillisecond);
  EXPECT_EQ(all->service.server.listen.host, "127.0.0.1");
  EXPECT_EQ(all->service.server.listen.port, 7471);
}

TEST(ServeSettings, APlaceThatIsSaidReplacesOneThatIsWritten) {
  const auto all = combine({{"memory", {"1G"}}}, {}, {{"data", {"/f"}}});
  ASSERT_TRUE(all) << all.error();
  EXPECT_TRUE(all->service.folders.empty());
  EXPECT_EQ(all->service.memory_bytes, uint64_t{1} << 30);
}

TEST(ServeSettings, Compaction) {
  const auto usual = combine({{"data", {"/x"}}}, {}, {});
  ASSERT_TRUE(usual) << usual.error();
  EXPECT_EQ(usual->service.compaction.percent, 25U);
  EXPECT_EQ(usual->service.compaction.every, 60 * kSecond);
  const auto all =
      combine({{"data", {"/x"}}, {"compact", {"0"}}},
              {{"compact_every", {"0.5"}}, {"compact", {"7"}}}, {{"compact_least", {"1G"}}});
  ASSERT_TRUE(all) << all.error();
  EXPECT_EQ(all->service.compaction.percent, 0U);
  EXPECT_EQ(all->service.compaction.every, 500 * kMillisecond);
  EXPECT_EQ(all->service.compaction.least_bytes, uint64_t{1} << 30);
  EXPECT_FALSE(combine({{"data", {"/x"}}, {"compact", {"101"}}}, {}, {}));
}

TEST(ServeSettings, OnePlaceIsNeeded) {
  EXPECT_FALSE(combine({}, {}, {}));
  EXPECT_FALSE(combine({{"memory", {"1G"}}, {"data", {"/x"}}}, {}, {}));
}

TEST(ServeSettings, WrongValuesSayWhose) {
  const auto check = [](const Given& options, const Given& environment, const Given& file,
                        const std::string& begin) {
    const auto all = combine(options, environment, file);
    ASSERT_FALSE(all);
    EXPECT_TRUE(all.error().starts_with(begin)) << all.error();
  };
  check({{"data", {"/x"}}, {"max_sessions", {"0"}}}, {}, {}, "--max-sessions: ");
  check({{"data", {"/x"}}}, {{"workers", {"many"}}}, {}, "$VERBENA_SERVE_WORKERS: ");
  check({{"data", {"/x"}}}, {}, {{"sync", {"never"}}}, "sync: ");
  check({{"data", {"/x"}}, {"silence", {"-1"}}}, {}, {}, "--silence: ");
  check({{"data", {"/x"}}, {"inline_bytes", {"1M"}}}, {}, {}, "--inline-bytes: ");
}

TEST(ServeSettings, WhatIsBehind) {
  const Given place{{"memory", {"64M"}}};
  const auto with = [&](Given more) {
    more.insert(place.begin(), place.end());
    return combine(more, {}, {});
  };
  const auto all =
      with({{"backend", {"dir:/srv"}}, {"cache_size", {"8M"}}, {"flush_after", {"2"}}});
  ASSERT_TRUE(all) << all.error();
  EXPECT_TRUE(all->service.tier);
  EXPECT_EQ(all->service.cache.max_chunks, (8u << 20) / store::kDataBytes);
  EXPECT_FALSE(with({{"backend", {"/srv"}}}));
  EXPECT_FALSE(with({{"backend", {"dir:/srv"}}, {"cache_size", {"0"}}}));
  const auto alone = with({{"cache_size", {"8M"}}});
  ASSERT_FALSE(alone);
  EXPECT_TRUE(alone.error().contains("--backend")) << alone.error();
  const auto written = combine(place, {}, {{"flush_after", {"2"}}});
  ASSERT_FALSE(written);
  EXPECT_TRUE(written.error().contains("--backend")) << written.error();
}

TEST(ServeSettings, CapacityHasAMinimum) {
  const auto with = [](const char* capacity) {
    return combine({{"data", {"/a", "/b"}}, {"capacity", {capacity}}}, {}, {}).has_value();
  };
  EXPECT_FALSE(with("2M"));
  EXPECT_FALSE(with("47M"));
  EXPECT_TRUE(with("48M"));
}

TEST(ServeSettings, Files) {
  const medium::TemporaryFolder folder;
  const auto good = read_settings_file(
      file_with(folder, "# a comment\ndata = ['/a', '/b']\nworkers = 3\nenforce_ranges = true\n"));
  ASSERT_TRUE(good) << good.error();
  EXPECT_EQ(good->at("data"), (std::vector<std::string>{"/a", "/b"}));
  EXPECT_EQ(good->at("workers"), std::vector<std::string>{"3"});
  EXPECT_EQ(good->at("enforce_ranges"), std::vector<std::string>{"true"});
  for (const auto& [text, line] : std::vector<std::pair<std::string, std::string>>{
           {"workers = 3\nworker = 4\n", "line 2: worker: there is no such setting"},
           {"\n\nworkers = \n", "line 3"},
           {"workers = [1, 2]\n", "line 1: workers: one value is wanted"},
           {"[data]\nx = 1\n", "line 1: data: neither text"},
       }) {
    const auto bad = read_settings_file(file_with(folder, text));
    ASSERT_FALSE(bad) << text;
    EXPECT_NE(bad.error().find(line), std::string::npos) << bad.error();
  }
  EXPECT_FALSE(read_settings_file(folder.path() / "missing"));
}

TEST(ServeSettings, Secrets) {
  const medium::TemporaryFolder folder;
  const Given with{{"data", {"/x"}}, {"secret_file", {file_with(folder, "open sesame\n")}}};
  const auto all = combine(with, {}, {});
  ASSERT_TRUE(all) << all.error();
  EXPECT_EQ(all->service.server.sessions.secret, "open sesame");
  EXPECT_TRUE(all->secret_exposed);
  static_cast<void>(file_with(folder, "\n"));
  EXPECT_FALSE(combine(with, {}, {}));
  EXPECT_FALSE(combine({{"data", {"/x"}}, {"secret_file", {"/nowhere"}}}, {}, {}));
}

}  // namespace
}  // namespace verbena::store_cli
