// SPDX-License-Identifier: Apache-2.0
// Peers over libfabric that do not keep to the rules on their control connections, or from their
// endpoints: they take nothing from others.
#include <algorithm>
#include <cstdint>
#include <fstream>

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fabric/fabric_fixture.h"
#include "fabric/ofi_fabric.h"
#include "fabric/raw_peer.h"
#include "support/descriptors.h"

namespace verbena::fabric {
namespace {

size_t resident_bytes() {
  size_t all = 0;
  size_t resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

class HostileGreetingTest : public FabricTest, public ::testing::WithParamInterface<Place> {
 protected:
  // Few that have only begun to connect.
  static constexpr uint32_t kBeginners = 4;

  HostileGreetingTest() : FabricTest(GetParam()) {}
  void SetUp() override {
    auto few = open_ofi_fabric({.libraries = VERBENA_LIBRARIES, .max_beginners = kBeginners});
    ASSERT_TRUE(few) << few.error();
    server_.fabric = std::move(*few);
    ASSERT_NO_FATAL_FAILURE(listen());
  }
  [[nodiscard]] RawPeer raw() const { return {host(), port_}; }
  // Which the server takes for a peer like others.
  void connect_raw(RawPeer& peer, const std::function<void(Greeting&)>& change = [](Greeting&) {}) {
    ASSERT_NO_FATAL_FAILURE(peer.open_endpoint(host()));
    Greeting greeting = peer.greeting();
    change(greeting);
    peer.say(greeting);
    std::optional<Greeting> answer;
    until([&] { return (answer = peer.heard()).has_value(); });
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->kind, Greeting::Kind::kAccept);
    ASSERT_NO_FATAL_FAILURE(peer.on_accept(*answer));
    const size_t before = server_.connected.size();
    peer.send(peer.nonce(), static_cast<uint8_t>(OfiMessage::kHello), 0);
    until([&] {
      peer.go_on();
      return server_.connected.size() > before;
    });
    theirs_ = server_.connected.back();
  }
  // Something other than a fabric, to which the client connects.
  [[nodiscard]] UniqueFd accept_client() {
    const auto at = resolve({host(), 0}, true);
    const UniqueFd listener(socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_storage name{};
    socklen_t bytes = at->ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    EXPECT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&*at), bytes), 0);
    EXPECT_EQ(::listen(listener.get(), 8), 0);
    EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &bytes), 0);
    const uint16_t port = ntohs(reinterpret_cast<const sockaddr_in&>(name).sin_port);  // in both
    ours_ = client_.fabric->connect({host(), port});
    return UniqueFd(accept(listener.get(), nullptr, nullptr));
  }
  // There is nothing to do, and the owner would sleep.
  [[nodiscard]] bool becomes_quiet() {
    for (int i = 0; i < 1000; ++i) {
      server_.fabric->arm();
      if (server_.fabric->poll(server_) > 0) continue;
      pollfd fd{server_.fabric->fd(), POLLIN, 0};
      if (::poll(&fd, 1, 0) == 0) return true;
    }
    return false;
  }
  void expect_others_go_on() {
    ASSERT_NO_FATAL_FAILURE(connect());
    client_.send(ours_, {7});
    until([&] { return server_.messages[theirs_].size() == 1; });
  }
};

std::vector<Place> with_sockets() {
  if (device_is_inside()) return {};
  return {kPlaces[2], kPlaces[3]};
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(HostileGreetingTest);
INSTANTIATE_TEST_SUITE_P(On, HostileGreetingTest, ::testing::ValuesIn(with_sockets()),
                         kNameOfPlace);

TEST_P(HostileGreetingTest, SilentPeersDoNotKeepOthersOut) {
  std::vector<RawPeer> silent;
  const Bytes begin{0x56, 0x52, 0x4f, 0x46, 1, 1};  // of a greeting
  for (uint32_t i = 0; i < 2 * kBeginners; ++i) {
    silent.push_back(raw());
    if (i % 2 == 0) silent.back().say(begin);
  }
  ASSERT_NO_FATAL_FAILURE(expect_others_go_on());
}

// An endpoint takes much memory: who has one must be connected soon.
TEST_P(HostileGreetingTest, PeersThatSayNoHelloAreFew) {
  std::vector<RawPeer> peers;
  for (uint32_t i = 0; i < 2 * kBeginners; ++i) {
    RawPeer& peer = peers.emplace_back(raw());
    ASSERT_NO_FATAL_FAILURE(peer.open_endpoint(host()));
    peer.say(peer.greeting());
    until([&] { return peer.heard() || peer.closed(); });
    // At once: not because it is late.
    for (int poll = 0; poll < 100; ++poll) static_cast<void>(server_.fabric->poll(server_));
    EXPECT_LE(std::ranges::count_if(peers, [](RawPeer& one) { return !one.closed(); }), kBeginners);
  }
  ASSERT_NO_FATAL_FAILURE(expect_others_go_on());
}

TEST_P(HostileGreetingTest, GreetingsThatAreWrong) {
  const std::vector<std::function<void(Greeting&)>> changes{
      [](Greeting& one) { one.address.clear(); },
      [](Greeting& one) { one.address.resize(1); },
      [](Greeting& one) { one.address.pop_back(); },
      [](Greeting& one) { one.address.push_back(0); },
      [](Greeting& one) { one.address.resize(500); },
      [](Greeting& one) { one.address[0] = 1; },  // AF_UNIX
      [](Greeting& one) { one.format ^= 1; },
      [](Greeting& one) { one.format = UINT32_MAX; },
      [](Greeting& one) { one.provider = "shm"; },
      [](Greeting& one) { one.provider.clear(); },
      [](Greeting& one) { one.kind = Greeting::Kind::kAccept; },
      [](Greeting& one) { one.kind = Greeting::Kind::kReject; },
  };
  RawPeer good = raw();
  ASSERT_NO_FATAL_FAILURE(good.open_endpoint(host()));
  for (const auto& change : changes) {
    RawPeer bad = raw();
    Greeting greeting = good.greeting();
    change(greeting);
    bad.say(greeting);
    until([&] { return bad.closed(); });
  }
  // Twice, or with what should come later: one counts.
  RawPeer twice = raw();
  ASSERT_NO_FATAL_FAILURE(twice.open_endpoint(host()));
  twice.say(twice.greeting());
  twice.say(twice.greeting());
  twice.say(Bytes{'D', 'E', 'D'});
  until([&] { return twice.closed(); });
  EXPECT_TRUE(server_.connected.empty());
  ASSERT_NO_FATAL_FAILURE(expect_others_go_on());
}

// Such messages may be of others, who have found the endpoint.
TEST_P(HostileGreetingTest, MessagesOfNobodyAreIgnored) {
  RawPeer peer = raw();
  ASSERT_NO_FATAL_FAILURE(connect_raw(peer));
  const ConnectionId theirs = theirs_;
  for (int i = 0; i < 100; ++i) {
    peer.send(peer.nonce() + 1, static_cast<uint8_t>(OfiMessage::kData), 1);
    peer.send_bytes(static_cast<size_t>(i % 16));
  }
  peer.send(peer.nonce(), static_cast<uint8_t>(OfiMessage::kData), 1, 5);
  until([&] {
    peer.go_on();
    return !server_.messages[theirs].empty();
  });
  EXPECT_EQ(server_.messages[theirs].at(0), Bytes(5));
  EXPECT_FALSE(server_.failed.contains(theirs));
}

TEST_P(HostileGreetingTest, MessagesThatAreWrong) {
  struct Wrong {
    OfiMessage kind;
    uint32_t count;
    size_t body;
  };
  for (const Wrong& wrong : {Wrong{OfiMessage{9}, 1, 4},           // of no kind
                             Wrong{OfiMessage::kImmediate, 1, 3},  // too short
                             Wrong{OfiMessage::kData, 0, 0},       // it had this count before
                             Wrong{OfiMessage::kData, UINT32_MAX, 0}}) {
    RawPeer peer = raw();
    ASSERT_NO_FATAL_FAILURE(connect_raw(peer));
    const ConnectionId theirs = theirs_;
    peer.send(peer.nonce(), static_cast<uint8_t>(wrong.kind), wrong.count, wrong.body);
    until([&] {
      peer.go_on();
      return server_.failed.contains(theirs);
    });
    server_.fabric->end(theirs);
    peer.say(Bytes{'D'});  // it is not waited for
    until([&] { return std::ranges::count(server_.ended, theirs) == 1; });
  }
  ASSERT_NO_FATAL_FAILURE(expect_others_go_on());
}

// Its connection is looked at no more until it is ended, however long that takes.
TEST_P(HostileGreetingTest, APeerThatResetsItsConnection) {
  RawPeer peer = raw();
  ASSERT_NO_FATAL_FAILURE(connect_raw(peer));
  peer.reset();
  until([&] { return server_.failed.contains(theirs_); });
  EXPECT_TRUE(becomes_quiet());
  server_.fabric->end(theirs_);
  until([&] { return server_.ended.size() == 1; });
}

// They wait, and the owner is not woken for them again and again.
TEST_P(HostileGreetingTest, NoDescriptorsForPeers) {
  EXPECT_TRUE(becomes_quiet());
  RawPeer waits = raw();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{.rlim_cur = open_descriptors() + 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  std::vector<UniqueFd> all;
  for (int fd = dup(0); fd >= 0; fd = dup(0)) all.emplace_back(fd);
  EXPECT_TRUE(becomes_quiet());
  all.clear();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  waits.say(Bytes(100, 1));
  until([&] { return waits.closed(); });
}

// It says that its endpoint is where somebody takes connections and does not answer.
TEST_P(HostileGreetingTest, AnEndpointThatDoesNotAnswer) {
  const size_t before = open_descriptors();
  const auto at = resolve({host(), 0}, true);
  const UniqueFd deaf(socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage name{};
  socklen_t bytes = at->ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  ASSERT_EQ(bind(deaf.get(), reinterpret_cast<const sockaddr*>(&*at), bytes), 0);
  ASSERT_EQ(::listen(deaf.get(), 8), 0);
  ASSERT_EQ(getsockname(deaf.get(), reinterpret_cast<sockaddr*>(&name), &bytes), 0);
  Bytes chunk(4096);
  const auto own = server_.fabric->add_memory(chunk.data(), chunk.size(), false);
  ASSERT_TRUE(own);
  {
    RawPeer peer = raw();
    ASSERT_NO_FATAL_FAILURE(connect_raw(peer, [&](Greeting& greeting) {
      const auto* const begin = reinterpret_cast<const uint8_t*>(&name);
      greeting.address.assign(begin, begin + bytes);
    }));
    server_.send(theirs_, {1, 2, 3});
    server_.fabric->read(theirs_, std::vector<Remote>{{64, 0x12345678, 4096}},
                         std::vector<Local>{{chunk.data(), 4096, 4096, 1}}, 1);
    until([&] {
      peer.go_on();
      return server_.failed.contains(theirs_);
    });
    server_.fabric->end(theirs_);
    until([&] { return server_.ended.size() == 1; });
    EXPECT_FALSE(server_.done[1]);
  }
  ASSERT_NO_FATAL_FAILURE(expect_others_go_on());
  server_.fabric->end(theirs_);
  until([&] { return server_.ended.size() == 2 && client_.failed.contains(ours_); });
  client_.fabric->end(ours_);
  until([&] { return client_.ended.size() == 1; });
  until([&] { return open_descriptors() <= before + 1; });  // and `deaf`
}

// Nobody knows whom they would be answered to. To send to nowhere crashes libfabric.
TEST_P(HostileGreetingTest, AMessageBeforeTheGreeting) {
  RawPeer peer(accept_client());
  ASSERT_NO_FATAL_FAILURE(peer.open_endpoint(host()));
  std::optional<Greeting> greeting;
  until([&] { return (greeting = peer.heard()).has_value(); });
  ASSERT_NO_FATAL_FAILURE(peer.on_accept(*greeting));
  peer.send(peer.nonce(), static_cast<uint8_t>(OfiMessage::kData), 0, 4);
  until([&] {
    peer.go_on();
    return client_.failed.contains(ours_) || !client_.connected.empty();
  });
  EXPECT_TRUE(client_.connected.empty());
  if (!client_.connected.empty()) {
    client_.send(ours_, {1});
    client_.fabric->flush();
  }
}

// Of those that come to the endpoint and say nothing, or not all, nothing is left.
TEST_P(HostileGreetingTest, WhoeverComesToTheEndpointLeavesNoDescriptors) {
  constexpr size_t kEach = 8;
  const size_t before = open_descriptors();
  {
    RawPeer peer = raw();
    ASSERT_NO_FATAL_FAILURE(peer.open_endpoint(host()));
    peer.say(peer.greeting());
    std::optional<Greeting> answer;
    until([&] { return (answer = peer.heard()).has_value(); });
    const uint16_t port =
        ntohs(reinterpret_cast<const sockaddr_in*>(answer->address.data())->sin_port);
    std::vector<RawPeer> strangers;
    for (size_t i = 0; i < kEach; ++i) {
      strangers.emplace_back(host(), port);
      if (i % 2 == 0) strangers.back().say(Bytes{3, 0});
    }
    // Of those that say something, libfabric keeps some.
    const size_t accepted = open_descriptors() + kEach / 2;
    until([&] { return open_descriptors() >= accepted; });
  }
  until([&] { return open_descriptors() <= before; });
  ASSERT_NO_FATAL_FAILURE(expect_others_go_on());
}

// There is no memory for the buffers of a connection: others go on.
TEST_P(HostileGreetingTest, NoMemoryForPeers) {
  Side poor{NoFabric{}};
  // More than there are addresses: some systems promise any memory that has one.
  auto opened = open_ofi_fabric({.libraries = VERBENA_LIBRARIES,
                                 .message_bytes = 1U << 24,
                                 .receives = 1U << 31,
                                 .sends = 1});
  ASSERT_TRUE(opened) << opened.error();
  poor.fabric = std::move(*opened);
  sides_.push_back(&poor);
  const auto at = poor.fabric->listen({host(), 0});
  ASSERT_TRUE(at) << at.error();
  ours_ = client_.fabric->connect({host(), at->port});
  until([&] { return client_.failed.contains(ours_); });
  EXPECT_NE(client_.failed[ours_].find("there is no memory for messages"), std::string::npos)
      << client_.failed[ours_];
  sides_.pop_back();
}

// Again and again: nothing is left of them.
TEST_P(HostileGreetingTest, ConnectionsLeaveNoDescriptors) {
  size_t after_few = SIZE_MAX;  // libfabric may close some a moment later
  for (size_t i = 0; i < 30; ++i) {
    ASSERT_NO_FATAL_FAILURE(expect_others_go_on());
    const bool server_first = i % 2 == 0;
    (server_first ? server_ : client_).fabric->end(server_first ? theirs_ : ours_);
    until([&] {
      return (server_first ? client_ : server_).failed.contains(server_first ? ours_ : theirs_);
    });
    (server_first ? client_ : server_).fabric->end(server_first ? ours_ : theirs_);
    until([&] { return server_.ended.size() == i + 1 && client_.ended.size() == i + 1; });
    if (i >= 4 && i < 10) after_few = std::min(after_few, open_descriptors());
  }
  until([&] { return open_descriptors() <= after_few; });
}

// Nor memory, which they take much of.
TEST_P(HostileGreetingTest, ConnectionsGiveTheirMemoryBack) {
  constexpr size_t kConnections = 20;
  constexpr size_t kEach = size_t{8} << 20;  // of each end, at least
  std::vector<std::pair<ConnectionId, ConnectionId>> all;
  malloc_trim(0);  // of other tests
  const size_t before = resident_bytes();
  for (size_t i = 0; i < kConnections; ++i) {
    ASSERT_NO_FATAL_FAILURE(connect());
    all.emplace_back(ours_, theirs_);
  }
  ASSERT_GT(resident_bytes(), before + 2 * kConnections * kEach);
  for (const auto& [ours, theirs] : all) {
    client_.fabric->end(ours);
    server_.fabric->end(theirs);
  }
  until([&] { return resident_bytes() < before + kConnections * kEach; });
}

// A sentence of the peer's is shown to people: it has no control characters.
TEST_P(HostileGreetingTest, ARejectionWithControlCharacters) {
  const UniqueFd accepted = accept_client();
  const std::string why = "no\x1b[2J\r\n\x9bmore";
  const auto answer = encode({.kind = Greeting::Kind::kReject, .data = {why.begin(), why.end()}});
  ASSERT_EQ(::send(accepted.get(), answer.data(), answer.size(), 0), std::ssize(answer));
  until([&] { return client_.failed.contains(ours_); });
  EXPECT_NE(client_.failed[ours_].find("no?[2J???more"), std::string::npos)
      << client_.failed[ours_];
}

}  // namespace
}  // namespace verbena::fabric
