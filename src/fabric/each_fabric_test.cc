// SPDX-License-Identifier: Apache-2.0
// What each fabric does: over verbs, and over providers of libfabric.
#include "fabric/fabric_fixture.h"

namespace verbena::fabric {
namespace {

class EachFabricTest : public FabricTest, public ::testing::WithParamInterface<Place> {
 protected:
  EachFabricTest() : FabricTest(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(On, EachFabricTest, ::testing::ValuesIn(places()), kNameOfPlace);

TEST_P(EachFabricTest, Messages) {
  ASSERT_NO_FATAL_FAILURE(connect());
  EXPECT_EQ(client_.connected, std::vector{ours_});
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4096}, client_.fabric->message_bytes()}) {
    client_.send(ours_, numbered(size, 3));
    server_.send(theirs_, numbered(size, 5));
    until([&] { return !server_.messages[theirs_].empty() && !client_.messages[ours_].empty(); });
    EXPECT_EQ(server_.messages[theirs_].at(0), numbered(size, 3));
    EXPECT_EQ(client_.messages[ours_].at(0), numbered(size, 5));
    server_.messages.clear();
    client_.messages.clear();
  }
}

TEST_P(EachFabricTest, PeersSayWhoTheyAreWhenTheyConnect) {
  ASSERT_NO_FATAL_FAILURE(listen());
  server_.answer = numbered(100, 7);
  const Bytes hello = numbered(50, 1);
  ours_ = client_.fabric->connect({host(), port_}, hello);
  until([&] { return !client_.connected.empty() && !server_.connected.empty(); });
  // Both are padded.
  ASSERT_GE(server_.asked.size(), hello.size());
  EXPECT_TRUE(std::ranges::equal(std::span(server_.asked).first(hello.size()), hello));
  ASSERT_GE(client_.answered.size(), server_.answer->size());
  EXPECT_TRUE(std::ranges::equal(std::span(client_.answered).first(100), *server_.answer));
  server_.answer = std::nullopt;
  const ConnectionId refused = client_.fabric->connect({host(), port_}, hello);
  until([&] { return client_.failed.contains(refused); });
  EXPECT_EQ(server_.connected.size(), 1u);
}

TEST_P(EachFabricTest, WritesWithImmediateData) {
  ASSERT_NO_FATAL_FAILURE(connect());
  Bytes from = numbered(100'000, 3);
  Bytes to(200'000);
  ASSERT_TRUE(client_.fabric->add_memory(from.data(), from.size(), false));
  const auto key = server_.fabric->add_memory(to.data(), to.size(), true);
  ASSERT_TRUE(key);
  const auto address = key->address;
  client_.fabric->write_immediate(ours_, from, {address + 1000, key->remote, 0}, 0x12345678, 1);
  client_.fabric->write_immediate(ours_, {}, {address, key->remote, 0}, 0, 2);
  until([&] { return client_.done.size() == 2 && server_.immediates.size() == 2; });
  EXPECT_EQ(server_.immediates, (std::vector<uint32_t>{0x12345678, 0}));
  EXPECT_TRUE(std::ranges::equal(std::span(to).subspan(1000, from.size()), from));
  EXPECT_TRUE(client_.done[1] && client_.done[2]);
  // Outside of the key: it is not done, and the connection is broken.
  client_.fabric->write_immediate(ours_, from, {address + 150'000, key->remote, 0}, 1, 3);
  until([&] { return client_.failed.contains(ours_); });
  client_.fabric->end(ours_);
  until([&] { return client_.ended.size() == 1; });
  ASSERT_TRUE(client_.done.contains(3));
  EXPECT_FALSE(client_.done[3]);
  EXPECT_EQ(server_.immediates.size(), 2u);
}

TEST_P(EachFabricTest, ListensOnAnyAddress) {
  ASSERT_NO_FATAL_FAILURE(listen(""));
  ASSERT_NO_FATAL_FAILURE(connect());
  client_.send(ours_, {1, 2, 3});
  until([&] { return !server_.messages[theirs_].empty(); });
  EXPECT_EQ(server_.messages[theirs_].at(0), (Bytes{1, 2, 3}));
}

TEST_P(EachFabricTest, MoreMessagesThanThereIsRoomFor) {
  ASSERT_NO_FATAL_FAILURE(connect());
  constexpr uint32_t kCount = 5000;
  uint32_t sent = 0;
  const auto fill = [&] {
    while (sent < kCount) {
      const auto room = client_.fabric->message_room(ours_);
      if (room.empty()) return;
      room[0] = static_cast<uint8_t>(sent);
      client_.fabric->send(ours_, 1 + sent++ % 1000);
    }
  };
  fill();
  EXPECT_LT(sent, kCount);
  until([&] {
    if (!client_.sendable.empty()) {
      client_.sendable.clear();
      fill();
    }
    return server_.messages[theirs_].size() == kCount;
  });
  for (uint32_t i = 0; i < kCount; ++i) {
    const Bytes& message = server_.messages[theirs_][i];
    ASSERT_EQ(message.size(), 1 + i % 1000);
    ASSERT_EQ(message[0], static_cast<uint8_t>(i));
  }
}

// Data of chunks with a gap behind each, from and to several places of the client.
TEST_P(EachFabricTest, ReadsAndWrites) {
  ASSERT_NO_FATAL_FAILURE(connect());
  constexpr uint32_t kParts = 300;
  constexpr uint32_t kBytes = 4048;
  constexpr uint32_t kStride = 4096;
  Bytes chunks(size_t{kParts} * kStride, 0xee);
  Bytes memory(2'000'000, 0xdd);
  ASSERT_TRUE(server_.fabric->add_memory(chunks.data(), chunks.size(), false));
  const auto key = client_.fabric->add_memory(memory.data(), memory.size(), true);
  ASSERT_TRUE(key);
  const auto address = key->address;
  std::vector<Remote> remote{{address + 100, key->remote, 1'000'000}};
  remote.push_back({address + 1'500'000, key->remote, kParts * kBytes - 1'000'000});
  const std::vector<Local> local{{chunks.data(), kBytes, kStride, kParts}};
  Bytes expected;
  for (uint32_t part = 0; part < kParts; ++part) {
    std::fill_n(chunks.begin() + size_t{part} * kStride, kBytes, static_cast<uint8_t>(part));
    expected.insert(expected.end(), kBytes, static_cast<uint8_t>(part));
  }
  server_.fabric->write(theirs_, local, remote, 11);
  until([&] { return server_.done.contains(11); });
  EXPECT_TRUE(server_.done[11]);
  Bytes got(memory.begin() + 100, memory.begin() + 1'000'100);
  got.insert(got.end(), memory.begin() + 1'500'000, memory.begin() + 500'000 + kParts * kBytes);
  EXPECT_EQ(got, expected);
  EXPECT_EQ(memory[99], 0xdd);
  EXPECT_EQ(memory[1'000'100], 0xdd);

  std::ranges::fill(chunks, 0xee);
  server_.fabric->read(theirs_, remote, local, 12);
  until([&] { return server_.done.contains(12); });
  EXPECT_TRUE(server_.done[12]);
  for (uint32_t part = 0; part < kParts; ++part) {
    const auto begin = chunks.begin() + size_t{part} * kStride;
    ASSERT_EQ(std::count(begin, begin + kBytes, static_cast<uint8_t>(part)), kBytes);
    ASSERT_EQ(std::count(begin + kBytes, begin + kStride, 0xee), kStride - kBytes);
  }
}

TEST_P(EachFabricTest, ManyOperationsAtOnce) {
  ASSERT_NO_FATAL_FAILURE(connect());
  Bytes chunks(size_t{64} * 4096);
  Bytes memory(size_t{64} * 4096, 7);
  ASSERT_TRUE(server_.fabric->add_memory(chunks.data(), chunks.size(), false));
  const auto key = client_.fabric->add_memory(memory.data(), memory.size(), true);
  const auto address = key->address;
  for (OperationId i = 0; i < 2000; ++i) {
    const size_t at = i % 64 * 4096;
    server_.fabric->read(theirs_, std::vector<Remote>{{address + at, key->remote, 4096}},
                         std::vector<Local>{{chunks.data() + at, 4096, 4096, 1}}, i);
  }
  until([&] { return server_.done.size() == 2000; });
  EXPECT_TRUE(std::ranges::all_of(server_.done, [](const auto& one) { return one.second; }));
  EXPECT_EQ(chunks, memory);
}

// A wrong key ends the connection, and nothing else.
TEST_P(EachFabricTest, AWrongKey) {
  ASSERT_NO_FATAL_FAILURE(connect());
  Bytes chunk(4096);
  ASSERT_TRUE(server_.fabric->add_memory(chunk.data(), chunk.size(), false));
  for (OperationId i = 0; i < 3; ++i) {
    server_.fabric->read(theirs_, std::vector<Remote>{{64, 0x12345678, 4096}},
                         std::vector<Local>{{chunk.data(), 4096, 4096, 1}}, i);
  }
  until([&] { return server_.failed.contains(theirs_); });
  server_.fabric->end(theirs_);
  until([&] { return server_.ended.size() == 1 && client_.failed.contains(ours_); });
  EXPECT_EQ(server_.done, (std::map<OperationId, bool>{{0, false}, {1, false}, {2, false}}));
  client_.fabric->end(ours_);
  until([&] { return client_.ended.size() == 1; });
  // After that it is as if it had never been.
  EXPECT_TRUE(server_.fabric->message_room(theirs_).empty());
  server_.fabric->end(theirs_);
}

TEST_P(EachFabricTest, EndsWithWorkOnItsWay) {
  ASSERT_NO_FATAL_FAILURE(connect());
  Bytes chunks(1 << 20);
  Bytes memory(1 << 20, 0x55);
  ASSERT_TRUE(server_.fabric->add_memory(chunks.data(), chunks.size(), false));
  const auto key = client_.fabric->add_memory(memory.data(), memory.size(), true);
  const auto address = key->address;
  for (OperationId i = 0; i < 100; ++i) {
    server_.fabric->read(theirs_, std::vector<Remote>{{address, key->remote, 1 << 20}},
                         std::vector<Local>{{chunks.data(), 1 << 20, 1 << 20, 1}}, i);
  }
  server_.fabric->end(theirs_);
  until([&] { return server_.ended.size() == 1; });
  EXPECT_EQ(server_.done.size(), 100u);
  // The memory is free: what was on its way when the connection ended does not arrive in it.
  std::ranges::fill(chunks, 0xaa);
  until([&] { return client_.failed.contains(ours_); });
  ASSERT_NO_FATAL_FAILURE(connect());
  client_.send(ours_, {1});
  until([&] { return !server_.messages[theirs_].empty(); });
  EXPECT_EQ(std::ranges::count(chunks, 0xaa), std::ssize(chunks));
}

// The peer is there, and does nothing: our memory is kept until nothing can arrive in it.
TEST_P(EachFabricTest, EndsWithAPeerThatDoesNotAnswer) {
  if (std::string_view(GetParam().provider) == "shm") {
    GTEST_SKIP() << "in one process the peer loses the memory that it shares: see AStoppedPeer";
  }
  constexpr uint32_t kBytes = 1 << 20;
  ASSERT_NO_FATAL_FAILURE(connect());
  Bytes chunks(kBytes);
  Bytes memory(kBytes, 0x55);
  ASSERT_TRUE(server_.fabric->add_memory(chunks.data(), chunks.size(), false));
  const auto key = client_.fabric->add_memory(memory.data(), memory.size(), true);
  ASSERT_TRUE(key);
  const std::vector<Remote> theirs{{key->address, key->remote, kBytes}};
  const std::vector<Local> ours{{chunks.data(), kBytes, kBytes, 1}};
  constexpr OperationId kReads = 100;
  for (OperationId i = 0; i < kReads; ++i) server_.fabric->read(theirs_, theirs, ours, i);
  sides_ = {&server_};
  server_.fabric->end(theirs_);
  until([&] { return server_.ended.size() == 1; });
  EXPECT_EQ(server_.done.size(), kReads);
  std::ranges::fill(chunks, 0xaa);
  // Now it goes on with what it was asked for.
  sides_ = {&server_, &client_};
  until([&] { return client_.failed.contains(ours_); });
  client_.fabric->end(ours_);
  until([&] { return client_.ended.size() == 1; });
  EXPECT_EQ(std::ranges::count(chunks, 0xaa), std::ssize(chunks));
}

// The end whose memory is used goes first, amid reads and writes of the other.
TEST_P(EachFabricTest, TheTargetEndsWithWorkOnItsWay) {
  constexpr uint32_t kBytes = 1 << 20;
  Bytes chunks(kBytes);
  Bytes memory(kBytes, 0x55);
  ASSERT_TRUE(server_.fabric->add_memory(chunks.data(), chunks.size(), false));
  const auto key = client_.fabric->add_memory(memory.data(), memory.size(), true);
  ASSERT_TRUE(key);
  for (int round = 0; round < 20; ++round) {
    ASSERT_NO_FATAL_FAILURE(connect());
    server_.done.clear();
    const std::vector<Remote> theirs{{key->address, key->remote, kBytes}};
    const std::vector<Local> ours{{chunks.data(), kBytes, kBytes, 1}};
    for (OperationId i = 0; i < 20; ++i) {
      if (round % 2 == 0) {
        server_.fabric->read(theirs_, theirs, ours, i);
      } else {
        server_.fabric->write(theirs_, ours, theirs, i);
      }
    }
    until([&] { return !server_.done.empty(); });
    client_.fabric->end(ours_);
    until([&] { return server_.failed.contains(theirs_); });
    server_.fabric->end(theirs_);
    const size_t ended = static_cast<size_t>(round) + 1;
    until([&] { return server_.ended.size() == ended && client_.ended.size() == ended; });
    EXPECT_EQ(server_.done.size(), 20u);
  }
}

// Long messages, which providers cut into pieces, both ways: the ends are closed amid some.
TEST_P(EachFabricTest, EndsWithMessagesOnTheirWay) {
  const auto fill = [](const Side& side, ConnectionId connection) {
    for (int i = 0; i < 20 && !side.fabric->message_room(connection).empty(); ++i) {
      side.fabric->send(connection, side.fabric->message_bytes() - static_cast<size_t>(i) * 1000);
    }
  };
  for (int round = 0; round < 20; ++round) {
    ASSERT_NO_FATAL_FAILURE(connect());
    fill(client_, ours_);
    fill(server_, theirs_);
    for (int i = 0; i < round % 5; ++i) {
      client_.fabric->poll(client_);
      server_.fabric->poll(server_);
    }
    const bool server_first = round % 2 == 0;
    const Side& first = server_first ? server_ : client_;
    const Side& second = server_first ? client_ : server_;
    const ConnectionId other = server_first ? ours_ : theirs_;
    first.fabric->end(server_first ? theirs_ : ours_);
    until([&] { return second.failed.contains(other); });
    second.fabric->end(other);
    const size_t ended = static_cast<size_t>(round) + 1;
    until([&] { return server_.ended.size() == ended && client_.ended.size() == ended; });
  }
}

TEST_P(EachFabricTest, NobodyListens) {
  const ConnectionId nobody = client_.fabric->connect({host(), 9});
  const ConnectionId nowhere = client_.fabric->connect({"no such host.invalid", 9});
  until([&] { return client_.failed.size() == 2; });
  EXPECT_FALSE(client_.failed[nobody].empty());
  EXPECT_FALSE(client_.failed[nowhere].empty());
  client_.fabric->end(nobody);
  client_.fabric->end(nowhere);
  until([&] { return client_.ended.size() == 2; });
}

TEST_P(EachFabricTest, AClientThatGoesAway) {
  ASSERT_NO_FATAL_FAILURE(connect());
  client_.fabric.reset();
  sides_ = {&server_};
  until([&] { return server_.failed.contains(theirs_); });
  server_.fabric->end(theirs_);
  until([&] { return server_.ended.size() == 1; });
}

TEST_P(EachFabricTest, OnlySoManyConnections) {
  Side few({.max_connections = 3}, GetParam().provider);
  sides_ = {&few, &client_};
  const auto at = few.fabric->listen({host(), 0});
  ASSERT_TRUE(at);
  for (int i = 0; i < 5; ++i) static_cast<void>(client_.fabric->connect({host(), at->port}));
  until([&] { return client_.connected.size() + client_.failed.size() == 5; });
  EXPECT_EQ(client_.connected.size(), 3u);
}

TEST(VerbsFabric, UnknownDevicesAndLibraries) {
  VerbsOptions options;
  options.libraries = VERBENA_LIBRARIES;
  options.device = "mlx9_9";
  const auto opened = open_verbs_fabric(options);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().find("mlx9_9"), std::string::npos);
  options.libraries = "/nowhere";
  EXPECT_FALSE(open_verbs_fabric(options));
}

}  // namespace
}  // namespace verbena::fabric
