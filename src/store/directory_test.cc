// SPDX-License-Identifier: Apache-2.0
// Stores in folders: made, opened by one owner, verified by others, salvaged.
#include "store/directory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/crc_parts.h"
#include "store/folder_shape.h"
#include "store/record.h"
#include "store/store_testing.h"

namespace verbena::store {
namespace {

namespace fs = std::filesystem;

class DirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "verbena-folder-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    options_.chunks_per_block = 64;
    options_.capacity_bytes = 32 * 64 * kChunkBytes;
  }
  void TearDown() override { fs::remove_all(root_); }

  [[nodiscard]] std::string at(const std::string& name) const { return root_ + "/" + name; }
  DirectoryStore make(const std::vector<std::string>& folders) {
    auto made = DirectoryStore::create(folders, options_);
    EXPECT_TRUE(made.has_value()) << made.error().what;
    return std::move(*made);
  }
  DirectoryStore open(const std::vector<std::string>& folders) {
    auto made = DirectoryStore::open(folders, options_);
    EXPECT_TRUE(made.has_value()) << made.error().what;
    return std::move(*made);
  }
  static Bytes read(Store& store, ObjectId id) {
    Bytes bytes(1'000'000);
    const auto done = store.read(id, 0, bytes);
    EXPECT_TRUE(done.has_value()) << done.error().what;
    bytes.resize(done.value_or(0));
    return bytes;
  }
  // Turns over one bit in a file.
  static void spoil(const std::string& path, uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(byte ^ 4));
    ASSERT_TRUE(file.good());
  }

  std::string root_;
  DirectoryOptions options_;
};

TEST_F(DirectoryTest, HasOneOwner) {
  const std::vector<std::string> folder{at("a")};
  EXPECT_EQ(DirectoryStore::open(folder, options_).error().code, Code::kNoStore);
  {
    auto store = make(folder);
    ASSERT_TRUE(store->create_object(kOne));
    const auto second = DirectoryStore::open(folder, options_);
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().code, Code::kInUse);
    EXPECT_NE(second.error().what.find(std::to_string(getpid())), std::string::npos)
        << second.error().what;
  }
  EXPECT_EQ(DirectoryStore::create(folder, options_).error().code, Code::kExists);
  DirectoryOptions reading = options_;
  reading.store.read_only = true;
  auto one = DirectoryStore::open(folder, reading);
  auto two = DirectoryStore::open(folder, reading);
  ASSERT_TRUE(one && two);
  EXPECT_TRUE((*two)->stat(kOne).has_value());
  EXPECT_EQ((*two)->create_object(kTwo).error().code, Code::kReadOnly);
  EXPECT_EQ(DirectoryStore::open(folder, options_).error().code, Code::kInUse);
}

// Whoever wants it is told where its server is, as long as it is one.
TEST_F(DirectoryTest, ThatAServerHasSaysHowToReachIt) {
  const std::vector<std::string> folders{at("a"), at("b")};
  DirectoryOptions reading = options_;
  reading.store.read_only = true;
  const std::string hint =
      "in use by a server (process " + std::to_string(getpid()) + "): use --server [::1]:7471";
  {
    auto store = make(folders);
    ASSERT_TRUE(store.announce("[::1]:7471"));
    for (const DirectoryOptions& options : {options_, reading}) {
      const auto second = DirectoryStore::open(folders, options);
      ASSERT_FALSE(second);
      EXPECT_EQ(second.error().code, Code::kInUse);
      EXPECT_NE(second.error().what.find(hint), std::string::npos) << second.error().what;
    }
    // It has moved.
    ASSERT_TRUE(store.announce("node1:80"));
    EXPECT_NE(DirectoryStore::open(folders, options_).error().what.find("node1:80"),
              std::string::npos);
    for (const char* const bad : {"", "a b", "a\nb"}) EXPECT_FALSE(store.announce(bad)) << bad;
    EXPECT_FALSE(store.announce(std::string(301, 'a')));
    ASSERT_TRUE(store->close());
  }
  auto store = open(folders);
  const auto second = DirectoryStore::open(folders, reading);
  EXPECT_EQ(second.error().what.find("server"), std::string::npos) << second.error().what;
}

// A server that was killed leaves its address; those that read the store then are no server.
TEST_F(DirectoryTest, ThatAServerHadSaysNothingAboutIt) {
  const std::vector<std::string> folder{at("a")};
  { auto store = make(folder); }
  DirectoryOptions reading = options_;
  reading.store.read_only = true;
  const auto reader = DirectoryStore::open(folder, reading);
  ASSERT_TRUE(reader);
  std::ofstream(at("a") + "/lock") << getpid() << "\nserver 127.0.0.1:7471\n";
  const auto writer = DirectoryStore::open(folder, options_);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, Code::kInUse);
  EXPECT_EQ(writer.error().what.find("server"), std::string::npos) << writer.error().what;
}

TEST_F(DirectoryTest, LiesInSeveralFoldersNamedInAnyOrder) {
  const Bytes bytes = pattern(900'000, 1);
  {
    auto store = make({at("a"), at("b"), at("c")});
    ASSERT_TRUE(store->create_object(kOne) && store->write(kOne, 0, bytes));
    ASSERT_TRUE(store->close());
  }
  EXPECT_EQ(DirectoryStore::open({at("a"), at("b")}, options_).error().code, Code::kInvalid);
  EXPECT_EQ(DirectoryStore::open({at("a"), at("b"), at("b")}, options_).error().code,
            Code::kInvalid);
  auto store = open({at("c"), at("a"), at("b")});
  EXPECT_EQ(read(store.store(), kOne), bytes);
  EXPECT_EQ(store->info().media, 3u);
}

// Closing and opening write the second superblock last, and first: a wrong CRC in it may be the
// work of a crash.
TEST_F(DirectoryTest, ASuperblockThatACrashMayHaveLeftIsNotDamaged) {
  {
    auto store = make({at("a")});
    ASSERT_TRUE(store->create_object(kOne) && store->write(kOne, 0, pattern(1000, 1)));
    ASSERT_TRUE(store->close());
  }
  spoil(at("a/blocks.0of1.000"), 64 * kChunkBytes + 4095);
  const auto found = scrub({at("a")});
  ASSERT_TRUE(found.has_value()) << found.error().what;
  EXPECT_EQ(found->damaged, 0u);
  ASSERT_EQ(found->incomplete.size(), 1u);
  EXPECT_EQ(found->incomplete[0].chunk, 64u);
  OpenReport report;
  {
    auto opened = DirectoryStore::open({at("a")}, options_, &report);
    ASSERT_TRUE(opened.has_value()) << opened.error().what;
    EXPECT_TRUE(report.damage.empty() && !report.clean);
    EXPECT_EQ(report.incomplete.size(), 1u);
    EXPECT_EQ(read(opened->store(), kOne), pattern(1000, 1));
    ASSERT_TRUE(opened->store().close());
  }
  report = {};
  ASSERT_TRUE(DirectoryStore::open({at("a")}, options_, &report).has_value());
  EXPECT_TRUE(report.incomplete.empty() && report.clean);
}

TEST_F(DirectoryTest, TheOtherSuperblockServes) {
  for (const uint64_t spoilt : {uint64_t{10}, uint64_t{4095}, 64 * kChunkBytes + 3000}) {
    fs::remove_all(at("a"));
    {
      auto store = make({at("a")});
      ASSERT_TRUE(store->create_object(kOne) && store->write(kOne, 0, pattern(1000, 1)));
      ASSERT_TRUE(store->close());
    }
    spoil(at("a/blocks.0of1.000"), spoilt);
    auto found = scrub({at("a")});
    ASSERT_TRUE(found.has_value()) << found.error().what;
    EXPECT_EQ(found->damaged, 1u);
    OpenReport report;
    auto opened = DirectoryStore::open({at("a")}, options_, &report);
    ASSERT_TRUE(opened.has_value()) << opened.error().what;
    EXPECT_EQ(report.damage.size(), 1u);
    EXPECT_EQ(read(opened->store(), kOne), pattern(1000, 1));
    ASSERT_TRUE(opened->store().close());
    opened = fail(Error{});
    found = scrub({at("a")});
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->damaged, 0u) << "opening has mended it";
  }
}

TEST_F(DirectoryTest, ScrubsAStoreInUse) {
  auto store = make({at("a")});
  ASSERT_TRUE(store->create_object(kOne));
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(store->write(kOne, 0, pattern(300'000, i)));
    ASSERT_TRUE(store->flush());
    const auto found = scrub({at("a")});
    ASSERT_TRUE(found.has_value()) << found.error().what;
    EXPECT_EQ(found->damaged, 0u);
    EXPECT_EQ(found->chunks, 75u);
  }
}

TEST_F(DirectoryTest, SalvagesByTheLogOrWithoutIt) {
  const Bytes one = pattern(100'000, 1);
  const Bytes two = pattern(5'000, 2);
  for (const bool with_log : {true, false}) {
    fs::remove_all(at("a"));
    fs::remove_all(at("b"));
    uint64_t chunk = 0;
    {
      auto store = make({at("a")});
      ASSERT_TRUE(store->create_object(kOne, "one") && store->write(kOne, 0, pattern(100'000, 9)));
      ASSERT_TRUE(store->create_object(kTwo, "two") && store->write(kTwo, 0, two));
      ASSERT_TRUE(store->write(kOne, 0, one));
      ASSERT_TRUE(store->create_object({3, 3}, "gone") && store->remove({3, 3}));
      chunk = store->segments(kTwo, 0, 1)->front().chunk;
      ASSERT_TRUE(store->close());
    }
    const std::string file = at("a/blocks.0of1.000");
    spoil(file, chunk * kChunkBytes + 17);
    if (!with_log) {
      spoil(file, 5);
      spoil(file, 64 * kChunkBytes + 5);
      EXPECT_EQ(DirectoryStore::open({at("a")}, options_).error().code, Code::kDamaged);
    }
    const auto report = salvage({at("a")}, {at("b")});
    ASSERT_TRUE(report.has_value()) << report.error().what;
    EXPECT_EQ(report->by_log, with_log);
    EXPECT_EQ(report->objects, 2u);
    EXPECT_GE(report->bad_chunks, 1u);
    EXPECT_FALSE(report->guesses.empty());
    auto store = open({at("b")});
    EXPECT_EQ(read(store.store(), *store->find("one")), one);
    Bytes partly = two;
    std::fill_n(partly.begin(), kDataBytes, 0);
    EXPECT_EQ(read(store.store(), *store->find("two")), partly);
    EXPECT_FALSE(store->find("gone").has_value());
  }
}

// Of several folders one has lost its last file: what was elsewhere can be read as before.
TEST_F(DirectoryTest, IsReadWithoutAFileOfOneFolder) {
  const std::vector<std::string> folders{at("a"), at("b")};
  const Bytes one = pattern(100'000, 1);
  {
    auto store = make(folders);
    ASSERT_TRUE(store->create_object(kOne, "one") && store->write(kOne, 0, one));
    ASSERT_TRUE(store->create_object(kTwo) && store->write(kTwo, 0, pattern(5'000'000, 2)));
    ASSERT_TRUE(store->close());
  }
  ASSERT_TRUE(fs::remove(at("b/blocks.1of2.001")));
  EXPECT_EQ(DirectoryStore::open(folders, options_).error().code, Code::kDamaged);
  EXPECT_FALSE(fs::exists(at("b/blocks.1of2.001")));
  options_.store.read_only = true;
  {
    auto store = open(folders);
    EXPECT_EQ(read(store.store(), kOne), one);
    Bytes two(5'000'000);
    EXPECT_EQ(store->read(kTwo, 0, two).error().code, Code::kDamaged);
  }
  const auto found = scrub(folders);
  ASSERT_TRUE(found.has_value()) << found.error().what;
  EXPECT_GT(found->damaged, 0u);
  const auto report = salvage(folders, {at("new")});
  ASSERT_TRUE(report.has_value()) << report.error().what;
  EXPECT_TRUE(report->by_log);
  EXPECT_EQ(report->bad_chunks, found->damaged);
}

// One that is gone altogether is named all the same, and what was there is said to be lost.
TEST_F(DirectoryTest, IsSalvagedWithoutOneOfItsFolders) {
  const std::vector<std::string> folders{at("a"), at("b")};
  {
    auto store = make(folders);
    ASSERT_TRUE(store->create_object(kOne, "one") && store->write(kOne, 0, pattern(900'000, 1)));
    ASSERT_TRUE(store->create_object(kTwo, "empty") && store->close());
  }
  fs::remove_all(at("b"));
  const auto report = salvage(folders, {at("new")});
  ASSERT_TRUE(report.has_value()) << report.error().what;
  EXPECT_EQ(report->objects, 1u);
  const auto says = [&](const std::string& what) {
    return std::ranges::any_of(report->guesses,
                               [&](const std::string& guess) { return guess.contains(what); });
  };
  EXPECT_TRUE(says("no files in " + at("b")));
  EXPECT_TRUE(says("chunks were not found"));
  EXPECT_TRUE(says("'empty' is not in the new store"));
}

// What has lost its superblocks is not one that was being made, which may be made anew.
TEST_F(DirectoryTest, IsNotSalvagedIntoItself) {
  { auto store = make({at("a")}); }
  for (const char* to : {"a", "a/b", "a/../a/b/c"}) {
    EXPECT_EQ(salvage({at("a")}, {at(to)}).error().code, Code::kInvalid) << to;
  }
  EXPECT_TRUE(salvage({at("a")}, {at("ab")}).has_value());
}

TEST_F(DirectoryTest, IsNotMadeAnewOverWhatIsLeft) {
  enum class Loss : uint8_t { kSpoilt, kZeroed };
  for (const Loss loss : {Loss::kSpoilt, Loss::kZeroed}) {
    for (const bool two : {false, true}) {
      fs::remove_all(at("a"));
      fs::remove_all(at("b"));
      std::vector<std::string> folders{at("a")};
      std::vector<std::pair<std::string, uint64_t>> roots{{at("a/blocks.0of1.000"), 0},
                                                          {at("a/blocks.0of1.000"), 64}};
      if (two) {
        folders.push_back(at("b"));
        roots = {{at("a/blocks.0of2.000"), 0}, {at("b/blocks.1of2.000"), 0}};
      }
      {
        auto store = make(folders);
        ASSERT_TRUE(store->create_object(kOne) && store->write(kOne, 0, pattern(10'000, 1)));
        ASSERT_TRUE(store->close());
      }
      for (const auto& [path, chunk] : roots) {
        if (loss == Loss::kSpoilt) {
          spoil(path, chunk * kChunkBytes + 5);
        } else {
          std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
          file.seekp(static_cast<std::streamoff>(chunk * kChunkBytes));
          file << std::string(kChunkBytes, '\0');
        }
      }
      for (int turn = 0; turn < 2; ++turn) {
        EXPECT_FALSE(unfinished(folders));
        EXPECT_EQ(DirectoryStore::create(folders, options_).error().code, Code::kExists);
        std::ranges::reverse(folders);  // they may be named in any order
      }
    }
  }
}

TEST_F(DirectoryTest, IsNotMadeAnewWhereItsFirstFileIsLost) {
  {
    auto store = make({at("a")});
    for (uint64_t i = 0; fs::exists(at("a/blocks.0of1.001")) == false; ++i) {
      ASSERT_TRUE(store->create_object({2, i}) && store->write({2, i}, 0, pattern(100'000, i)));
    }
  }
  fs::remove(at("a/blocks.0of1.000"));
  EXPECT_FALSE(unfinished({at("a")}));
}

// Who puts an object writes it under another number first, which is gone then.
TEST_F(DirectoryTest, SalvagesWithoutLogWhatWasWrittenAsAnothers) {
  const Bytes one = pattern(100'000, 1);
  const Bytes two = pattern(50'000, 2);
  for (const bool checkpoint : {false, true}) {
    fs::remove_all(at("a"));
    fs::remove_all(at("b"));
    {
      auto store = make({at("a")});
      const ObjectId draft{9, 9};
      ASSERT_TRUE(store->create_object(draft) && store->write(draft, 0, one));
      ASSERT_TRUE(store->clone({.from = draft, .to = kOne, .to_name = "one"}));
      ASSERT_TRUE(store->remove(draft));
      // And one that was replaced, by what is shorter.
      ASSERT_TRUE(store->create_object(kTwo, "two") && store->write(kTwo, 0, one));
      ASSERT_TRUE(store->create_object(draft) && store->write(draft, 0, two));
      ASSERT_TRUE(store->replace(kTwo, draft));
      ASSERT_TRUE(store->close());
    }
    if (checkpoint) {
      auto store = open({at("a")});
      ASSERT_TRUE(store->checkpoint() && store->close());
    }
    spoil(at("a/blocks.0of1.000"), 5);
    spoil(at("a/blocks.0of1.000"), 64 * kChunkBytes + 5);
    const auto report = salvage({at("a")}, {at("b")});
    ASSERT_TRUE(report.has_value()) << report.error().what;
    EXPECT_FALSE(report->by_log);
    EXPECT_EQ(report->objects, 2u);
    auto store = open({at("b")});
    ASSERT_TRUE(store->find("one") && store->find("two"));
    EXPECT_EQ(read(store.store(), *store->find("one")), one);
    EXPECT_EQ(read(store.store(), *store->find("two")), two);
  }
}

// Who writes while it is verified may be gone when something looks wrong.
TEST_F(DirectoryTest, IsVerifiedWhileOthersWriteAndAreGone) {
  {
    auto store = make({at("a")});
    ASSERT_TRUE(store->create_object(kOne) && store->write(kOne, 0, pattern(100'000, 1)));
  }
  int writers = 0;
  const auto report = scrub({at("a")}, [&](uint64_t, uint64_t) {
    if (writers < 4) {
      auto store = open({at("a")});
      EXPECT_TRUE(store->write(kOne, 0, pattern(100'000, 2)));
      ++writers;
    }
    return true;
  });
  ASSERT_TRUE(report.has_value()) << report.error().what;
  EXPECT_EQ(report->damaged, 0u) << report->damage.front().field;
  EXPECT_GT(writers, 0);
}

// Small writes make whole chunks, which are what opening after a crash has to verify.
TEST_F(DirectoryTest, VerifiesNoMoreAfterACrashThanIsPromised) {
  options_.store.flush_bytes = 16 * kDataBytes;
  const pid_t writer = fork();
  if (writer == 0) {
    auto store = DirectoryStore::create({at("a")}, options_);
    bool done = store && (*store)->create_object(kOne);
    for (uint64_t i = 0; done && i < 500; ++i) {
      done = (*store)->write(kOne, i * kDataBytes, pattern(1, i)).has_value();
    }
    _exit(done ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(writer, &status, 0), writer);
  ASSERT_EQ(status, 0);
  OpenReport report;
  ASSERT_TRUE(DirectoryStore::open({at("a")}, options_, &report));
  EXPECT_LE(report.verified_chunks, 2 * 16U);
}

TEST_F(DirectoryTest, DoesNotGrowForWhatCannotFit) {
  auto store = make({at("a")});
  ASSERT_TRUE(store->create_object(kOne));
  const auto size = [&] {
    uintmax_t sum = 0;
    for (const auto& entry : fs::directory_iterator(at("a"))) sum += entry.file_size();
    return sum;
  };
  const auto before = size();
  const auto refused = store->prepare_write(kOne, 0, uint64_t{1} << 40);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kFull);
  EXPECT_EQ(size(), before);
}

TEST_F(DirectoryTest, RefusesAFormatItDoesNotKnow) {
  { auto store = make({at("a")}); }
  for (const uint64_t block : {0, 64}) {
    std::fstream file(at("a/blocks.0of1.000"), std::ios::in | std::ios::out | std::ios::binary);
    std::array<char, kChunkBytes> bytes{};
    file.seekg(static_cast<std::streamoff>(block * kChunkBytes));
    file.read(bytes.data(), bytes.size());
    auto* const chunk = reinterpret_cast<uint8_t*>(bytes.data());
    chunk[17] = 99;  // of the version behind the magic
    seal(chunk, head_of(chunk), crc_of({chunk, kDataBytes}));
    file.seekp(static_cast<std::streamoff>(block * kChunkBytes));
    file.write(bytes.data(), bytes.size());
  }
  const auto opened = DirectoryStore::open({at("a")}, options_);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, Code::kVersion) << opened.error().what;
}

}  // namespace
}  // namespace verbena::store
