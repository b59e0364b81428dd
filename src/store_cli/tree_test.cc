// SPDX-License-Identifier: Apache-2.0
#include "store_cli/tree.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace verbena::store_cli {
namespace {

using testing::HasSubstr;

TEST(Tree, NamesThatStayBelowADirectory) {
  for (const char* const name : {"a", "a/b", "...", "..a", "a..", ".a/b.", "a b/ ", "-"}) {
    EXPECT_TRUE(check_relative(name)) << name;
  }
  EXPECT_TRUE(check_relative(std::string(255, 'x')));
}

TEST(Tree, NamesThatDoNot) {
  for (const char* const name : {"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/../b",
                                 "./a", "a/.", "a/./b", "//"}) {
    EXPECT_FALSE(check_relative(name)) << name;
  }
  EXPECT_FALSE(check_relative(std::string(256, 'x')));
}

TEST(Tree, PrefixesEndWithASlash) {
  EXPECT_EQ(as_prefix(""), "");
  EXPECT_EQ(as_prefix("a"), "a/");
  EXPECT_EQ(as_prefix("a/"), "a/");
}

TEST(Tree, LinksInATargetAreNotFollowed) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("tree_test." + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "to");
  std::filesystem::create_directories(folder / "elsewhere");
  std::filesystem::create_directory_symlink(folder / "elsewhere", folder / "to/link");
  const auto target = TargetTree::open((folder / "to").string());
  ASSERT_TRUE(target);
  EXPECT_TRUE(target->folder_of("a/b/file"));
  EXPECT_TRUE(std::filesystem::is_directory(folder / "to/a/b"));
  const auto refused = target->folder_of("link/b/file");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error(), HasSubstr("not followed"));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "elsewhere"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace verbena::store_cli
