// SPDX-License-Identifier: Apache-2.0
// Objects in a directory: written, read back, found by other programs, changed by them, damaged.
#include "backend/directory_tier.h"

#include <map>
#include <set>

#include <sys/wait.h>
#include <unistd.h>

#include "backend/directory_testing.h"
#include "backend/object_path.h"
#include "backend/sums.h"

namespace verbena::backend {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
const Key kName{"name", {1, 2}};

class DirectoryTierTest : public ::testing::Test {
 protected:
  void SetUp() override { reopen(); }
  void reopen() {
    tier_.reset();
    tier_ = open_tier(folder_.path());
    ASSERT_NE(tier_, nullptr);
  }
  // Opens it as if the last owner had not closed it.
  void crash() {
    tier_.reset();
    std::filesystem::remove(folder_.at(".verbena/closed"));
    reopen();
  }
  // The next version of it, whole.
  State write(const Key& key, const Bytes& bytes) {
    const auto before = tier_->state(key);
    NewState wanted{
        .base = std::nullopt,
        .state = {
            .version = ++version_, .size = bytes.size(), .modified_ns = 1000 * kSecond + version_}};
    if (before) wanted.base = before->version;
    const auto done = write_object(*tier_, key, wanted, bytes);
    EXPECT_TRUE(done.has_value()) << done.error().what;
    return wanted.state;
  }
  Bytes read(const Key& key) {
    auto bytes = read_object(*tier_, key);
    EXPECT_TRUE(bytes.has_value()) << bytes.error().what;
    return bytes.value_or(Bytes{});
  }
  Code read_error(const Key& key) {
    auto bytes = read_object(*tier_, key);
    EXPECT_FALSE(bytes.has_value());
    return bytes ? Code::kLogFull : bytes.error().code;
  }

  TemporaryFolder folder_;
  SeededRandom random_{7};
  uint64_t version_ = 100;
  std::unique_ptr<DirectoryTier> tier_;
};

TEST_F(DirectoryTierTest, RoundTripsOfManySizes) {
  std::vector<size_t> sizes{0, 1, kPartBytes - 1, kPartBytes, kPartBytes + 1, 10 * kPartBytes - 1};
  for (const uint64_t parts : {kFirstPageParts, kFirstPageParts + kPageParts}) {
    for (const int more : {-1, 0, 1}) sizes.push_back(parts * kPartBytes + more);
  }
  sizes.push_back(1500 * kPartBytes);  // more than IOV_MAX
  std::map<std::string, std::pair<State, Bytes>> written;
  for (const size_t size : sizes) {
    const std::string name = "size/" + std::to_string(size);
    const Bytes bytes = random_bytes(random_, size);
    written[name] = {write({name, {}}, bytes), bytes};
  }
  for (int round = 0; round < 2; ++round, reopen()) {
    for (const auto& [name, object] : written) {
      EXPECT_EQ(tier_->state({name, {}}).value(), object.first);
      EXPECT_TRUE(read({name, {}}) == object.second) << name;
      EXPECT_TRUE(file_bytes(folder_.at(name)) == object.second) << name;
    }
  }
  EXPECT_EQ(tier_->counters().adopted, 0u);
  EXPECT_EQ(tier_->counters().removed, 0u);
}

// The last page of the sums is one of holes, and the base's was not.
TEST_F(DirectoryTierTest, HolesUpToTheEnd) {
  for (const uint64_t pages : {1, 2, 3}) {
    const uint64_t parts = kFirstPageParts + pages * kPageParts;
    const Key key{"holes/" + std::to_string(pages), {}};
    Bytes bytes = random_bytes(random_, parts * kPartBytes);
    const State before = write(key, bytes);
    State after = before;
    after.version = ++version_;
    auto update = tier_->update(key, {.base = before.version, .state = after});
    ASSERT_TRUE(update.has_value());
    ASSERT_TRUE((*update)->hole(kFirstPageParts, parts - kFirstPageParts));
    ASSERT_TRUE((*update)->commit());
    std::fill(bytes.begin() + kFirstPageParts * kPartBytes, bytes.end(), uint8_t{0});
    EXPECT_TRUE(read(key) == bytes) << pages;
  }
}

TEST_F(DirectoryTierTest, HasTheTimeAndModeOfTheObject) {
  const State state = write(kName, random_bytes(random_, 10));
  EXPECT_EQ(static_cast<uint64_t>(file_status(folder_.at("name")).st_mtim.tv_sec),
            state.modified_ns / kSecond);
  ASSERT_EQ(chmod(folder_.at("name").c_str(), 0640), 0);
  write(kName, random_bytes(random_, 20));
  EXPECT_EQ(file_status(folder_.at("name")).st_mode & 07777, 0640u);
}

TEST_F(DirectoryTierTest, VersionsOfTheSameTimeAndSizeDiffer) {
  Bytes bytes = random_bytes(random_, 5000);
  State state{.version = 1, .size = bytes.size(), .modified_ns = 5 * kSecond};
  ASSERT_TRUE(write_object(*tier_, kName, {std::nullopt, state}, bytes));
  for (uint64_t version = 2; version < 5; ++version) {
    const uint64_t base = std::exchange(state.version, version);
    bytes[100] ^= 1;
    ASSERT_TRUE(write_object(*tier_, kName, {base, state}, bytes));
    EXPECT_EQ(tier_->state(kName).value(), state);
    EXPECT_EQ(read(kName), bytes);
    EXPECT_EQ(files_below(folder_.at(".verbena/sums")).size(), 1u);
  }
}

TEST_F(DirectoryTierTest, WhatIsNotPutIsAsInTheBase) {
  Bytes bytes = random_bytes(random_, 2000 * kPartBytes + 100);
  uint64_t base = write(kName, bytes).version;
  const auto update = [&](size_t size, auto change) {
    const State state{.version = ++version_, .size = size, .modified_ns = version_};
    auto made = tier_->update(kName, {base, state});
    ASSERT_TRUE(made.has_value()) << made.error().what;
    bytes.resize(size);
    change(**made);
    const auto done = (*made)->commit();
    ASSERT_TRUE(done.has_value()) << done.error().what;
    base = state.version;
    EXPECT_EQ(read(kName), bytes);
  };
  update(bytes.size(), [&](Update& made) {
    bytes[5 * kPartBytes] ^= 1;
    bytes[1800 * kPartBytes] ^= 1;
    ASSERT_TRUE(put_parts(made, bytes, 1800, 3));
    ASSERT_TRUE(put_parts(made, bytes, 5, 1));
  });
  update(1900 * kPartBytes + 17, [](Update&) {});  // shorter, in the middle of a part
  update(2100 * kPartBytes + 5, [](Update&) {});   // and longer: zeros
  update(bytes.size(), [&](Update& made) {
    std::fill_n(bytes.begin() + 700 * kPartBytes, 1300 * kPartBytes, uint8_t{0});
    ASSERT_TRUE(made.hole(700, 1300));
  });
  update(10, [](Update&) {});
  update(0, [](Update&) {});
  update(kPartBytes, [](Update&) {});
}

TEST_F(DirectoryTierTest, BeginsFromAnotherObject) {
  const Key other{"other", {}};
  Bytes bytes = random_bytes(random_, 2000 * kPartBytes + 100);
  const State first = write(kName, bytes);
  ASSERT_EQ(chmod(folder_.at("name").c_str(), 0640), 0);
  State next{.version = 7, .size = bytes.size(), .modified_ns = first.modified_ns};
  EXPECT_EQ(tier_->update(other, {std::nullopt, next, Source{kName, 99}}).error().code,
            Code::kConflict);
  EXPECT_EQ(tier_->update(other, {std::nullopt, next, Source{{"none", {}}, 99}}).error().code,
            Code::kConflict);
  const Bytes before = bytes;
  bytes[5 * kPartBytes] ^= 1;
  auto made = tier_->update(other, {std::nullopt, next, Source{kName, first.version}});
  ASSERT_TRUE(made.has_value()) << made.error().what;
  ASSERT_TRUE(put_parts(**made, bytes, 5, 1));
  ASSERT_TRUE((*made)->commit());
  EXPECT_EQ(read(kName), before);
  EXPECT_EQ(read(other), bytes);
  EXPECT_EQ(file_status(folder_.at("other")).st_mode & 07777, 0640u);
  // And replaces another one; of a file that another program has made, and shorter.
  write_file(folder_.at("foreign"), before);
  const uint64_t foreign = tier_->state({"foreign", {}})->version;
  next = {.version = 8, .size = 1000 * kPartBytes + 9, .modified_ns = 3};
  made = tier_->update(other, {7, next, Source{{"foreign", {}}, foreign}});
  ASSERT_TRUE(made.has_value()) << made.error().what;
  ASSERT_TRUE((*made)->commit());
  bytes = before;
  bytes.resize(next.size);
  EXPECT_EQ(read(other), bytes);
  EXPECT_EQ(tier_->state(other).value(), next);
  EXPECT_EQ(files_below(folder_.at(".verbena/sums")).size(), 2u);
}

TEST_F(DirectoryTierTest, SparseFilesStaySparse) {
  constexpr uint64_t kSize = uint64_t{1} << 40;
  const uint64_t last = parts_of(kSize) - 1;
  const Bytes part = random_bytes(random_, kPartBytes);
  const std::vector<PartToPut> put{{part.data(), store::crc_of(part)}};
  State state{.version = 1, .size = kSize, .modified_ns = 1};
  auto update = tier_->update(kName, {std::nullopt, state});
  ASSERT_TRUE(update.has_value());
  ASSERT_TRUE((*update)->put(1'000'000, put));
  ASSERT_TRUE((*update)->hole(1'000'001, 5'000'000));
  ASSERT_TRUE((*update)->commit());
  state = {.version = 2, .size = kSize, .modified_ns = 2};
  update = tier_->update(kName, {1, state});
  ASSERT_TRUE(update.has_value());
  ASSERT_TRUE((*update)->put(5, put));
  ASSERT_TRUE((*update)->commit());

  EXPECT_LE(file_status(folder_.at("name")).st_blocks * 512, 64 << 10);
  const auto sums = files_below(folder_.at(".verbena/sums"));
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_LE(file_status(sums[0]).st_blocks * 512, 64 << 10);
  Bytes read(kPartBytes);
  std::vector<PartToLoad> to{{read.data(), 0}};
  for (const uint64_t at : {uint64_t{5}, uint64_t{6}, uint64_t{1'000'000}, last}) {
    const auto loaded = tier_->load(kName, 2, at, to);
    ASSERT_TRUE(loaded.has_value()) << loaded.error().what;
    const bool data = at == 5 || at == 1'000'000;
    EXPECT_EQ(read, data ? part : Bytes(kPartBytes)) << at;
  }
  // A hole over all of it.
  update = tier_->update(kName, {2, {.version = 3, .size = kSize, .modified_ns = 3}});
  ASSERT_TRUE((*update)->hole(0, last + 1));
  ASSERT_TRUE((*update)->commit());
  EXPECT_EQ(file_status(folder_.at("name")).st_blocks, 0);
  ASSERT_TRUE(tier_->load(kName, 3, 1'000'000, to));
  EXPECT_EQ(read, Bytes(kPartBytes));
}

TEST_F(DirectoryTierTest, RefusesOtherVersions) {
  const Bytes bytes = random_bytes(random_, 100);
  const State first = write(kName, bytes);
  const State next{.version = 7, .size = 1, .modified_ns = 1};
  EXPECT_EQ(tier_->update(kName, {std::nullopt, next}).error().code, Code::kConflict);
  EXPECT_EQ(tier_->update(kName, {99, next}).error().code, Code::kConflict);
  EXPECT_EQ(tier_->update({"other", {}}, {99, next}).error().code, Code::kConflict);
  EXPECT_EQ(tier_->update(kName, {first.version, first}).error().code, Code::kInvalid);
  EXPECT_EQ(tier_->remove(kName, 99).error().code, Code::kConflict);
  EXPECT_EQ(tier_->load(kName, 99, 0, {}).error().code, Code::kConflict);
  EXPECT_EQ(tier_->load({"other", {}}, 99, 0, {}).error().code, Code::kNotFound);
  EXPECT_EQ(tier_->state({"other", {}}).error().code, Code::kNotFound);
  EXPECT_TRUE(tier_->remove({"other", {}}, 99));

  // At commit: it was replaced, removed, or made meanwhile.
  auto late = tier_->update(kName, {first.version, next});
  const State second = write(kName, bytes);
  EXPECT_EQ((*late)->commit().error().code, Code::kConflict);
  late = tier_->update(kName, {second.version, next});
  ASSERT_TRUE(tier_->remove(kName, second.version));
  EXPECT_EQ((*late)->commit().error().code, Code::kConflict);
  late = tier_->update(kName, {std::nullopt, next});
  write(kName, bytes);
  EXPECT_EQ((*late)->commit().error().code, Code::kConflict);
  late->reset();
  EXPECT_EQ(read(kName), bytes);
  EXPECT_TRUE(files_below(folder_.at(".verbena/tmp")).empty());
  EXPECT_EQ(files_below(folder_.at(".verbena/sums")).size(), 1u);
}

TEST_F(DirectoryTierTest, RefusesPartsThatAreNotThere) {
  const Bytes bytes = random_bytes(random_, 3 * kPartBytes);
  const State state = write(kName, bytes);
  Bytes memory(kPartBytes);
  std::vector<PartToLoad> one{{memory.data(), 0}};
  EXPECT_EQ(tier_->load(kName, state.version, 3, one).error().code, Code::kInvalid);
  EXPECT_EQ(tier_->load(kName, state.version, UINT64_MAX, one).error().code, Code::kInvalid);
  const NewState wanted{state.version, {.version = 7, .size = 3 * kPartBytes, .modified_ns = 1}};
  auto update = tier_->update(kName, wanted);
  EXPECT_EQ((*update)->hole(2, 2).error().code, Code::kInvalid);
  EXPECT_EQ((*update)->commit().error().code, Code::kInvalid);  // it has failed
  update = tier_->update(kName, wanted);
  ASSERT_TRUE((*update)->hole(1, 1));
  EXPECT_EQ(put_parts(**update, bytes, 0, 3).error().code, Code::kInvalid);  // twice
  EXPECT_EQ(tier_->update(kName, {state.version, {7, UINT64_MAX, 1}}).error().code, Code::kInvalid);
}

TEST_F(DirectoryTierTest, AdoptsFilesOfOtherPrograms) {
  std::filesystem::create_directory(folder_.at("sub"));
  Bytes bytes = random_bytes(random_, 3 * kPartBytes + 5);
  write_file(folder_.at("sub/file"), bytes);
  const Key key{"sub/file", {}};
  EXPECT_EQ(read(key), bytes);
  EXPECT_EQ(read(key), bytes);
  EXPECT_EQ(tier_->counters().adopted, 1u);
  const auto first = tier_->state(key);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(tier_->state(key).value(), *first);

  // Changed, with the same size and the time set back: another version all the same.
  bytes[kPartBytes] ^= 4;
  spoil_file(folder_.at("sub/file"), kPartBytes);
  const auto second = tier_->state(key);
  EXPECT_NE(second->version, first->version);
  EXPECT_EQ(tier_->load(key, first->version, 0, {}).error().code, Code::kConflict);
  EXPECT_EQ(read(key), bytes);
  EXPECT_EQ(tier_->counters().adopted, 2u);

  // An update of it has sums, also of what stays.
  bytes[0] ^= 1;
  const State next{.version = 7, .size = bytes.size() - 3, .modified_ns = 1};
  bytes.resize(next.size);
  auto update = tier_->update(key, {second->version, next});
  ASSERT_TRUE(put_parts(**update, bytes, 0, 1));
  ASSERT_TRUE((*update)->commit());
  EXPECT_EQ(tier_->state(key).value(), next);
  EXPECT_EQ(read(key), bytes);
  spoil_file(folder_.at("sub/file"), 2 * kPartBytes);
  EXPECT_EQ(read_error(key), Code::kDamaged);
}

TEST_F(DirectoryTierTest, AnObjectThatAnotherProgramChangesIsAdopted) {
  const State state = write(kName, random_bytes(random_, 5000));
  const Bytes other = random_bytes(random_, 100);
  auto late = tier_->update(kName, {state.version, {7, 5000, 1}});
  write_file(folder_.at("name"), other);
  EXPECT_NE(tier_->state(kName)->version, state.version);
  EXPECT_EQ((*late)->commit().error().code, Code::kConflict);
  EXPECT_EQ(tier_->remove(kName, state.version).error().code, Code::kConflict);
  EXPECT_EQ(read(kName), other);
}

TEST_F(DirectoryTierTest, DamageIsNeverServed) {
  const Bytes bytes = random_bytes(random_, 4 * kPartBytes + 100);
  const State state = write(kName, bytes);
  spoil_file(folder_.at("name"), 2 * kPartBytes + 9);
  auto read = read_object(*tier_, kName);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, Code::kDamaged);
  EXPECT_EQ(read.error().damage.offset, 2 * kPartBytes);
  EXPECT_EQ(read.error().damage.object, kName.id);
  // Other parts are there.
  Bytes memory(2 * kPartBytes);
  std::vector<PartToLoad> parts{{memory.data(), 0}, {memory.data() + kPartBytes, 0}};
  EXPECT_TRUE(tier_->load(kName, state.version, 0, parts));
  EXPECT_EQ(tier_->load(kName, state.version, 1, parts).error().code, Code::kDamaged);

  // An update does not make it right, neither where it stays nor where it is cut off,
  auto update = tier_->update(kName, {state.version, {7, 4 * kPartBytes, 1}});
  ASSERT_TRUE(put_parts(**update, bytes, 0, 1));
  ASSERT_TRUE((*update)->commit());
  EXPECT_EQ(read_error(kName), Code::kDamaged);
  update = tier_->update(kName, {7, {8, 2 * kPartBytes + 100, 1}});
  EXPECT_EQ((*update)->commit().error().code, Code::kDamaged);
  // but where it is replaced.
  update = tier_->update(kName, {7, {9, 4 * kPartBytes, 1}});
  ASSERT_TRUE(put_parts(**update, bytes, 2, 1));
  ASSERT_TRUE((*update)->commit());
  EXPECT_EQ(DirectoryTierTest::read(kName), Bytes(bytes.begin(), bytes.begin() + 4 * kPartBytes));
}

TEST_F(DirectoryTierTest, DamagedSumsAreAnErrorWithAdvice) {
  const Bytes bytes = random_bytes(random_, (kFirstPageParts + 10) * kPartBytes);
  const State state = write(kName, bytes);
  write({"good", {}}, bytes);
  const std::string sums =
      folder_.at(sums_path(kName, static_cast<int64_t>(state.modified_ns), state.size));
  for (const uint64_t at : {0, 30, 600, 2000, 4095}) {
    spoil_file(sums, at);
    const auto broken = tier_->state(kName);
    ASSERT_FALSE(broken.has_value()) << at;
    EXPECT_EQ(broken.error().code, Code::kDamaged);
    EXPECT_NE(broken.error().what.find("remove this one"), std::string::npos)
        << broken.error().what;
    std::map<std::string, uint64_t> versions;
    ASSERT_TRUE(tier_->list([&](const Entry& entry) {
      versions[entry.key.name] = entry.state.version;
      return true;
    }));
    EXPECT_EQ(versions.at("name"), 0u);
    EXPECT_NE(versions.at("good"), 0u);
    spoil_file(sums, at);
  }
  EXPECT_EQ(read(kName), bytes);
  // Of a page that is not the first one, only the parts in it.
  spoil_file(sums, kSumsPageBytes + 5);
  EXPECT_EQ(read_error(kName), Code::kDamaged);
  auto update = tier_->update(kName, {state.version, {7, bytes.size(), 1}});
  ASSERT_TRUE(put_parts(**update, bytes, kFirstPageParts, 5));
  EXPECT_EQ((*update)->commit().error().code, Code::kDamaged);
  update = tier_->update(kName, {state.version, {7, bytes.size(), 1}});
  ASSERT_TRUE(put_parts(**update, bytes, kFirstPageParts, 10));
  ASSERT_TRUE((*update)->commit());
  EXPECT_EQ(read(kName), bytes);
  // Cut off.
  for (const auto& path : files_below(folder_.at(".verbena/sums"))) {
    std::filesystem::resize_file(path, 100);
  }
  EXPECT_EQ(read_error(kName), Code::kDamaged);
  // Neither is it taken for left over.
  crash();
  EXPECT_EQ(tier_->counters().unreadable, 2u);
  EXPECT_EQ(read_error(kName), Code::kDamaged);
  // The advice works.
  for (const auto& path : files_below(folder_.at(".verbena/sums"))) std::filesystem::remove(path);
  EXPECT_EQ(read(kName), bytes);
}

TEST_F(DirectoryTierTest, ListsAllObjects) {
  std::set<std::pair<std::string, uint64_t>> expected;
  for (const char* const name : {"a", "b/c", "b/d/e", "../up", ".verbena/lock", "b"}) {
    expected.insert({name, write({name, {}}, Bytes(10)).version});
  }
  expected.insert({"", write({"", {3, 4}}, Bytes(20)).version});
  write_file(folder_.at("foreign"), Bytes(5));
  expected.insert({"foreign", tier_->state({"foreign", {}})->version});
  ASSERT_EQ(symlink("/etc/passwd", folder_.at("link").c_str()), 0);
  ASSERT_EQ(mkfifo(folder_.at("pipe").c_str(), 0600), 0);
  write_file(folder_.at("bad\nname"), Bytes(5));
  for (int round = 0; round < 2; ++round, reopen()) {
    std::set<std::pair<std::string, uint64_t>> listed;
    ASSERT_TRUE(tier_->list([&](const Entry& entry) {
      listed.insert({entry.key.name, entry.state.version});
      EXPECT_EQ(entry.key.id, entry.key.name.empty() ? (ObjectId{3, 4}) : ObjectId{});
      return true;
    }));
    EXPECT_EQ(listed, expected);
    EXPECT_EQ(tier_->counters().skipped, 3u);
  }
  int calls = 0;
  ASSERT_TRUE(tier_->list([&](const Entry&) { return ++calls < 3; }));
  EXPECT_EQ(calls, 3);
}

TEST_F(DirectoryTierTest, KeepsTheIdOfAnObjectWithAName) {
  write(kName, Bytes(10));
  ASSERT_TRUE(tier_->list([&](const Entry& entry) {
    EXPECT_EQ(entry.key, kName);
    return true;
  }));
}

TEST_F(DirectoryTierTest, RemovesFilesSumsAndEmptyFolders) {
  const State deep = write({"a/b/c", {}}, Bytes(10));
  const State side = write({"a/d", {}}, Bytes(10));
  ASSERT_TRUE(tier_->remove({"a/b/c", {}}, deep.version));
  EXPECT_EQ(tier_->state({"a/b/c", {}}).error().code, Code::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(folder_.at("a/b")));
  EXPECT_TRUE(std::filesystem::exists(folder_.at("a/d")));
  ASSERT_TRUE(tier_->remove({"a/d", {}}, side.version));
  EXPECT_FALSE(std::filesystem::exists(folder_.at("a")));
  EXPECT_TRUE(files_below(folder_.at(".verbena/sums")).empty());
}

TEST_F(DirectoryTierTest, HasOneOwner) {
  const auto second = DirectoryTier::open(folder_.path());
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::kInUse);
  EXPECT_NE(second.error().what.find(std::to_string(getpid())), std::string::npos)
      << second.error().what;
  // The lock of a process that is killed is free.
  tier_.reset();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const int child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto tier = DirectoryTier::open(folder_.path());
    const char answer = tier ? 'y' : 'n';
    static_cast<void>(!::write(ready[1], &answer, 1));
    pause();
    _exit(0);
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_EQ(DirectoryTier::open(folder_.path()).error().code, Code::kInUse);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  close(ready[0]);
  close(ready[1]);
  reopen();
}

TEST_F(DirectoryTierTest, SaysWhatIsWrongWithTheDirectory) {
  EXPECT_EQ(DirectoryTier::open(folder_.at("none")).error().code, Code::kNotFound);
  tier_.reset();
  write_file(folder_.at(".verbena/format"), {'x'});
  EXPECT_EQ(DirectoryTier::open(folder_.path()).error().code, Code::kVersion);
}

}  // namespace
}  // namespace verbena::backend
