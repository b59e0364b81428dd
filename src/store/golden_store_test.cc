// SPDX-License-Identifier: Apache-2.0
// A whole store of version 3, made when the format was, is opened by every later program: its
// objects are what they were, and it can be written to. tests/golden/store/v3/whole-store.chunks
// has its chunks that are not zeros, each behind its number (u64, big-endian). Run from the
// repository's root.
#include <algorithm>
#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include "base/endian.h"
#include "store/memory_medium.h"
#include "store/store.h"

namespace verbena::store {
namespace {

constexpr const char* kFile = "tests/golden/store/v3/whole-store.chunks";
constexpr uint32_t kGoldenPerBlock = 16;
constexpr uint32_t kBlocks = 8;
constexpr uint64_t kBorn = 1'700'000'000'000'000'000;  // 14 November 2023, 22:13:20

struct Content {
  std::string name;
  std::vector<uint8_t> bytes;
};
using Contents = std::map<ObjectId, Content>;

std::vector<uint8_t> golden_bytes(size_t length, uint8_t seed) {
  std::vector<uint8_t> bytes(length);
  for (size_t i = 0; i < length; ++i) {
    bytes[i] = static_cast<uint8_t>(seed * 131 + i + (i >> 8) * 7);
  }
  return bytes;
}

void put_at(std::vector<uint8_t>& bytes, size_t offset, const std::vector<uint8_t>& part) {
  if (bytes.size() < offset + part.size()) bytes.resize(offset + part.size());
  std::ranges::copy(part, bytes.begin() + static_cast<ptrdiff_t>(offset));
}

// What is in it, said without the store.
Contents expected() {
  Contents all;
  all[{0, 1}] = {"first", golden_bytes(3 * kDataBytes + 100, 1)};
  all[{0, 2}] = {"", golden_bytes(10, 2)};
  all[{7, 3}] = {"clone of the first", all[{0, 1}].bytes};
  put_at(all[{7, 3}].bytes, kDataBytes + 10, golden_bytes(20, 3));  // one chunk is its own
  all[{0, 4}] = {"sparse, renamed \xc3\xbc", {}};
  put_at(all[{0, 4}].bytes, 9 * kDataBytes + 5, golden_bytes(kDataBytes, 4));
  all[{0, 5}] = {"cut", golden_bytes(kDataBytes + 1, 5)};
  all[{0, 8}] = {"empty", {}};
  put_at(all[{0, 9}].bytes, 0, golden_bytes(2 * kDataBytes, 9));  // behind the checkpoint
  all[{0, 9}].name = "late";
  all[{0, 10}] = {"part of the late", golden_bytes(2 * kDataBytes, 9)};
  all[{0, 10}].bytes.erase(all[{0, 10}].bytes.begin(), all[{0, 10}].bytes.begin() + kDataBytes);
  return all;
}

Options options(bool read_only) {
  Options options;
  options.read_only = read_only;
  options.now_ns = [now = kBorn]() mutable { return now += 1'000'000'000; };
  return options;
}

void clone(Store& store, ObjectId from, ObjectId to, uint64_t offset, std::string_view name) {
  CloneRequest request;
  request.from = from;
  request.to = to;
  request.from_offset = offset;
  request.to_name = name;
  ASSERT_TRUE(store.clone(request));
}

// The history that the file came from.
void live(MemoryMedium& medium) {
  SeededRandom random(2023);
  auto made = Store::create(medium.open(), options(false), random);
  ASSERT_TRUE(made);
  Store& store = **made;
  for (const uint64_t i : {1, 2, 4, 5, 6, 8}) ASSERT_TRUE(store.create_object({0, i}));
  ASSERT_TRUE(store.rename({0, 1}, "first") && store.rename({0, 5}, "cut") &&
              store.rename({0, 8}, "empty") && store.rename({0, 4}, "sparse"));
  ASSERT_TRUE(store.write({0, 1}, 0, golden_bytes(3 * kDataBytes + 100, 1)));
  ASSERT_TRUE(store.write({0, 2}, 0, golden_bytes(10, 2)));
  ASSERT_TRUE(store.write({0, 4}, 9 * kDataBytes + 5, golden_bytes(kDataBytes, 4)));
  ASSERT_TRUE(store.write({0, 5}, 0, golden_bytes(3 * kDataBytes, 5)));
  ASSERT_TRUE(store.write({0, 6}, 0, golden_bytes(100, 6)));
  clone(store, {0, 1}, {7, 3}, 0, "clone of the first");
  ASSERT_TRUE(store.checkpoint());
  ASSERT_TRUE(store.write({7, 3}, kDataBytes + 10, golden_bytes(20, 3)) && store.flush());
  ASSERT_TRUE(store.truncate({0, 5}, kDataBytes + 1) && store.flush());
  ASSERT_TRUE(store.remove({0, 6}));
  ASSERT_TRUE(store.rename({0, 4}, "sparse, renamed \xc3\xbc"));
  ASSERT_TRUE(store.create_object({0, 9}, "late"));
  ASSERT_TRUE(store.write({0, 9}, 0, golden_bytes(2 * kDataBytes, 9)) && store.flush());
  clone(store, {0, 9}, {0, 10}, kDataBytes, "part of the late");
  ASSERT_TRUE(store.close());
}

void read_file(MemoryMedium& medium) {
  std::ifstream file(kFile, std::ios::binary);
  ASSERT_TRUE(file) << "run from the repository's root";
  std::array<char, 8 + kChunkBytes> entry{};
  while (file.read(entry.data(), entry.size())) {
    const uint64_t number = load_be64(reinterpret_cast<const uint8_t*>(entry.data()));
    ASSERT_LT(number, kGoldenPerBlock * kBlocks);
    std::memcpy(medium.chunk(number).data(), entry.data() + 8, kChunkBytes);
  }
  EXPECT_EQ(file.gcount(), 0);
  medium.existing = kBlocks;
}

void expect_contents(Store& store, const Contents& contents) {
  EXPECT_EQ(store.list(std::nullopt, 100)->size(), contents.size());
  for (const auto& [id, content] : contents) {
    SCOPED_TRACE(text_of(id));
    const auto info = store.stat(id);
    ASSERT_TRUE(info);
    EXPECT_EQ(info->name, content.name);
    std::vector<uint8_t> bytes(content.bytes.size() + 1);
    const auto got = store.read(id, 0, bytes);
    ASSERT_TRUE(got) << got.error().what;
    bytes.resize(*got);
    EXPECT_TRUE(bytes == content.bytes);
  }
  const auto scrubbed = store.scrub();
  ASSERT_TRUE(scrubbed);
  EXPECT_EQ(scrubbed->damaged, 0);
  EXPECT_GT(scrubbed->log_chunks, 10u);
}

TEST(GoldenWholeStore, IsReadAndWrittenTo) {
  MemoryMedium medium(kGoldenPerBlock, kBlocks);
  ASSERT_NO_FATAL_FAILURE(read_file(medium));
  Contents contents = expected();
  {
    OpenReport report;
    const auto store = Store::open(medium.open(), options(true), &report);
    ASSERT_TRUE(store) << store.error().what;
    EXPECT_TRUE(report.clean && report.damage.empty());
    EXPECT_EQ(report.verified_chunks, 0u);
    const StoreInfo info = (*store)->info();
    EXPECT_EQ(info.tag, 0xe3a76e7du);
    EXPECT_EQ(info.epoch, 1u);
    EXPECT_EQ(info.created_ns, kBorn + 1'000'000'000);
    EXPECT_EQ((*store)->stat({0, 1})->created_ns, kBorn + 2'000'000'000);
    expect_contents(**store, contents);
  }
  {
    const auto store = Store::open(medium.open(), options(false));
    ASSERT_TRUE(store) << store.error().what;
    ASSERT_TRUE((*store)->write({0, 8}, 0, golden_bytes(5000, 8)) && (*store)->remove({0, 2}));
    put_at(contents[{0, 8}].bytes, 0, golden_bytes(5000, 8));
    contents.erase({0, 2});
    ASSERT_TRUE((*store)->close());
  }
  const auto store = Store::open(medium.open(), options(true));
  ASSERT_TRUE(store) << store.error().what;
  expect_contents(**store, contents);
}

// The same history now: what it says is in it, is.
TEST(GoldenWholeStore, IsMadeAgain) {
  MemoryMedium medium(kGoldenPerBlock, kBlocks);
  ASSERT_NO_FATAL_FAILURE(live(medium));
  const auto store = Store::open(medium.open(), options(true));
  ASSERT_TRUE(store);
  expect_contents(**store, expected());
}

// Writes the file of a new version; not for one that there is.
TEST(GoldenWholeStore, DISABLED_Write) {
  MemoryMedium medium(kGoldenPerBlock, kBlocks);
  ASSERT_NO_FATAL_FAILURE(live(medium));
  std::ofstream file(kFile, std::ios::binary);
  for (uint64_t number = 0; number < kGoldenPerBlock * kBlocks; ++number) {
    const auto chunk = medium.chunk(number);
    if (std::ranges::all_of(chunk, [](uint8_t byte) { return byte == 0; })) continue;
    std::array<uint8_t, 8> where{};
    store_be64(where.data(), number);
    file.write(reinterpret_cast<const char*>(where.data()), where.size());
    file.write(reinterpret_cast<const char*>(chunk.data()), chunk.size());
  }
  ASSERT_TRUE(file.flush());
}

}  // namespace
}  // namespace verbena::store
