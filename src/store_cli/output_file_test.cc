// SPDX-License-Identifier: Apache-2.0
#include "store_cli/output_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace verbena::store_cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OutputFileTest : public testing::Test {
 protected:
  OutputFileTest() {
    std::string pattern = testing::TempDir() + "output-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~OutputFileTest() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string in(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }
  static std::string content(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::span<const uint8_t> bytes(std::string_view text) {
    return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
  }
  fs::path folder_;
};

TEST_F(OutputFileTest, IsThereWhenItIsFinished) {
  auto file = OutputFile::open(in("a"), 5);
  ASSERT_TRUE(file.has_value()) << file.error();
  EXPECT_FALSE(file->seen_at_once());
  ASSERT_TRUE(file->write(bytes("he")).has_value());
  EXPECT_FALSE(fs::exists(in("a")));
  ASSERT_TRUE(file->write(bytes("llo")).has_value());
  ASSERT_TRUE(file->finish().has_value());
  EXPECT_EQ(content(in("a")), "hello");
  EXPECT_EQ(entries(), 1U);
}

// It may have been another's, and what is in it is from elsewhere.
TEST_F(OutputFileTest, DoesNotInheritSetUserId) {
  std::ofstream(in("a")) << "old";
  ASSERT_EQ(::chmod(in("a").c_str(), 06750), 0);
  auto file = OutputFile::open(in("a"), 0);
  ASSERT_TRUE(file && file->finish());
  struct stat status{};
  ASSERT_EQ(::stat(in("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0750U);
}

TEST_F(OutputFileTest, IsNotThereWhenItIsNotFinished) {
  std::ofstream(in("a")) << "old";
  for (const char* name : {"a", "b"}) {
    auto file = OutputFile::open(in(name), 0);
    ASSERT_TRUE(file.has_value()) << file.error();
    ASSERT_TRUE(file->write(bytes("new")).has_value());
  }
  EXPECT_EQ(content(in("a")), "old");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(OutputFileTest, ReplacesWhatWasThereAndKeepsItsMode) {
  std::ofstream(in("a")) << "an older and longer one";
  ASSERT_EQ(::chmod(in("a").c_str(), 0640), 0);
  fs::create_symlink("a", in("link"));
  auto file = OutputFile::open(in("link"), 0);
  ASSERT_TRUE(file.has_value()) << file.error();
  ASSERT_TRUE(file->write(bytes("new")).has_value());
  ASSERT_TRUE(file->finish().has_value());
  EXPECT_TRUE(fs::is_symlink(in("link")));
  EXPECT_EQ(content(in("a")), "new");
  EXPECT_EQ(fs::status(in("a")).permissions(), fs::perms(0640));
}

TEST_F(OutputFileTest, HasTheModeOfOtherNewFiles) {
  std::ofstream(in("other")) << "";
  auto file = OutputFile::open(in("a"), 0);
  ASSERT_TRUE(file && file->finish());
  EXPECT_EQ(fs::status(in("a")).permissions(), fs::status(in("other")).permissions());
}

TEST_F(OutputFileTest, NamesAsLongAsTheyMayBe) {
  const std::string name(255, 'x');
  auto file = OutputFile::open(in(name), 0);
  ASSERT_TRUE(file.has_value()) << file.error();
  EXPECT_TRUE(file->finish().has_value());
  EXPECT_TRUE(fs::exists(in(name)));
}

TEST_F(OutputFileTest, PipesAndDevicesAreWrittenAsTheyAre) {
  auto file = OutputFile::open("/dev/null", 1 << 20);
  ASSERT_TRUE(file.has_value()) << file.error();
  EXPECT_TRUE(file->seen_at_once());
  EXPECT_TRUE(file->write(bytes("x")).has_value());
  auto full = OutputFile::open("/dev/full", 0);
  ASSERT_TRUE(full.has_value());
  EXPECT_THAT(full->write(bytes("x")).error(), HasSubstr("/dev/full: cannot be written: No space"));
}

TEST_F(OutputFileTest, WhatCannotBeWrittenIsSaidAtOnce) {
  EXPECT_THAT(OutputFile::open("", 0).error(), HasSubstr("empty"));
  EXPECT_THAT(OutputFile::open(folder_, 0).error(), HasSubstr("is a directory"));
  EXPECT_THAT(OutputFile::open(in("none/"), 0).error(), HasSubstr("the directory does not exist"));
  EXPECT_THAT(OutputFile::open(in("none/a"), 0).error(), HasSubstr("No such file"));
  EXPECT_THAT(OutputFile::open(in("a"), uint64_t{1} << 55).error(), HasSubstr("cannot be written"));
  EXPECT_EQ(entries(), 0U);
}

}  // namespace
}  // namespace verbena::store_cli
