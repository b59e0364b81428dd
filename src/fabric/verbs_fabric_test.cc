// SPDX-License-Identifier: Apache-2.0
// Two fabrics of one process, on the built-in device.
#include "fabric/verbs_fabric.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

namespace verbena::fabric {
namespace {

using Bytes = std::vector<uint8_t>;

struct Side final : Handler {
  explicit Side(VerbsOptions options = {}) {
    options.libraries = VERBENA_LIBRARIES;
    auto opened = open_verbs_fabric(options);
    EXPECT_TRUE(opened) << opened.error();
    if (opened) fabric = std::move(*opened);
  }
  void on_connected(ConnectionId connection) override { connected.push_back(connection); }
  void on_message(ConnectionId connection, std::span<const uint8_t> message) override {
    messages[connection].emplace_back(message.begin(), message.end());
  }
  void on_sendable(ConnectionId connection) override { sendable.push_back(connection); }
  void on_done(ConnectionId, OperationId operation, bool good) override {
    EXPECT_TRUE(done.emplace(operation, good).second) << "told twice";
  }
  void on_failed(ConnectionId connection, std::string_view why) override {
    failed[connection] = why;
  }
  void on_ended(ConnectionId connection) override {
    EXPECT_EQ(std::ranges::count(ended, connection), 0);
    ended.push_back(connection);
  }

  void send(ConnectionId connection, const Bytes& message) const {
    const auto room = fabric->message_room(connection);
    ASSERT_GE(room.size(), message.size());
    std::ranges::copy(message, room.begin());
    fabric->send(connection, message.size());
  }

  std::unique_ptr<Fabric> fabric;
  std::vector<ConnectionId> connected;
  std::vector<ConnectionId> sendable;
  std::map<ConnectionId, std::vector<Bytes>> messages;
  std::map<OperationId, bool> done;
  std::map<ConnectionId, std::string> failed;
  std::vector<ConnectionId> ended;
};

class VerbsFabricTest : public ::testing::Test {
 protected:
  // Until it is so; sleeps in between, so that a lost wake-up is seen.
  void until(const std::function<bool()>& so) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!so()) {
      ASSERT_LT(std::chrono::steady_clock::now(), give_up);
      size_t happened = 0;
      std::vector<pollfd> fds;
      for (Side* const side : sides_) happened += side->fabric->poll(*side);
      if (happened > 0) continue;
      for (Side* const side : sides_) {
        side->fabric->arm();
        happened += side->fabric->poll(*side);
        fds.push_back({side->fabric->fd(), POLLIN, 0});
      }
      if (happened == 0 && !so()) ::poll(fds.data(), fds.size(), 30'000);
    }
  }
  void connect(const char* host = "127.0.0.1") {
    const auto at = server_.fabric->listen({host, 0});
    ASSERT_TRUE(at) << at.error();
    ASSERT_NE(at->port, 0);
    ours_ = client_.fabric->connect({host, at->port});
    until([&] { return !client_.connected.empty() && !server_.connected.empty(); });
    ASSERT_FALSE(server_.connected.empty());
    theirs_ = server_.connected.back();
  }

  Side server_;
  Side client_;
  std::vector<Side*> sides_{&server_, &client_};
  ConnectionId ours_ = 0;    // as the client has it
  ConnectionId theirs_ = 0;  // as the server does
};

Bytes numbered(size_t size, uint8_t from) {
  Bytes bytes(size);
  std::iota(bytes.begin(), bytes.end(), from);
  return bytes;
}

TEST_F(VerbsFabricTest, Messages) {
  for (const char* const host : {"127.0.0.1", "::1"}) {
    SCOPED_TRACE(host);
    Side server;
    Side client;
    sides_ = {&server, &client};
    const auto at = server.fabric->listen({host, 0});
    ASSERT_TRUE(at) << at.error();
    const ConnectionId ours = client.fabric->connect({host, at->port});
    until([&] { return !client.connected.empty() && !server.connected.empty(); });
    ASSERT_EQ(client.connected, std::vector{ours});
    const ConnectionId theirs = server.connected.at(0);
    for (const size_t size : {size_t{0}, size_t{1}, size_t{4096}, client.fabric->message_bytes()}) {
      client.send(ours, numbered(size, 3));
      server.send(theirs, numbered(size, 5));
      until([&] { return !server.messages[theirs].empty() && !client.messages[ours].empty(); });
      EXPECT_EQ(server.messages[theirs].at(0), numbered(size, 3));
      EXPECT_EQ(client.messages[ours].at(0), numbered(size, 5));
      server.messages.clear();
      client.messages.clear();
    }
  }
}

TEST_F(VerbsFabricTest, MoreMessagesThanThereIsRoomFor) {
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
TEST_F(VerbsFabricTest, ReadsAndWrites) {
  ASSERT_NO_FATAL_FAILURE(connect());
  constexpr uint32_t kParts = 300;
  constexpr uint32_t kBytes = 4048;
  constexpr uint32_t kStride = 4096;
  Bytes chunks(size_t{kParts} * kStride, 0xee);
  Bytes memory(2'000'000, 0xdd);
  ASSERT_TRUE(server_.fabric->add_memory(chunks.data(), chunks.size(), false));
  const auto key = client_.fabric->add_memory(memory.data(), memory.size(), true);
  ASSERT_TRUE(key);
  const auto address = reinterpret_cast<uint64_t>(memory.data());
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

TEST_F(VerbsFabricTest, ManyOperationsAtOnce) {
  ASSERT_NO_FATAL_FAILURE(connect());
  Bytes chunks(size_t{64} * 4096);
  Bytes memory(size_t{64} * 4096, 7);
  ASSERT_TRUE(server_.fabric->add_memory(chunks.data(), chunks.size(), false));
  const auto key = client_.fabric->add_memory(memory.data(), memory.size(), true);
  const auto address = reinterpret_cast<uint64_t>(memory.data());
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
TEST_F(VerbsFabricTest, AWrongKey) {
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

TEST_F(VerbsFabricTest, EndsWithWorkOnItsWay) {
  ASSERT_NO_FATAL_FAILURE(connect());
  Bytes chunks(1 << 20);
  Bytes memory(1 << 20);
  ASSERT_TRUE(server_.fabric->add_memory(chunks.data(), chunks.size(), false));
  const auto key = client_.fabric->add_memory(memory.data(), memory.size(), true);
  const auto address = reinterpret_cast<uint64_t>(memory.data());
  for (OperationId i = 0; i < 100; ++i) {
    server_.fabric->read(theirs_, std::vector<Remote>{{address, key->remote, 1 << 20}},
                         std::vector<Local>{{chunks.data(), 1 << 20, 1 << 20, 1}}, i);
  }
  server_.fabric->end(theirs_);
  until([&] { return server_.ended.size() == 1; });
  EXPECT_EQ(server_.done.size(), 100u);
  until([&] { return client_.failed.contains(ours_); });
}

TEST_F(VerbsFabricTest, NobodyListens) {
  const ConnectionId nobody = client_.fabric->connect({"127.0.0.1", 9});
  const ConnectionId nowhere = client_.fabric->connect({"no such host.invalid", 9});
  until([&] { return client_.failed.size() == 2; });
  EXPECT_FALSE(client_.failed[nobody].empty());
  EXPECT_FALSE(client_.failed[nowhere].empty());
  client_.fabric->end(nobody);
  client_.fabric->end(nowhere);
  until([&] { return client_.ended.size() == 2; });
}

TEST_F(VerbsFabricTest, AClientThatGoesAway) {
  ASSERT_NO_FATAL_FAILURE(connect());
  client_.fabric.reset();
  sides_ = {&server_};
  until([&] { return server_.failed.contains(theirs_); });
  server_.fabric->end(theirs_);
  until([&] { return server_.ended.size() == 1; });
}

TEST_F(VerbsFabricTest, OnlySoManyConnections) {
  Side few({.max_connections = 3});
  sides_ = {&few, &client_};
  const auto at = few.fabric->listen({"127.0.0.1", 0});
  ASSERT_TRUE(at);
  for (int i = 0; i < 5; ++i) static_cast<void>(client_.fabric->connect({"127.0.0.1", at->port}));
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
