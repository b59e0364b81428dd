// SPDX-License-Identifier: Apache-2.0
// Salvage of a store whose index or log has lost chunks in both copies, against a model: what the
// damage does not touch is as it was, and all else is named.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "store/directory.h"
#include "store/store_testing.h"
#include "store/superblock.h"
#include "store/table.h"

namespace verbena::store {
namespace {

class SalvageIndex : public ::testing::Test {
 protected:
  static constexpr uint32_t kPer = 64;
  static constexpr uint64_t kCount = 160;

  void SetUp() override {
    std::string name = ::testing::TempDir() + "verbena-salvage-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    make();
    root_ = *decode_superblock(chunk(0));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string old() const { return folder_ + "/old"; }

  struct Known {
    std::string name;
    Bytes bytes;
    bool operator==(const Known&) const = default;
  };
  using Model = std::map<ObjectId, Known>;

  // Several tables and a log, with objects in the index, in chunks, and in chunks of others.
  void make() {
    DirectoryOptions options;
    options.chunks_per_block = kPer;
    auto made = DirectoryStore::create({old()}, options);
    ASSERT_TRUE(made) << made.error().what;
    Store& store = made->store();
    for (uint64_t i = 1; i <= kCount; ++i) put(store, i);
    checkpoint(store);
    change(store, 40);
    checkpoint(store);
    change(store, 12);
    checkpoint(store);
    change(store, 6);
    ASSERT_TRUE(store.flush());
    change(store, 2);
    // A longer log would become a table.
    ASSERT_TRUE(store.close());
  }
  static void checkpoint(Store& store) { ASSERT_TRUE(store.checkpoint()); }

  void put(Store& store, uint64_t i) {
    const ObjectId id{i * 7919 % 1000, i};
    if (!model_.contains(id)) {
      const std::string name = i % 5 == 0 ? "" : "object " + std::to_string(i);
      ASSERT_TRUE(store.create_object(id, name));
      model_[id].name = name;
      numbers_[store.stat(id)->number] = id;
    }
    constexpr std::array<size_t, 4> kSizes{300, 900, 3 * kDataBytes, 40};
    Known& known = model_[id];
    const Bytes bytes = pattern(kSizes[random_.below(4)], random_.next());
    ASSERT_TRUE(store.write(id, 0, bytes));
    known.bytes.resize(std::max(known.bytes.size(), bytes.size()));
    std::ranges::copy(bytes, known.bytes.begin());
  }
  // So many times: writes, removals, a new name, a clone, new objects.
  void change(Store& store, size_t times) {
    const auto any = [&] {
      return std::next(model_.begin(), static_cast<ptrdiff_t>(random_.below(model_.size())));
    };
    for (size_t i = 0; i < times; ++i) {
      put(store, any()->first.low);
      const ObjectId gone = any()->first;
      ASSERT_TRUE(store.remove(gone));
      model_.erase(gone);
      const auto renamed = any();
      renamed->second.name = "renamed " + std::to_string(next_);
      ASSERT_TRUE(store.rename(renamed->first, renamed->second.name));
      const auto from = any();
      const ObjectId to{2, next_++};
      ASSERT_TRUE(store.clone({.from = from->first, .to = to}));
      numbers_[store.stat(to)->number] = to;
      model_[to] = {"", from->second.bytes};
      cloned_[to] = from->first;
      put(store, kCount + next_++);
    }
  }

  [[nodiscard]] std::string file() const { return old() + "/blocks.0of1.000"; }
  [[nodiscard]] std::array<uint8_t, kChunkBytes> chunk(uint64_t number) const {
    std::array<uint8_t, kChunkBytes> bytes{};
    std::ifstream in(file(), std::ios::binary);
    in.seekg(static_cast<std::streamoff>(number * kChunkBytes));
    in.read(reinterpret_cast<char*>(bytes.data()), bytes.size());
    EXPECT_TRUE(in) << "chunk " << number << " is not in the first file";
    return bytes;
  }
  void flip(uint64_t number) const {
    auto bytes = chunk(number);
    std::fstream out(file(), std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(static_cast<std::streamoff>(number * kChunkBytes + 100));
    out.put(static_cast<char>(bytes[100] ^ 1));
    ASSERT_TRUE(out);
  }

  struct Place {
    uint64_t a = 0;
    uint64_t b = 0;
  };
  // Of all chunks of these extents that are there.
  [[nodiscard]] std::vector<Place> places(const std::vector<Extent>& extents, bool log) const {
    std::vector<Place> all;
    for (const Extent& extent : extents) {
      for (uint32_t i = 0; i < extent.count; ++i) {
        if (log && extent.sequence + i >= root_.end) break;
        all.push_back({uint64_t{extent.block_a} * kPer + extent.first + i,
                       uint64_t{extent.block_b} * kPer + extent.first + i});
      }
    }
    return all;
  }

  // Objects that the records of a chunk are about.
  [[nodiscard]] std::set<ObjectId> objects_in(uint64_t number) const {
    std::set<ObjectId> ids;
    const auto bytes = chunk(number);
    RecordReader reader({bytes.data(), head_of(bytes.data()).length});
    const auto add = [&](uint64_t one) {
      ids.insert({0, one});  // its new id, if its own is lost
      if (const auto found = numbers_.find(one); found != numbers_.end()) ids.insert(found->second);
    };
    while (!reader.done()) {
      const auto record = reader.next();
      if (!record) break;
      std::visit(
          [&](const auto& one) {
            if constexpr (requires { one.number; }) add(one.number);
            if constexpr (requires { one.to; }) add(one.to);
          },
          *record);
    }
    return ids;
  }

  // What salvage makes of the store without these chunks.
  void check(const std::vector<Place>& lost) {
    std::set<ObjectId> touched;
    for (const Place& place : lost) {
      touched.merge(objects_in(place.a));
      flip(place.a);
      flip(place.b);
    }
    for (const auto& [clone, from] : cloned_) {  // in order
      if (touched.contains(from)) touched.insert(clone);
    }
    const std::string to = folder_ + "/new";
    const auto report = salvage({old()}, {to});
    ASSERT_TRUE(report) << report.error().what;
    EXPECT_TRUE(report->by_part || report->by_log);
    // What a part of the log was about nobody knows; that it is lost is said.
    const auto is_named = [&](ObjectId id) {
      return std::ranges::any_of(report->guesses, [&](const std::string& guess) {
        return guess.contains("object " + text_of(id)) || guess.contains(" of the log, from chunk");
      });
    };
    DirectoryOptions options;
    options.store.read_only = true;
    auto opened = DirectoryStore::open({to}, options);
    ASSERT_TRUE(opened) << opened.error().what;
    const auto listed = opened->store().list(std::nullopt, 10'000);
    ASSERT_TRUE(listed);
    std::set<ObjectId> there;
    for (const ObjectInfo& object : *listed) {
      there.insert(object.id);
      Known found{object.name, Bytes(object.size)};
      EXPECT_TRUE(opened->store().read(object.id, 0, found.bytes));
      const auto expected = model_.find(object.id);
      if (expected != model_.end() && found == expected->second) continue;
      const char* const what = expected == model_.end() ? " returned" : " is not what it was";
      EXPECT_TRUE(touched.contains(object.id)) << text_of(object.id) << what;
      EXPECT_TRUE(is_named(object.id)) << text_of(object.id) << what;
    }
    for (const auto& [id, known] : model_) {
      if (there.contains(id)) continue;
      EXPECT_TRUE(touched.contains(id)) << text_of(id) << " is missing";
      EXPECT_TRUE(is_named(id)) << text_of(id) << " is missing";
    }
    for (const Place& place : lost) {
      flip(place.a);
      flip(place.b);
    }
    opened = fail(Error{});
    std::filesystem::remove_all(to);
  }

  std::string folder_;
  SeededRandom random_{11};
  Superblock root_;
  Model model_;
  std::map<uint64_t, ObjectId> numbers_;  // of all that ever were
  std::map<ObjectId, ObjectId> cloned_;   // from
  uint64_t next_ = 1;
};

TEST_F(SalvageIndex, NothingIsLost) { check({}); }

TEST_F(SalvageIndex, OneChunkOfATable) {
  const auto all = places(root_.checkpoint, false);
  ASSERT_GT(all.size(), 15u);
  const auto starts = std::ranges::count_if(
      root_.checkpoint, [](const Extent& e) { return number_in_table(e.sequence) == 0; });
  ASSERT_GT(starts, 1) << "one table";
  for (const Place& place : all) {
    SCOPED_TRACE("chunk " + std::to_string(place.a) + " of table " +
                 std::to_string(table_serial(head_of(chunk(place.a).data()).birth.index)));
    check({place});
  }
}

TEST_F(SalvageIndex, AChunkOfTheLog) {
  const auto all = places(root_.log, true);
  ASSERT_GT(all.size(), 1u);
  for (const Place& place : all) {
    SCOPED_TRACE("chunk " + std::to_string(place.a));
    check({place});
  }
}

TEST_F(SalvageIndex, SeveralChunks) {
  const auto all = places(root_.checkpoint, false);
  for (int i = 0; i < 8; ++i) {
    std::vector<Place> some = all;
    for (size_t k = some.size(); k-- > 1;) std::swap(some[k], some[random_.below(k + 1)]);
    some.resize(2 + random_.below(4));
    check(some);
  }
}

}  // namespace
}  // namespace verbena::store
