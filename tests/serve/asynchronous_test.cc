// SPDX-License-Identifier: Apache-2.0
// Requests of a client that nobody waits for, and what is made of several of them: transfers in
// parts, whole objects, long lists.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/block_sums.h"
#include "client/client.h"
#include "client/listing.h"
#include "client/parts.h"
#include "client/whole.h"
#include "served_store.h"

namespace verbena::client {
namespace {

using Bytes = std::vector<uint8_t>;

uint32_t sum_of(std::span<const uint8_t> bytes) {
  return crc32_finish(crc32_msb_update(kCrc32Start, bytes));
}

// Keeps a result for the thread that waits for it.
template <typename T>
class Kept {
 public:
  [[nodiscard]] Then<T> keep() {
    return [this](Result<T> result) { told_.set_value(std::move(result)); };
  }
  [[nodiscard]] Result<T> get() { return told_.get_future().get(); }

 private:
  std::promise<Result<T>> told_;
};
template <typename T, typename Begin>
Result<T> without_waiting(Begin begin) {
  Kept<T> kept;
  begin(kept.keep());
  return kept.get();
}

TEST(ClientAsynchronous, EveryRequest) {
  const ServedStore served;
  const auto client = served.connect();
  ASSERT_TRUE(client);
  Client& c = *client;
  const Bytes data = random_bytes(5000, 1);
  EXPECT_TRUE(without_waiting<void>([&](const auto& done) { c.ping_async(data, done); }));
  const ObjectId id{1, 2};
  EXPECT_EQ(without_waiting<ObjectId>([&](const auto& done) { c.create_async("a", id, done); }),
            id);
  const auto again =
      without_waiting<ObjectId>([&](const auto& done) { c.create_async("a", {}, done); });
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().status, protocol::Status::kExists);
  const auto a = ObjectRef::by("a");
  const auto b = ObjectRef::by("b");
  ASSERT_TRUE(c.write(a, 0, data));
  EXPECT_TRUE(without_waiting<void>([&](const auto& done) { c.flush_async(a, 100, 10, done); }));
  EXPECT_TRUE(without_waiting<void>([&](const auto& done) { c.flush_async({}, 0, 0, done); }));
  EXPECT_TRUE(without_waiting<ObjectId>([&](const auto& done) { c.clone_async(a, b, {}, done); }));
  const auto crc =
      without_waiting<StoredCrc>([&](const auto& done) { c.stored_crc_async(b, 0, 0, done); });
  ASSERT_TRUE(crc);
  EXPECT_EQ(crc->crc, sum_of(data));
  EXPECT_TRUE(without_waiting<void>([&](const auto& done) { c.truncate_async(b, 10, done); }));
  EXPECT_TRUE(without_waiting<void>([&](const auto& done) { c.rename_async(b, "bb", done); }));
  const auto info = without_waiting<ObjectInfo>(
      [&](const auto& done) { c.stat_async(ObjectRef::by("bb"), done); });
  ASSERT_TRUE(info);
  EXPECT_EQ(info->size, 10U);
  const auto page =
      without_waiting<Page>([&](const auto& done) { c.list_async(nullptr, 1, done); });
  ASSERT_TRUE(page);
  EXPECT_EQ(page->objects.size(), 1U);
  EXPECT_TRUE(page->more);
  const auto range = without_waiting<uint64_t>([&](const auto& done) {
    c.register_range_async(a, 0, 0, protocol::RangeAccess::kRead, done);
  });
  ASSERT_TRUE(range);
  EXPECT_TRUE(
      without_waiting<void>([&](const auto& done) { c.unregister_range_async(*range, done); }));
  EXPECT_TRUE(without_waiting<void>(
      [&](const auto& done) { c.replace_async(ObjectRef::by("bb"), a, done); }));
  EXPECT_TRUE(
      without_waiting<void>([&](const auto& done) { c.remove_async(ObjectRef::by("bb"), done); }));
  EXPECT_TRUE(c.list(nullptr)->objects.empty());
}

TEST(ClientAsynchronous, RangesAreFlushed) {
  const ServedStore served;
  const auto client = served.connect();
  ASSERT_TRUE(client);
  ASSERT_TRUE(client->create("a"));
  EXPECT_TRUE(client->flush(ObjectRef::by("a"), 0, 100));
  EXPECT_EQ(client->flush(ObjectRef::by("b"), 0, 100).error().status, protocol::Status::kNotFound);
}

TEST(ClientAsynchronous, PassiveOrNot) {
  const ServedStore served;
  const auto client = served.connect();
  ASSERT_TRUE(client);
  EXPECT_TRUE(client->provider().starts_with("verbs, "));
  for (const bool passive : {true, false, true}) {
    client->set_passive_wait(passive);
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(client->ping());
  }
}

TEST(ClientParts, ByNameAndById) {
  const ServedStore served;
  const auto client = served.connect();
  ASSERT_TRUE(client);
  const auto id = client->create("a");
  ASSERT_TRUE(id);
  const Bytes data = random_bytes((5U << 20) + 17, 1);
  for (const ObjectRef& object : {ObjectRef::by("a"), ObjectRef::by(*id)}) {
    for (const uint64_t whole : {kPartBytes, uint64_t{16} << 20}) {
      const auto written = write_parts(*client, object, 3, data, {.crc = sum_of(data)}, whole);
      ASSERT_TRUE(written) << written.error().what;
      EXPECT_EQ(written->bytes, data.size());
      EXPECT_EQ(written->crc, sum_of(data));
      EXPECT_EQ(written->object, *id);
      // It ends within the second part, on a boundary of parts, and behind the end.
      for (const uint64_t end :
           {(1UL << 20) + 5, 2UL << 20, data.size(), data.size() + 5'000'000}) {
        Bytes back(end);
        const auto read = read_parts(*client, object, 3, back, {}, whole);
        ASSERT_TRUE(read) << read.error().what;
        const size_t there = std::min<size_t>(end, data.size());
        EXPECT_EQ(read->bytes, there);
        EXPECT_EQ(read->crc, sum_of(std::span(data).first(there)));
        EXPECT_TRUE(std::ranges::equal(std::span(back).first(there), std::span(data).first(there)));
      }
    }
  }
  Bytes none;
  EXPECT_EQ(read_parts(*client, ObjectRef::by("a"), 0, none, {}, kPartBytes)->bytes, 0U);
  Bytes back(3U << 20);
  EXPECT_EQ(read_parts(*client, ObjectRef::by("b"), 0, back, {}, kPartBytes).error().status,
            protocol::Status::kNotFound);
}

TEST(ClientParts, OtherDataIsNotWritten) {
  const ServedStore served;
  const auto client = served.connect();
  ASSERT_TRUE(client);
  ASSERT_TRUE(client->create("a"));
  const Bytes data = random_bytes(3U << 20, 1);
  const auto written =
      write_parts(*client, ObjectRef::by("a"), 0, data, {.crc = sum_of(data) + 1}, kPartBytes);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kCorrupted);
  EXPECT_EQ(client->stat(ObjectRef::by("a"))->size, 0U);
}

TEST(ClientWhole, PutAndGet) {
  const ServedStore served;
  const auto client = served.connect();
  ASSERT_TRUE(client);
  const auto a = ObjectRef::by("a");
  for (const size_t size : {0UL, 100UL, 2'000'000UL, (16UL << 20) + 1}) {
    const Bytes data = random_bytes(size, size);
    const auto put = put_whole(*client, a, data, {.durable = true, .crc = sum_of(data)});
    ASSERT_TRUE(put) << put.error().what;
    EXPECT_EQ(put->object, client->stat(a)->id);
    const auto got = get_whole(*client, a);
    ASSERT_TRUE(got) << got.error().what;
    EXPECT_EQ(got->transferred.crc, sum_of(data));
    EXPECT_TRUE(std::ranges::equal(
        std::span<const uint8_t>(got->memory.get(), got->transferred.bytes), data));
  }
  EXPECT_EQ(put_whole(*client, a, {}, {.only_new = true}).error().status,
            protocol::Status::kExists);
  const Bytes other = random_bytes(100, 9);
  for (const size_t size : {100UL, 17UL << 20}) {
    const Bytes data = random_bytes(size, size);
    EXPECT_FALSE(put_whole(*client, a, data, {.crc = sum_of(other)}));
  }
  // No draft is left.
  EXPECT_EQ(client->list(nullptr)->objects.size(), 1U);
}

// Two that make and remove it at the same time: each has its way.
TEST(ClientWhole, OthersMayBeFaster) {
  const ServedStore served;
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (uint8_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      const auto client = served.connect();
      for (int i = 0; i < 50; ++i) {
        const auto put = put_whole(*client, ObjectRef::by("a"), Bytes(50, t), {});
        if (!put) {
          ++failures;
          ADD_FAILURE() << put.error().what;
        }
        if (t == 0) static_cast<void>(client->remove(ObjectRef::by("a")));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

TEST(ClientListing, PrefixesAndDrafts) {
  const ServedStore served;
  const auto client = served.connect();
  ASSERT_TRUE(client);
  for (const char* const name : {"a", "ab", "abc", "b", "ba"}) ASSERT_TRUE(client->create(name));
  ASSERT_TRUE(client->create("", ObjectId{UINT64_MAX, 1}));
  const auto count = [&](const ListOptions& options) {
    const auto page = list_objects(*client, options);
    EXPECT_TRUE(page);
    return page ? page->objects.size() : 0;
  };
  EXPECT_EQ(count({}), 5U);
  EXPECT_EQ(count({.prefix = "a"}), 3U);
  EXPECT_EQ(count({.prefix = "ab", .limit = 1}), 1U);
  EXPECT_EQ(count({.prefix = "c"}), 0U);
  const auto first = list_objects(*client, {.limit = 2});
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->more);
  EXPECT_EQ(count({.after = first->objects.back()}), 3U);
  EXPECT_EQ(count({.prefix = "b", .after = first->objects.back()}), 2U);
}

}  // namespace
}  // namespace verbena::client
