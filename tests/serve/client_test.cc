// SPDX-License-Identifier: Apache-2.0
// A client and a server in one process, on the built-in device.
#include "client/client.h"

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/block_sums.h"
#include "base/random.h"
#include "client/remote_objects.h"
#include "medium/testing.h"
#include "served_store.h"
#include "store/crc_parts.h"

namespace verbena::client {
namespace {

using Bytes = std::vector<uint8_t>;

TEST(Client, Pings) {
  const ServedStore served;
  const auto client = served.connect();
  ASSERT_TRUE(client);
  const Bytes data = random_bytes(1000, 1);
  for (int i = 0; i < 100; ++i) {
    const auto answered = client->ping(data);
    ASSERT_TRUE(answered) << answered.error().what;
  }
}

uint32_t crc_of(std::span<const uint8_t> bytes) {
  return crc32_finish(crc32_msb_update(kCrc32Start, bytes));
}

TEST(Client, ReadsWhatItWrote) {
  const ServedStore served;
  const auto client = served.connect();
  ASSERT_TRUE(client);
  for (const size_t size : {0UL, 1UL, 512UL, 4047UL, 4048UL, 4049UL, 32768UL, 32769UL, 1UL << 20}) {
    for (const uint64_t offset : {0UL, 1UL, 4047UL, 100'000UL}) {
      SCOPED_TRACE(testing::Message() << size << " bytes at " << offset);
      const auto object = client->create("");
      ASSERT_TRUE(object) << object.error().what;
      const Bytes data = random_bytes(size, size + offset);
      const auto written = client->write(ObjectRef::by(*object), offset, data);
      ASSERT_TRUE(written) << written.error().what;
      EXPECT_EQ(written->bytes, size);
      Bytes back(size + offset + 100, 0xaa);
      const auto read = client->read(ObjectRef::by(*object), 0, back);
      ASSERT_TRUE(read) << read.error().what;
      ASSERT_EQ(read->bytes, size == 0 ? 0 : offset + size);
      EXPECT_EQ(read->crc, crc_of(std::span(back).first(read->bytes)));
      if (size == 0) continue;
      EXPECT_TRUE(std::ranges::all_of(std::span(back).first(offset), [](int b) { return b == 0; }));
      EXPECT_TRUE(std::ranges::equal(std::span(back).subspan(offset, size), data));
      const auto unchecked =
          client->read(ObjectRef::by(*object), offset, back, {.caller_checks = true});
      ASSERT_TRUE(unchecked) << unchecked.error().what;
      EXPECT_EQ(unchecked->crc, crc_of(data));
      EXPECT_TRUE(std::ranges::equal(std::span(back).first(size), data));
    }
  }
}

TEST(Client, SeveralPiecesAreOneRequest) {
  const ServedStore served;
  const auto client = served.connect();
  ASSERT_TRUE(client);
  const auto object = client->create("pieces");
  ASSERT_TRUE(object);
  for (const size_t piece : {100UL, 4048UL, 70'000UL}) {
    std::vector<Bytes> sent;
    std::vector<std::span<const uint8_t>> from;
    for (int i = 0; i < 5; ++i) sent.push_back(random_bytes(piece + static_cast<size_t>(i), piece));
    for (const Bytes& bytes : sent) from.emplace_back(bytes);
    ASSERT_TRUE(client->write(ObjectRef::by("pieces"), 7, from));
    std::vector<Bytes> got;
    std::vector<std::span<uint8_t>> to;
    for (const Bytes& bytes : sent) got.emplace_back(bytes.size());
    for (Bytes& bytes : got) to.emplace_back(bytes);
    const auto read = client->read(ObjectRef::by("pieces"), 7, to);
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_EQ(read->object, *object);
    EXPECT_EQ(got, sent);
  }
}

TEST(Client, Objects) {
  const ServedStore served;
  const auto client = served.connect();
  ASSERT_TRUE(client);
  const auto a = client->create("a");
  ASSERT_TRUE(a);
  const auto again = client->create("a");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kAnswered);
  EXPECT_EQ(again.error().status, protocol::Status::kExists);
  const Bytes data = random_bytes(300'000, 5);
  ASSERT_TRUE(client->write(ObjectRef::by("a"), 0, data));
  const auto b = client->clone(ObjectRef::by("a"), ObjectRef::by("b"));
  ASSERT_TRUE(b) << b.error().what;
  ASSERT_TRUE(client->rename(ObjectRef::by(*b), "c"));
  ASSERT_TRUE(client->truncate(ObjectRef::by(*b), 1000));
  const auto info = client->stat(ObjectRef::by("c"));
  ASSERT_TRUE(info);
  EXPECT_EQ(info->size, 1000U);
  EXPECT_EQ(info->id, *b);
  const auto page = client->list(nullptr);
  ASSERT_TRUE(page);
  ASSERT_EQ(page->objects.size(), 2U);
  EXPECT_EQ(page->objects[0].name, "a");
  EXPECT_EQ(page->objects[1].name, "c");
  EXPECT_FALSE(page->more);
  ASSERT_TRUE(client->replace(ObjectRef::by("c"), ObjectRef::by("a")));
  EXPECT_EQ(client->stat(ObjectRef::by("a")).error().status, protocol::Status::kNotFound);
  Bytes back(data.size());
  ASSERT_TRUE(client->read(ObjectRef::by("c"), 0, back));
  EXPECT_EQ(back, data);
  EXPECT_TRUE(client->flush());
  ASSERT_TRUE(client->remove(ObjectRef::by("c")));
  EXPECT_TRUE(client->list(nullptr)->objects.empty());
}

TEST(Client, ListsInPages) {
  const ServedStore served;
  const auto client = served.connect();
  ASSERT_TRUE(client);
  std::set<std::string> names;
  for (int i = 0; i < 700; ++i) {
    names.insert("object " + std::to_string(i) + std::string(static_cast<size_t>(i % 200), 'x'));
  }
  for (const std::string& name : names) ASSERT_TRUE(client->create(name));
  std::vector<ObjectInfo> found;
  for (bool more = true; more;) {
    auto page = client->list(found.empty() ? nullptr : &found.back());
    ASSERT_TRUE(page);
    more = page->more;
    found.insert(found.end(), page->objects.begin(), page->objects.end());
  }
  EXPECT_TRUE(std::ranges::equal(found, names, {}, &ObjectInfo::name));
}

// Without the bytes, of any range, however long; a range past the end is said to be one.
TEST(Client, CrcsOfWhatIsStored) {
  ServedStore served;
  const RemoteObjects objects(served.connect());
  const Bytes data = random_bytes(3'000'000, 3);
  const auto object = objects.client().create("data");
  ASSERT_TRUE(object);
  ASSERT_TRUE(objects.client().write(ObjectRef::by(*object), 0, data));
  const std::span<const uint8_t> all(data);
  const auto expect = [&](uint64_t offset, uint64_t length) {
    const auto crc = objects.stored_crc(*object, offset, length);
    ASSERT_TRUE(crc) << crc.error().what;
    EXPECT_EQ(*crc, store::crc_of(all.subspan(offset, length))) << offset << ", " << length;
  };
  expect(0, data.size());
  expect(0, 0);
  expect(4048, 2 * 4048);
  expect(1, 5000);
  expect(2'999'999, 1);
  for (const auto& [offset, length] : {std::pair<uint64_t, uint64_t>{0, 3'000'001},
                                       {3'000'000, 1},
                                       {UINT64_MAX, 1},
                                       {1, UINT64_MAX}}) {
    const auto past = objects.stored_crc(*object, offset, length);
    ASSERT_FALSE(past);
    EXPECT_EQ(past.error().code, store::Code::kInvalid);
  }
  // More than the server looks at for one request: data, and then a hole.
  constexpr uint64_t kMuch = uint64_t{600} << 20;
  ASSERT_TRUE(objects.client().truncate(ObjectRef::by(*object), kMuch));
  const auto part = objects.client().stored_crc(ObjectRef::by(*object), 0, 0);
  ASSERT_TRUE(part);
  EXPECT_GT(part->bytes, 0U);
  EXPECT_LT(part->bytes, kMuch);
  EXPECT_EQ(objects.stored_crc(*object, 0, kMuch),
            store::crc_zeros_after(store::crc_of(data), kMuch - data.size()));
  EXPECT_EQ(objects.stored_crc({1, 2}, 0, 1).error().code, store::Code::kNotFound);
  EXPECT_EQ(served.counter(server::Counter::kReadBytes), 0U);
}

// Of objects that are in the index, too.
TEST(Client, SmallObjectsTakeNoChunk) {
  const medium::TemporaryFolder folder;
  const ServedStore served({}, folder.path() / "store");
  const RemoteObjects objects(served.connect());
  const auto object = objects.client().create("small");
  ASSERT_TRUE(object);
  ASSERT_TRUE(objects.client().write(ObjectRef::by(*object), 0, Bytes(100, 7)));
  const auto listed = objects.list(std::nullopt, 10, nullptr);
  ASSERT_TRUE(listed);
  ASSERT_EQ(listed->size(), 1U);
  const auto info = objects.stat(*object);
  ASSERT_TRUE(info);
  for (const store::ObjectInfo* const each : {&listed->front(), &*info}) {
    EXPECT_EQ(each->chunks, 0U);
    EXPECT_EQ(each->content, 100U);
  }
}

TEST(Client, RangesAreTheSessions) {
  store::Options enforce;
  enforce.enforce_ranges = true;
  const ServedStore served({}, {}, enforce);
  auto one = served.connect();
  const auto other = served.connect();
  ASSERT_TRUE(one && other);
  ASSERT_TRUE(one->create("x"));
  const auto object = ObjectRef::by("x");
  const auto range = one->register_range(object, 0, 100, protocol::RangeAccess::kWrite);
  ASSERT_TRUE(range);
  const Bytes data(10, 1);
  EXPECT_TRUE(one->write(object, 0, data));
  const auto refused = other->write(object, 0, data);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, protocol::Status::kConflict);
  EXPECT_FALSE(other->unregister_range(*range));
  one.reset();
  // They end with the session, which ends a moment later.
  for (int i = 0; i < 1000 && !other->write(object, 0, data); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(other->write(object, 0, data));
}

TEST(Client, ManyRequestsOfManyThreads) {
  const ServedStore served;
  const auto client = served.connect();
  ASSERT_TRUE(client);
  constexpr size_t kThreads = 4;
  constexpr size_t kDepth = 40;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto object = client->create("thread " + std::to_string(t));
      ASSERT_TRUE(object);
      std::vector<Bytes> data;
      for (size_t i = 0; i < kDepth; ++i)
        data.push_back(random_bytes(1000 + i * 3000, t * 100 + i));
      std::atomic<size_t> done{0};
      std::atomic<size_t> good{0};
      for (size_t i = 0; i < kDepth; ++i) {
        const std::span<const uint8_t> from(data[i]);
        client->write_async(ObjectRef::by(*object), i * 200'000, Client::ConstMemory(&from, 1), {},
                            [&](const Result<Transferred>& result) {
                              good += result.has_value() ? 1 : 0;
                              ++done;
                            });
      }
      while (done < kDepth) std::this_thread::yield();
      EXPECT_EQ(good, kDepth);
      for (size_t i = 0; i < kDepth; ++i) {
        Bytes back(data[i].size());
        ASSERT_TRUE(client->read(ObjectRef::by(*object), i * 200'000, back));
        EXPECT_EQ(back, data[i]);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

// Whoever waits drives the connection for the others, hands over when its answer is there, and
// leaves what nobody waits for to the client's own thread. Nobody is forgotten: each step is done
// within the timeout of a request.
TEST(Client, WhoeverWaitsDrivesForAll) {
  const ServedStore served;
  const auto client = served.connect();
  ASSERT_TRUE(client);
  const auto object = client->create("object");
  ASSERT_TRUE(object);
  const Bytes data = random_bytes(5000, 1);
  ASSERT_TRUE(client->write(ObjectRef::by(*object), 0, data));

  // A chain: each answer asks for the next, on whichever thread it arrives.
  constexpr int kLong = 300;
  std::array<Bytes, 3> back;
  std::array<std::atomic<int>, 3> left;
  std::function<void(size_t)> next = [&](size_t chain) {
    const std::span<uint8_t> to(back[chain]);
    client->read_async(ObjectRef::by(*object), 0, Client::Memory(&to, 1), {},
                       [&, chain](const Result<Transferred>& result) {
                         EXPECT_TRUE(result);
                         if (--left[chain] > 0) next(chain);
                       });
  };
  for (size_t chain = 0; chain < left.size(); ++chain) {
    back[chain].resize(data.size());
    left[chain] = kLong;
    next(chain);
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        EXPECT_TRUE(client->ping());
        // Now and then nobody waits.
        if (i % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1 + 2 * t));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& chain : left) {
    while (chain > 0) std::this_thread::yield();  // a lost one fails the request, after a while
  }
  for (const Bytes& each : back) EXPECT_EQ(each, data);
}

TEST(Client, SecretsMustAgree) {
  server::Options options;
  options.sessions.secret = "open sesame";
  const ServedStore served(options);
  const auto client = served.connect({.secret = "open sesame"});
  ASSERT_TRUE(client);
  ASSERT_TRUE(client->create("x"));
  const Bytes data = random_bytes(100'000, 9);
  EXPECT_TRUE(client->write(ObjectRef::by("x"), 3, data));
  for (const std::string secret : {"", "open barley"}) {
    Options wrong{.host = served.at().host, .port = served.at().port, .secret = secret};
    const auto refused = Client::connect(wrong, test_fabric());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kRefused) << refused.error().what;
  }
}

TEST(Client, NobodyThere) {
  const auto client = Client::connect({.port = 1, .timeout = 300 * kMillisecond}, test_fabric());
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Code::kUnreachable);
}

TEST(Client, GoesOnWhenTheServerWasRestarted) {
  const medium::TemporaryFolder folder;
  auto served = std::make_unique<ServedStore>(server::Options{}, folder.path());
  server::Options options;
  options.listen = served->at();
  const auto client = served->connect();
  ASSERT_TRUE(client);
  ASSERT_TRUE(client->create("kept"));
  const Bytes data = random_bytes(100'000, 4);
  ASSERT_TRUE(client->write(ObjectRef::by("kept"), 0, data));
  ASSERT_TRUE(client->flush());
  served.reset();
  served = std::make_unique<ServedStore>(options, folder.path());
  Bytes back(data.size());
  const auto read = client->read(ObjectRef::by("kept"), 0, back);
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(back, data);
  EXPECT_EQ(client->reconnects(), 1U);
}

// A byte of a stored chunk is spoilt: the read that goes by RDMA is refused, with the place.
TEST(Client, SpoiltChunksAreNamed) {
  ServedStore served;
  const auto client = served.connect();
  ASSERT_TRUE(client);
  const auto object = client->create("x");
  ASSERT_TRUE(object);
  const Bytes data = random_bytes(200'000, 4);
  ASSERT_TRUE(client->write(ObjectRef::by("x"), 0, data));
  {
    const auto chunks = served.store().prepare_read(*object, 0, data.size());
    ASSERT_TRUE(chunks);
    chunks->pieces()[0].memory[20 * size_t{chunks->pieces()[0].stride} + 5] ^= 0x10;
  }
  Bytes back(data.size());
  const auto read = client->read(ObjectRef::by("x"), 0, back);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().status, protocol::Status::kDamaged) << read.error().what;
  EXPECT_NE(read.error().what.find("offset"), std::string::npos) << read.error().what;
  EXPECT_TRUE(client->read(ObjectRef::by("x"), 0, std::span(back).first(50'000)));
}

}  // namespace
}  // namespace verbena::client
