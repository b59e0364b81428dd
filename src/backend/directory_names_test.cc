// SPDX-License-Identifier: Apache-2.0
// Names that cannot be paths, names in each other's way, and links: nothing outside of the
// directory is read or written.
#include <cstring>
#include <set>

#include <unistd.h>

#include "backend/directory_testing.h"
#include "backend/object_path.h"

namespace verbena::backend {
namespace {

TEST(ObjectPath, PlainNamesAreTheirPaths) {
  for (const std::string name : {"a", "a/b", "with space", "%", "\xc3\xa4/\xe2\x82\xac", ".hidden",
                                 "a/.verbena/b", "-", "...", "verbena"}) {
    EXPECT_EQ(plain_path(name), name);
  }
  EXPECT_EQ(plain_path(std::string(255, 'x')), std::string(255, 'x'));
}

TEST(ObjectPath, OthersAreEscapedReversibly) {
  const std::vector<std::string> names{".",
                                       "..",
                                       "../x",
                                       "a/../b",
                                       "/absolute",
                                       "a//b",
                                       "a/",
                                       "/",
                                       ".verbena",
                                       ".verbena/tmp",
                                       ".verbenax",
                                       "%2F",
                                       "a/./b",
                                       "\xc3\xa4/..",
                                       std::string(256, 'x'),
                                       std::string(1000, '/'),
                                       std::string(1000, '%'),
                                       "a/" + std::string(300, 'y') + "/b"};
  std::set<std::string> paths;
  for (const std::string& name : names) {
    EXPECT_EQ(plain_path(name).has_value(), name == "%2F") << name;
    const std::string path = escaped_path(name);
    EXPECT_TRUE(paths.insert(path).second);
    EXPECT_EQ(name_of_escaped(path), name);
    EXPECT_LT(path.size(), 4096u);
    for (size_t at = 0; at < path.size();) {
      const size_t end = std::min(path.find('/', at), path.size());
      const std::string component = path.substr(at, end - at);
      EXPECT_FALSE(component.empty() || component == "." || component == "..");
      EXPECT_LE(component.size(), 255u);
      at = end + 1;
    }
  }
  EXPECT_EQ(escaped_path("../a b"), ".verbena/names/=..%2Fa%20b");
}

TEST(ObjectPath, OnePathForEachName) {
  for (const char* const path :
       {".verbena/names/=%2f", ".verbena/names/=a b", ".verbena/names/=%", ".verbena/names/=%zz",
        ".verbena/names/a", ".verbena/names/+a/=b", ".verbena/names/", ".verbena/names",
        ".verbena/namesx", "x", ".verbena/names/=%41", ".verbena/names//"}) {
    EXPECT_EQ(name_of_escaped(path), std::nullopt) << path;
  }
  const ObjectId id{0x1234, UINT64_MAX};
  EXPECT_EQ(id_path(id), ".verbena/ids/0000000000001234-ffffffffffffffff");
  EXPECT_EQ(id_of_path(id_path(id)), id);
  for (const char* const path :
       {".verbena/ids/0000000000001234-FFFFFFFFFFFFFFFF", ".verbena/ids/1-2", "",
        ".verbena/ids/0000000000001234+ffffffffffffffff",
        ".verbena/ids/000000000000123x-ffffffffffffffff"}) {
    EXPECT_EQ(id_of_path(path), std::nullopt) << path;
  }
}

TEST(ObjectPath, SumsOfTwoStatesAreBesideEachOther) {
  const Key key{"a", {1, 2}};
  const std::set<std::string> paths{sums_path(key, 1, 2),           sums_path(key, 1, 3),
                                    sums_path(key, 2, 2),           sums_path(key, -1, 2),
                                    sums_path({"b", {1, 2}}, 1, 2), sums_path({"", {1, 2}}, 1, 2),
                                    sums_path({"", {1, 3}}, 1, 2)};
  EXPECT_EQ(paths.size(), 7u);
  EXPECT_EQ(sums_path(key, 1, 2), sums_path({"a", {}}, 1, 2));
}

class DirectoryNamesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(folder_.at("in"));
    std::filesystem::create_directory(folder_.at("out"));
    tier_ = open_tier(folder_.at("in"));
    ASSERT_NE(tier_, nullptr);
  }
  void write(const std::string& name) {
    const State state{.version = ++version_, .size = 3, .modified_ns = version_};
    const auto before = tier_->state({name, {}});
    NewState wanted{std::nullopt, state};
    if (before) wanted.base = before->version;
    const auto done = write_object(*tier_, {name, {}}, wanted, content(name));
    EXPECT_TRUE(done.has_value()) << name << ": " << done.error().what;
  }
  static Bytes content(const std::string& name) {
    return {static_cast<uint8_t>(name.size()), static_cast<uint8_t>(name.front()),
            static_cast<uint8_t>(name.back())};
  }
  void expect(const std::string& name) {
    const auto bytes = read_object(*tier_, {name, {}});
    ASSERT_TRUE(bytes.has_value()) << name << ": " << bytes.error().what;
    EXPECT_EQ(*bytes, content(name)) << name;
  }
  [[nodiscard]] std::set<std::string> listed() {
    std::set<std::string> names;
    EXPECT_TRUE(tier_->list([&](const Entry& entry) {
      EXPECT_TRUE(names.insert(entry.key.name).second) << entry.key.name;
      return true;
    }));
    return names;
  }

  TemporaryFolder folder_;
  uint64_t version_ = 0;
  std::unique_ptr<DirectoryTier> tier_;
};

TEST_F(DirectoryNamesTest, HostileNamesStayInside) {
  const std::set<std::string> names{"../out/x",
                                    "..",
                                    ".",
                                    "/etc/x",
                                    "a//b",
                                    "a/",
                                    "/",
                                    ".verbena/lock",
                                    ".verbena",
                                    ".verbena/tmp/1",
                                    std::string(256, 'x'),
                                    std::string(1000, '/'),
                                    "a/../../out/y",
                                    std::string(255, 'z'),
                                    "x/" + std::string(998, 'y')};
  for (int round = 0; round < 2; ++round) {
    for (const std::string& name : names) write(name);
    for (const std::string& name : names) expect(name);
  }
  EXPECT_EQ(listed(), names);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.at("out")));
  for (const std::string& name : names) {
    ASSERT_TRUE(tier_->remove({name, {}}, tier_->state({name, {}})->version)) << name;
  }
  EXPECT_EQ(listed().size(), 0u);
  EXPECT_EQ(tier_->state({std::string(1001, 'x'), {}}).error().code, Code::kInvalid);
  EXPECT_EQ(tier_->state({std::string("a\0b", 3), {}}).error().code, Code::kInvalid);
  EXPECT_EQ(tier_->state({"\xff", {}}).error().code, Code::kInvalid);
}

TEST_F(DirectoryNamesTest, AFileAndAFolderOfOneName) {
  write("a/b");
  write("a");  // a folder is there
  write("c");
  write("c/d/e");  // a file is there
  const std::set<std::string> names{"a/b", "a", "c", "c/d/e"};
  for (const std::string& name : names) expect(name);
  EXPECT_EQ(listed(), names);
  for (const std::string& name : names) write(name);
  for (const std::string& name : names) expect(name);
  // It stays where it is when the other one goes.
  ASSERT_TRUE(tier_->remove({"a/b", {}}, tier_->state({"a/b", {}})->version));
  expect("a");
  write("a");
  expect("a");
  EXPECT_EQ(listed(), (std::set<std::string>{"a", "c", "c/d/e"}));
  // Another program makes a file of this name: it is the object, until it is removed.
  write_file(folder_.at("in/a"), {9});
  EXPECT_EQ(tier_->state({"a", {}})->size, 1u);
  EXPECT_EQ(listed(), (std::set<std::string>{"a", "c", "c/d/e"}));
  ASSERT_TRUE(tier_->remove({"a", {}}, tier_->state({"a", {}})->version));
  EXPECT_EQ(tier_->state({"a", {}}).error().code, Code::kNotFound);
}

TEST_F(DirectoryNamesTest, LinksAreNotFollowed) {
  write_file(folder_.at("out/secret"), {1, 2, 3});
  ASSERT_EQ(symlink("../out", folder_.at("in/folder").c_str()), 0);
  ASSERT_EQ(symlink("../out/secret", folder_.at("in/file").c_str()), 0);
  ASSERT_EQ(symlink("nowhere", folder_.at("in/dangling").c_str()), 0);
  ASSERT_EQ(mkfifo(folder_.at("in/pipe").c_str(), 0600), 0);
  const std::set<std::string> names{"folder/secret", "folder/new", "file", "dangling", "pipe"};
  for (const std::string& name : names) {
    EXPECT_EQ(tier_->state({name, {}}).error().code, Code::kNotFound) << name;
  }
  EXPECT_EQ(listed().size(), 0u);
  for (const std::string& name : names) write(name);
  for (const std::string& name : names) expect(name);
  EXPECT_EQ(listed(), names);
  EXPECT_EQ(file_bytes(folder_.at("out/secret")), (Bytes{1, 2, 3}));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_.at("in/file")));
  EXPECT_FALSE(std::filesystem::exists(folder_.at("out/new")));
  for (const std::string& name : names) {
    ASSERT_TRUE(tier_->remove({name, {}}, tier_->state({name, {}})->version)) << name;
  }
  EXPECT_TRUE(std::filesystem::exists(folder_.at("out/secret")));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_.at("in/folder")));
}

TEST_F(DirectoryNamesTest, TheReservedFolderIsNotALink) {
  tier_.reset();
  std::filesystem::rename(folder_.at("in/.verbena"), folder_.at("out/.verbena"));
  ASSERT_EQ(symlink("../out/.verbena", folder_.at("in/.verbena").c_str()), 0);
  EXPECT_FALSE(DirectoryTier::open(folder_.at("in")).has_value());
}

}  // namespace
}  // namespace verbena::backend
