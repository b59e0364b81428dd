// SPDX-License-Identifier: Apache-2.0
// The folder that files arrive in: what it keeps, what it removes, and that nothing leads out of
// it.
#include "transfer/sink.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace verbena::transfer {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kSinkChunk = 4096;

std::string text_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Sinks : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("verbena-sink-" + std::to_string(getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_ / "to");
    fs::create_directories(root_ / "outside");
    sink_ = open();
  }
  void TearDown() override { fs::remove_all(root_); }

  std::unique_ptr<Sink> open(const SinkOptions& options = {}) const {
    auto sink = Sink::open(root_ / "to", options);
    EXPECT_TRUE(sink) << sink.error();
    return sink ? std::move(*sink) : nullptr;
  }
  JobResult store(const std::string& path, const std::string& text = "text") {
    const auto data = bytes_of(text);
    return sink_->store_small({.path = path, .data = data, .crc = crc_of(data)});
  }
  std::shared_ptr<SinkFile> begin(const std::string& path, uint64_t size) {
    std::shared_ptr<SinkFile> file;
    last_ = sink_->open_file({.path = path, .size = size, .resume = true}, kSinkChunk, file);
    return file;
  }
  JobResult write(SinkFile& file, uint64_t offset, const std::string& text) {
    const auto data = bytes_of(text);
    return sink_->write(file, offset, data, crc_of(data));
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& one : fs::directory_iterator(root_ / "to"))
      found.push_back(one.path().filename());
    std::ranges::sort(found);
    return found;
  }
  std::string only_name() const { return names().size() == 1 ? names()[0] : ""; }

  fs::path root_;
  std::unique_ptr<Sink> sink_;
  JobResult last_;
};

TEST_F(Sinks, LinksAreNotFollowed) {
  fs::create_directory_symlink(root_ / "outside", root_ / "to/link");
  std::ofstream(root_ / "outside/file") << "old";
  fs::create_symlink(root_ / "outside/file", root_ / "to/name");
  EXPECT_EQ(store("link/a").verdict, Verdict::kRefused);
  EXPECT_EQ(begin("link/a/b", 10), nullptr);
  EXPECT_EQ(last_.verdict, Verdict::kRefused);
  EXPECT_EQ(sink_->make_folder({.path = "link"}).verdict, Verdict::kRefused);
  EXPECT_EQ(sink_->make_folder({.path = "link/a"}).verdict, Verdict::kRefused);
  EXPECT_EQ(store("name").verdict, Verdict::kExists);
  sink_ = open({.overwrite = true});
  EXPECT_EQ(store("name").verdict, Verdict::kStored);  // in the place of the link
  EXPECT_FALSE(fs::is_symlink(root_ / "to/name"));
  EXPECT_EQ(text_in(root_ / "outside/file"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(root_ / "outside"), {}), 1);
}

TEST_F(Sinks, LinksUnderATemporaryNameAreNotFollowed) {
  std::ofstream(root_ / "outside/file") << "old";
  begin("a", 10).reset();
  const std::string temporary = only_name();
  ASSERT_NE(temporary, "");
  fs::remove(root_ / "to" / temporary);
  fs::create_symlink(root_ / "outside/file", root_ / "to" / temporary);
  EXPECT_EQ(begin("a", 10), nullptr);
  // Nor is a second name of somebody's file written to.
  fs::remove(root_ / "to" / temporary);
  fs::create_hard_link(root_ / "outside/file", root_ / "to" / temporary);
  const auto file = begin("a", 10);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(write(*file, 0, "0123456789").verdict, Verdict::kStored);
  EXPECT_EQ(sink_->close(*file).verdict, Verdict::kStored);
  EXPECT_EQ(text_in(root_ / "to/a"), "0123456789");
  EXPECT_EQ(text_in(root_ / "outside/file"), "old");
}

TEST_F(Sinks, WhatIsBrokenOffIsFoundAgain) {
  {
    const auto file = begin("a", 2 * kSinkChunk);
    ASSERT_NE(file, nullptr);
    EXPECT_TRUE(last_.crcs.empty());
    EXPECT_EQ(write(*file, kSinkChunk, std::string(kSinkChunk, 'x')).verdict, Verdict::kStored);
  }
  const auto file = begin("a", 2 * kSinkChunk);
  ASSERT_NE(file, nullptr);
  const std::string part(kSinkChunk, 'x');
  EXPECT_EQ(last_.crcs, (std::vector<uint32_t>{crc_of_zeros(kSinkChunk), crc_of(bytes_of(part))}));
  EXPECT_FALSE(fs::exists(root_ / "to/a"));
}

// Two senders of one file: the second has a temporary name that nobody finds again.
TEST_F(Sinks, TwoAtOnce) {
  auto first = begin("a", kSinkChunk);
  {
    const auto second = begin("a", kSinkChunk);
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(names().size(), 2u);
  }
  EXPECT_EQ(names().size(), 1u);
  auto second = begin("a", kSinkChunk);
  EXPECT_EQ(write(*first, 0, std::string(kSinkChunk, '1')).verdict, Verdict::kStored);
  EXPECT_EQ(write(*second, 0, std::string(kSinkChunk, '2')).verdict, Verdict::kStored);
  EXPECT_EQ(sink_->close(*first).verdict, Verdict::kStored);
  EXPECT_EQ(sink_->close(*second).verdict, Verdict::kExists);
  second.reset();
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
  EXPECT_EQ(text_in(root_ / "to/a"), std::string(kSinkChunk, '1'));
}

TEST_F(Sinks, APlainFileStaysOnlyIfItIsClosed) {
  std::shared_ptr<SinkFile> file;
  EXPECT_EQ(sink_->open_plain("a", file).verdict, Verdict::kStored);
  EXPECT_EQ(sink_->append(*file, bytes_of("text")).verdict, Verdict::kStored);
  EXPECT_EQ(names().size(), 1u);
  file.reset();
  EXPECT_TRUE(names().empty());
  EXPECT_EQ(sink_->open_plain("a", file).verdict, Verdict::kStored);
  EXPECT_EQ(sink_->append(*file, bytes_of("text")).verdict, Verdict::kStored);
  EXPECT_EQ(sink_->close(*file).verdict, Verdict::kStored);
  file.reset();
  EXPECT_EQ(text_in(root_ / "to/a"), "text");
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
}

TEST_F(Sinks, AFolderThatWasRemovedIsMadeAgain) {
  EXPECT_EQ(store("folder/a").verdict, Verdict::kStored);
  fs::remove_all(root_ / "to/folder");
  const JobResult again = store("folder/a");
  EXPECT_EQ(again.verdict, Verdict::kStored) << again.text;
  EXPECT_EQ(text_in(root_ / "to/folder/a"), "text");
}

// Locked by who writes to it, here or in another process.
TEST_F(Sinks, WhatAKilledReceiverHasLeftIsRemoved) {
  const std::string unique = "to/.verbena-0123456789abcdef-7.part";
  fs::create_directories(root_ / "to/a/b");
  begin("resumable", 10).reset();
  const std::string resumable = names().at(0);
  std::ofstream(root_ / unique) << "left";
  fs::copy(root_ / unique, root_ / "to/a/b/.verbena-0000000000000000-0.part");
  fs::copy(root_ / unique, root_ / "outside/.verbena-0000000000000000-0.part");
  fs::create_directory_symlink(root_ / "outside", root_ / "to/link");
  fs::create_symlink(root_ / "outside/.verbena-0000000000000000-0.part",
                     root_ / "to/.verbena-0000000000000001-0.part");
  fs::create_hard_link(root_ / "outside/.verbena-0000000000000000-0.part",
                       root_ / "to/.verbena-0000000000000002-0.part");
  const std::array others = {".verbena-notes", "a.part", ".verbena-notes.part", ".verbena-1-0.part",
                             ".verbena-0123456789abcdef-x.part"};
  for (const char* const name : others) std::ofstream(root_ / "to" / name) << "somebody's";
  std::shared_ptr<SinkFile> plain;
  ASSERT_EQ(sink_->open_plain("plain", plain).verdict, Verdict::kStored);
  const auto begun = begin("begun", 10);
  const auto again = begin("begun", 10);
  ASSERT_TRUE(begun != nullptr && again != nullptr);
  const size_t before = names().size();
  EXPECT_EQ(open()->remove_stale(false), 2u);
  EXPECT_EQ(names().size(), before - 1);
  EXPECT_FALSE(fs::exists(root_ / unique));
  EXPECT_FALSE(fs::exists(root_ / "to/a/b/.verbena-0000000000000000-0.part"));
  EXPECT_TRUE(fs::exists(root_ / "outside/.verbena-0000000000000000-0.part"));
  // Those whose attempt is long due, but not the one that is locked.
  EXPECT_EQ(open({.keep_seconds = 0})->remove_stale(false), 1u);
  EXPECT_FALSE(fs::exists(root_ / "to" / resumable));
  for (const char* const name : others) EXPECT_TRUE(fs::exists(root_ / "to" / name)) << name;
  EXPECT_EQ(sink_->append(*plain, bytes_of("text")).verdict, Verdict::kStored);
  EXPECT_EQ(sink_->close(*plain).verdict, Verdict::kStored);
  EXPECT_EQ(write(*begun, 0, "0123456789").verdict, Verdict::kStored);
  EXPECT_EQ(sink_->close(*begun).verdict, Verdict::kStored);
  EXPECT_EQ(text_in(root_ / "to/plain"), "text");
  EXPECT_EQ(text_in(root_ / "to/begun"), "0123456789");
}

TEST_F(Sinks, OnlyFoldersOfTheTransferGetItsAttributes) {
  const auto mode_of = [&](const char* name) {
    return static_cast<unsigned>(fs::status(root_ / "to" / name).permissions());
  };
  const auto time_of = [&](const char* name) {
    struct stat status{};
    EXPECT_EQ(stat((root_ / "to" / name).c_str(), &status), 0);
    return status.st_mtim.tv_sec;
  };
  const Attributes theirs{.mode = 0711, .modified_s = 1000};
  const auto send_folders = [&] {
    for (const char* const name : {"there/new", "there", "empty"}) {
      EXPECT_EQ(sink_->make_folder({.path = name, .attributes = theirs}).verdict, Verdict::kStored);
    }
  };
  fs::create_directory(root_ / "to/there");
  fs::permissions(root_ / "to/there", fs::perms::owner_all);
  EXPECT_EQ(store("there/new/file").verdict, Verdict::kStored);
  send_folders();
  EXPECT_EQ(mode_of("there"), 0700u);
  EXPECT_NE(time_of("there"), 1000);
  for (const char* const name : {"there/new", "empty"}) {
    EXPECT_EQ(mode_of(name), 0711u) << name;
    EXPECT_EQ(time_of(name), 1000) << name;
  }
  sink_ = open({.overwrite = true});
  send_folders();
  EXPECT_EQ(mode_of("there"), 0711u);
  EXPECT_EQ(time_of("there"), 1000);
}

TEST_F(Sinks, DamageIsNotStored) {
  const auto data = bytes_of("text");
  EXPECT_EQ(sink_->store_small({.path = "a", .data = data, .crc = 1}).verdict, Verdict::kDamaged);
  EXPECT_TRUE(names().empty());
}

}  // namespace
}  // namespace verbena::transfer
