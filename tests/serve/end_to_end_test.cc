// SPDX-License-Identifier: Apache-2.0
// Every operation over the built-in device: IPv4 and IPv6, with a secret and without, one client
// and many, one request and many at once. All data is compared.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "served_store.h"

namespace verbena::serve {
namespace {

using client::Client;
using client::ObjectInfo;
using client::ObjectRef;
using client::ServedStore;
using protocol::Status;
using Bytes = std::vector<uint8_t>;

// Different for each seed and place.
Bytes pattern(size_t size, uint64_t seed) {
  Bytes bytes(size);
  uint64_t word = seed * 0x9e3779b97f4a7c15U + 1;
  size_t i = 0;
  for (; i + sizeof word <= size; i += sizeof word) {
    std::memcpy(bytes.data() + i, &word, sizeof word);
    word = word * 6364136223846793005U + 1442695040888963407U;
  }
  for (; i < size; ++i) bytes[i] = static_cast<uint8_t>(word >> (8 * (i % 8)));
  return bytes;
}

struct Where {
  std::string host;
  std::string secret;
};

class EndToEnd : public ::testing::TestWithParam<Where> {
 protected:
  [[nodiscard]] static server::Options options() {
    server::Options options;
    options.listen.host = GetParam().host;
    options.sessions.secret = GetParam().secret;
    return options;
  }
  [[nodiscard]] std::unique_ptr<Client> connect() const {
    return served_.connect({.secret = GetParam().secret, .timeout = 120 * kSecond});
  }

  ServedStore served_{options()};
};
INSTANTIATE_TEST_SUITE_P(Addresses, EndToEnd,
                         ::testing::Values(Where{"127.0.0.1", ""}, Where{"::1", ""},
                                           Where{"127.0.0.1", "sesame"}, Where{"::1", "sesame"}));

TEST_P(EndToEnd, EveryOperation) {
  const auto client = connect();
  ASSERT_TRUE(client);
  const Bytes data = pattern(500'000, 1);
  Bytes back(data.size());
  ASSERT_TRUE(client->ping(data.empty() ? Bytes{} : Bytes(data.begin(), data.begin() + 1000)));
  const auto a = client->create("a", ObjectId{7, 8});
  ASSERT_TRUE(a);
  EXPECT_EQ(*a, (ObjectId{7, 8}));
  EXPECT_EQ(client->create("a").error().status, Status::kExists);
  ASSERT_TRUE(client->write(ObjectRef::by("a"), 0, data));
  ASSERT_TRUE(client->flush(ObjectRef::by(*a)));

  // A clone of a part, into the midst of an object.
  const auto b = client->create("b");
  ASSERT_TRUE(b);
  ASSERT_TRUE(client->clone(
      ObjectRef::by(*a), ObjectRef::by(*b),
      {.from_offset = 4048, .length = 40'480, .to_offset = 8096, .allow_existing = true}));
  ASSERT_TRUE(client->read(ObjectRef::by(*b), 8096, std::span(back).first(40'480)));
  EXPECT_TRUE(std::equal(back.begin(), back.begin() + 40'480, data.begin() + 4048));
  const auto c = client->clone(ObjectRef::by("a"), ObjectRef::by("c"));
  ASSERT_TRUE(c) << c.error().what;
  // Each is its own.
  ASSERT_TRUE(client->write(ObjectRef::by("a"), 100, Bytes(100, 1)));
  ASSERT_TRUE(client->read(ObjectRef::by("c"), 0, back));
  EXPECT_EQ(back, data);

  ASSERT_TRUE(client->rename(ObjectRef::by("b"), "d"));
  EXPECT_EQ(client->stat(ObjectRef::by("b")).error().status, Status::kNotFound);
  ASSERT_TRUE(client->truncate(ObjectRef::by("d"), 9000));
  ASSERT_TRUE(client->truncate(ObjectRef::by("d"), 20'000));
  const auto info = client->stat(ObjectRef::by("d"));
  ASSERT_TRUE(info);
  EXPECT_EQ(info->size, 20'000U);
  EXPECT_EQ(info->id, *b);
  ASSERT_TRUE(client->read(ObjectRef::by("d"), 8990, std::span(back).first(20)));
  EXPECT_TRUE(std::equal(back.begin(), back.begin() + 10, data.begin() + 4048 + 894));
  EXPECT_TRUE(std::all_of(back.begin() + 10, back.begin() + 20, [](int b_) { return b_ == 0; }));

  const auto range = client->register_range(ObjectRef::by("d"), 0, 0, protocol::RangeAccess::kRead);
  ASSERT_TRUE(range);
  EXPECT_TRUE(client->unregister_range(*range));
  EXPECT_EQ(client->unregister_range(*range).error().status, Status::kNotFound);
  ASSERT_TRUE(client->replace(ObjectRef::by("d"), ObjectRef::by("c")));
  ASSERT_TRUE(client->read(ObjectRef::by("d"), 0, back));
  EXPECT_EQ(back, data);
  auto page = client->list(nullptr, 1);
  ASSERT_TRUE(page);
  ASSERT_EQ(page->objects.size(), 1U);
  EXPECT_TRUE(page->more);
  page = client->list(&page->objects[0]);
  ASSERT_TRUE(page);
  ASSERT_EQ(page->objects.size(), 1U);
  EXPECT_EQ(page->objects[0].name, "d");
  for (const char* const name : {"a", "d"}) EXPECT_TRUE(client->remove(ObjectRef::by(name)));
  EXPECT_TRUE(client->list(nullptr)->objects.empty());
}

TEST_P(EndToEnd, EverySizeAtEveryOffset) {
  const auto client = connect();
  ASSERT_TRUE(client);
  for (const size_t size : {0UL, 1UL, 4047UL, 4048UL, 4049UL, 32768UL, 32769UL, 1UL << 20}) {
    for (const uint64_t offset : {0UL, 1UL, 4047UL, 4049UL, 1'000'003UL}) {
      SCOPED_TRACE(testing::Message() << size << " bytes at " << offset);
      const auto object = client->create("");
      ASSERT_TRUE(object);
      const Bytes data = pattern(size, size + offset);
      const auto written = client->write(ObjectRef::by(*object), offset, data);
      ASSERT_TRUE(written) << written.error().what;
      EXPECT_EQ(written->bytes, size);
      Bytes back(size + 1);
      const auto read = client->read(ObjectRef::by(*object), offset, back);
      ASSERT_TRUE(read) << read.error().what;
      EXPECT_EQ(read->bytes, size);
      EXPECT_TRUE(std::equal(data.begin(), data.end(), back.begin()));
      // Over a part of it.
      if (size < 2) continue;
      const Bytes more = pattern(size / 2, 99);
      ASSERT_TRUE(client->write(ObjectRef::by(*object), offset + size / 3, more));
      ASSERT_TRUE(client->read(ObjectRef::by(*object), offset, back));
      Bytes expected = data;
      std::ranges::copy(more, expected.begin() + static_cast<ptrdiff_t>(size / 3));
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), back.begin()));
    }
  }
}

// More than one request may have: in pieces, all under way at once.
TEST_P(EndToEnd, AHundredMegabytes) {
  const size_t size = (VERBENA_SERVE_FEWER ? size_t{20} : size_t{100}) << 20;
  constexpr size_t kPiece = 7'777'777;
  const auto client = connect();
  ASSERT_TRUE(client);
  ASSERT_LE(kPiece, client->limits().io_bytes);
  const auto object = client->create("large");
  ASSERT_TRUE(object);
  Bytes data = pattern(size, 5);
  Bytes back(size);
  const auto all_pieces = [&](auto begin) {
    std::atomic<int> left{0};
    std::atomic<int> bad{0};
    const auto done = [&](const client::Result<client::Transferred>& result) {
      if (!result) ++bad;
      --left;
    };
    for (size_t at = 0; at < size; at += kPiece) {
      ++left;
      begin(at, std::min(kPiece, size - at), done);
    }
    while (left > 0) std::this_thread::yield();
    EXPECT_EQ(bad, 0);
  };
  all_pieces([&](size_t at, size_t bytes, auto done) {
    const auto piece = std::span<const uint8_t>(data).subspan(at, bytes);
    client->write_async(ObjectRef::by(*object), at, Client::ConstMemory(&piece, 1), {}, done);
  });
  all_pieces([&](size_t at, size_t bytes, auto done) {
    const auto piece = std::span(back).subspan(at, bytes);
    client->read_async(ObjectRef::by(*object), at, Client::Memory(&piece, 1), {}, done);
  });
  EXPECT_TRUE(back == data);
  // One request may not have that much, and says so.
  EXPECT_FALSE(client->write(ObjectRef::by(*object), 0, std::span(data).first(17U << 20)));
}

// Each client has an object of its own, and so many requests at once.
void work(Client& client, const std::string& name, size_t depth, size_t rounds) {
  const auto object = client.create(name);
  ASSERT_TRUE(object) << object.error().what;
  constexpr uint64_t kApart = 70'000;
  for (size_t round = 0; round < rounds; ++round) {
    std::vector<Bytes> data;
    std::vector<Bytes> back;
    for (size_t i = 0; i < depth; ++i) {
      data.push_back(pattern((i * 7919 + round * 104'729) % kApart, i + round));
      back.emplace_back(data.back().size());
    }
    for (const bool write : {true, false}) {
      std::atomic<size_t> left{depth};
      std::atomic<size_t> good{0};
      for (size_t i = 0; i < depth; ++i) {
        const auto done = [&](const client::Result<client::Transferred>& result) {
          good += result ? 1 : 0;
          --left;
        };
        const std::span<const uint8_t> from(data[i]);
        const std::span<uint8_t> to(back[i]);
        if (write) {
          client.write_async(ObjectRef::by(*object), i * kApart, Client::ConstMemory(&from, 1), {},
                             done);
        } else {
          client.read_async(ObjectRef::by(*object), i * kApart, Client::Memory(&to, 1), {}, done);
        }
      }
      while (left > 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
      EXPECT_EQ(good, depth);
    }
    EXPECT_TRUE(back == data);
  }
}

TEST_P(EndToEnd, ManyClientsAndRequests) {
  struct Crowd {
    size_t clients;
    size_t depth;
  };
  constexpr size_t kRounds = VERBENA_SERVE_FEWER ? 1 : 2;
  for (const Crowd& crowd : {Crowd{1, 1}, Crowd{1, 64}, Crowd{4, 16}, Crowd{32, 3}}) {
    SCOPED_TRACE(testing::Message() << crowd.clients << " clients, " << crowd.depth << " requests");
    // The largest once, and not with sanitizers: every client has a device of its own.
    const bool once = GetParam().host == "127.0.0.1" && GetParam().secret.empty();
    if (crowd.clients > 4 && (VERBENA_SERVE_FEWER || !once)) break;
    std::vector<std::unique_ptr<Client>> clients;
    for (size_t i = 0; i < crowd.clients; ++i) {
      clients.push_back(connect());
      ASSERT_TRUE(clients.back());
    }
    std::vector<std::thread> threads;
    for (size_t i = 0; i < crowd.clients; ++i) {
      threads.emplace_back([&, i] {
        work(*clients[i],
             std::to_string(crowd.clients) + "/" + std::to_string(crowd.depth) + "/" +
                 std::to_string(i),
             crowd.depth, kRounds);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& client : clients) EXPECT_EQ(client->reconnects(), 0U);
  }
}

}  // namespace
}  // namespace verbena::serve
