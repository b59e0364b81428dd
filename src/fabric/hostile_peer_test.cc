// SPDX-License-Identifier: Apache-2.0
// Peers that do not keep to the rules, or die: each loses its own connection, and others go on.
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/fabric_fixture.h"

namespace verbena::fabric {
namespace {

constexpr uint32_t kMessage = 8192;

class SmallFabricTest : public FabricTest, public ::testing::WithParamInterface<Place> {
 protected:
  // The server's messages are of kMessage, the client's may be longer; few wait to be polled.
  SmallFabricTest()
      : FabricTest(GetParam(), {.message_bytes = kMessage, .sends = 16},
                   {.message_bytes = 2 * kMessage}) {}

  // As many messages as there is room for.
  size_t fill(ConnectionId connection) {
    size_t count = 0;
    while (!server_.fabric->message_room(connection).empty()) {
      server_.fabric->send(connection, kMessage);
      ++count;
    }
    return count;
  }
  // The same, again and again: the transport may take some before it is stuck.
  void fill_transport(ConnectionId connection) {
    for (int idle = 0; idle < 100; ++idle) {
      static_cast<void>(server_.fabric->poll(server_));
      if (fill(connection) > 0) idle = 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  // The server ends a connection that failed.
  void end(ConnectionId connection) {
    until([&] { return server_.failed.contains(connection); });
    server_.fabric->end(connection);
    until([&] { return std::ranges::count(server_.ended, connection) == 1; });
  }
};

INSTANTIATE_TEST_SUITE_P(On, SmallFabricTest, ::testing::ValuesIn(places()), kNameOfPlace);

TEST_P(SmallFabricTest, AMessageThatIsTooLong) {
  if (std::string_view(GetParam().provider) == "shm") {
    GTEST_SKIP() << "libfabric's shm does not tell that a message is longer than its buffer";
  }
  ASSERT_NO_FATAL_FAILURE(connect());
  const ConnectionId bad = theirs_;
  client_.send(ours_, numbered(kMessage, 1));
  client_.send(ours_, numbered(kMessage + 1, 1));
  until([&] { return client_.failed.contains(ours_); });
  ASSERT_NO_FATAL_FAILURE(end(bad));
  EXPECT_EQ(server_.messages[bad].size(), 1u);
  client_.fabric->end(ours_);
  // More often than there are buffers: none is lost.
  for (int i = 0; i < 40; ++i) {
    ASSERT_NO_FATAL_FAILURE(connect());
    client_.send(ours_, numbered(kMessage + 1, 1));
    ASSERT_NO_FATAL_FAILURE(end(theirs_));
    client_.fabric->end(ours_);
  }
  ASSERT_NO_FATAL_FAILURE(connect());
  client_.send(ours_, {7});
  until([&] { return server_.messages[theirs_].size() == 1; });
}

// Its receive queue is full. Others still find buffers to send from, and after a while it is gone.
TEST_P(SmallFabricTest, APeerThatTakesNoMessages) {
  Side stuck({.message_bytes = kMessage, .receives = 1}, GetParam().provider);
  sides_ = {&server_, &stuck};
  ASSERT_NO_FATAL_FAILURE(connect(stuck));
  const ConnectionId bad = theirs_;
  sides_ = {&server_, &client_};
  EXPECT_LE(fill(bad), 8u);  // half of them
  ASSERT_NO_FATAL_FAILURE(fill_transport(bad));
  ASSERT_NO_FATAL_FAILURE(connect());
  EXPECT_GT(fill(theirs_), 0u);
  until([&] { return !client_.messages[ours_].empty(); });
  EXPECT_FALSE(server_.failed.contains(bad));
  ASSERT_NO_FATAL_FAILURE(end(bad));
  EXPECT_FALSE(server_.failed.contains(theirs_));
  // All that it had are back, and who waited is told.
  until([&] { return std::ranges::count(server_.sendable, theirs_) > 0; });
  EXPECT_GE(fill(theirs_), 8u);
}

// All of many connections want to send at once, with fewer buffers than connections.
TEST_P(SmallFabricTest, MoreConnectionsThanBuffers) {
  constexpr size_t kConnections = 40;
  std::map<ConnectionId, int> left;
  for (size_t i = 0; i < kConnections; ++i) {
    ASSERT_NO_FATAL_FAILURE(connect());
    left[theirs_] = 20;
  }
  const auto send = [&](ConnectionId connection) {
    int& count = left[connection];
    while (count > 0 && !server_.fabric->message_room(connection).empty()) {
      server_.fabric->send(connection, 10);
      --count;
    }
  };
  for (const auto& [connection, count] : left) send(connection);
  until([&] {
    for (const ConnectionId connection : std::exchange(server_.sendable, {})) send(connection);
    size_t all = 0;
    for (const auto& [connection, messages] : client_.messages) all += messages.size();
    return all == 20 * kConnections;
  });
}

// With a completion queue that would overflow if each connection posted what it may.
TEST(Fabric, ACompletionQueueThatIsSmall) {
  class Small : public FabricTest {
   public:
    Small() : FabricTest(kPlaces[0], {.completions = 600}) {}
    void TestBody() override {
      constexpr OperationId kEach = 300;
      Bytes chunks(size_t{64} * 4096);
      Bytes memory(size_t{64} * 4096, 7);
      ASSERT_TRUE(server_.fabric->add_memory(chunks.data(), chunks.size(), false));
      const auto key = client_.fabric->add_memory(memory.data(), memory.size(), true);
      const auto address = key->address;
      for (OperationId i = 0; i < 5; ++i) ASSERT_NO_FATAL_FAILURE(connect());
      for (OperationId i = 0; i < 5 * kEach; ++i) {
        const size_t at = i % 64 * 4096;
        server_.fabric->read(server_.connected[i / kEach],
                             std::vector<Remote>{{address + at, key->remote, 4096}},
                             std::vector<Local>{{chunks.data() + at, 4096, 4096, 1}}, i);
      }
      until([&] { return server_.done.size() == 5 * kEach; });
      EXPECT_TRUE(std::ranges::all_of(server_.done, [](const auto& one) { return one.second; }));
      EXPECT_EQ(chunks, memory);
    }
  };
  Small().TestBody();
}

class KilledPeerTest : public FabricTest, public ::testing::WithParamInterface<Place> {
 protected:
  KilledPeerTest() : FabricTest(GetParam()) {}
  ~KilledPeerTest() override { kill_peer(); }
  void start_peer() {
    const std::string port = std::to_string(port_);
    const std::array<char*, 5> arguments{const_cast<char*>(VERBENA_FABRIC_PEER),
                                         const_cast<char*>(host()), const_cast<char*>(port.c_str()),
                                         const_cast<char*>(GetParam().provider), nullptr};
    ASSERT_EQ(posix_spawn(&peer_, arguments[0], nullptr, nullptr, arguments.data(), environ), 0);
    until([&] { return !server_.messages.empty(); });
    const auto& [connection, messages] = *server_.messages.begin();
    theirs_ = connection;
    ASSERT_EQ(messages.at(0).size(), sizeof remote_);
    std::memcpy(&remote_, messages[0].data(), sizeof remote_);
  }
  void kill_peer() {
    if (peer_ == 0) return;
    kill(peer_, SIGKILL);
    waitpid(peer_, nullptr, 0);
    peer_ = 0;
  }

  pid_t peer_ = 0;
  Remote remote_;
};
INSTANTIATE_TEST_SUITE_P(On, KilledPeerTest, ::testing::ValuesIn(places()), kNameOfPlace);

// While RDMA is under way, both ways: each operation is told of once, and then the end.
TEST_P(KilledPeerTest, AllOperationsEnd) {
  constexpr OperationId kOperations = 200;
  sides_ = {&server_};
  ASSERT_NO_FATAL_FAILURE(listen());
  ASSERT_NO_FATAL_FAILURE(start_peer());
  auto memory = std::make_unique<Bytes>(remote_.length);
  const auto added = server_.fabric->add_memory(memory->data(), memory->size(), false);
  ASSERT_TRUE(added);
  const std::vector<Remote> theirs{remote_};
  const std::vector<Local> ours{{memory->data(), remote_.length, remote_.length, 1}};
  for (OperationId i = 0; i < kOperations; ++i) {
    if (i % 2 == 0) {
      server_.fabric->read(theirs_, theirs, ours, i);
    } else {
      server_.fabric->write(theirs_, ours, theirs, i);
    }
  }
  until([&] { return server_.done.size() >= 3; });
  kill_peer();
  until([&] { return server_.failed.contains(theirs_); });
  server_.fabric->end(theirs_);
  until([&] { return server_.ended.size() == 1; });
  EXPECT_EQ(server_.done.size(), kOperations);
  EXPECT_TRUE(server_.done[0]);
  EXPECT_FALSE(server_.done[kOperations - 1]);
  server_.fabric->remove_memory(*added);
  memory.reset();
  // Others come.
  sides_ = {&server_, &client_};
  ASSERT_NO_FATAL_FAILURE(connect());
}

// It is stopped amid reads of its memory, and goes on when ours is free again.
TEST_P(KilledPeerTest, AStoppedPeer) {
  constexpr OperationId kReads = 100;
  sides_ = {&server_};
  ASSERT_NO_FATAL_FAILURE(listen());
  ASSERT_NO_FATAL_FAILURE(start_peer());
  Bytes memory(remote_.length);
  ASSERT_TRUE(server_.fabric->add_memory(memory.data(), memory.size(), false));
  const std::vector<Local> ours{{memory.data(), remote_.length, remote_.length, 1}};
  for (OperationId i = 0; i < kReads; ++i) {
    server_.fabric->read(theirs_, std::vector<Remote>{remote_}, ours, i);
  }
  until([&] { return !server_.done.empty(); });
  kill(peer_, SIGSTOP);
  server_.fabric->end(theirs_);
  until([&] { return server_.ended.size() == 1; });
  EXPECT_EQ(server_.done.size(), kReads);
  std::ranges::fill(memory, 0xaa);
  kill(peer_, SIGCONT);
  // It ends by itself, for its connection has ended.
  int status = 0;
  for (int i = 0; i < 6000 && waitpid(peer_, &status, WNOHANG) == 0; ++i) {
    static_cast<void>(server_.fabric->poll(server_));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(WIFEXITED(status)) << status;
  peer_ = 0;
  EXPECT_EQ(std::ranges::count(memory, 0xaa), std::ssize(memory));
}

}  // namespace
}  // namespace verbena::fabric
