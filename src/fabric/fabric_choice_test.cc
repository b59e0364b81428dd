// SPDX-License-Identifier: Apache-2.0
#include "fabric/fabric_choice.h"

#include "fabric/fabric_fixture.h"

namespace verbena::fabric {
namespace {

TEST(FabricChoice, AsPeopleWriteIt) {
  EXPECT_EQ(parse_fabric("verbs"), FabricChoice{});
  EXPECT_EQ(parse_fabric("ofi"), FabricChoice{"tcp"});
  EXPECT_EQ(parse_fabric("ofi:shm"), FabricChoice{"shm"});
  EXPECT_EQ(parse_fabric("ofi:tcp;ofi_rxm"), FabricChoice{"tcp;ofi_rxm"});
  for (const char* const text : {"", "ofi:", "tcp", "Verbs", "verbs:x", "ofi "}) {
    const auto parsed = parse_fabric(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_NE(parsed.error().find("ofi:PROVIDER"), std::string::npos);
  }
}

TEST(FabricChoice, WhatIsNotSupported) {
  for (const char* const provider :
       {"no such provider", "sockets", "Sockets", "udp", "udp;ofi_rxd", "UDP;OFI_RXD"}) {
    EXPECT_FALSE(open_test_fabric({}, provider)) << provider;
  }
}

TEST(FabricChoice, EachOnce) {
  if (device_is_inside()) GTEST_SKIP() << "there is no libfabric";
  VerbsOptions options;
  options.libraries = VERBENA_LIBRARIES;
  const auto opened = open_fabrics({{"tcp"}, {}, {"tcp;ofi_rxm"}}, options);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().find("twice"), std::string::npos);
}

// Locks of killed peers would stop it.
TEST(FabricChoice, ShmIsRefused) {
  if (device_is_inside()) GTEST_SKIP() << "there is no libfabric";
  if (is_unsafe()) GTEST_SKIP() << "VERBENA_UNSAFE_SHM is set";
  // libfabric finds it in upper case as well, and by what it is not.
  for (const char* const provider : {"shm", "SHM", "Shm"}) {
    const auto opened = open_test_fabric({}, provider);
    ASSERT_FALSE(opened) << provider;
    EXPECT_NE(opened.error().find("shm is not supported"), std::string::npos) << opened.error();
  }
  const auto other = open_test_fabric({}, "^tcp");
  EXPECT_TRUE(!other || (*other)->kind() != "ofi:shm");
}

TEST(FabricChoice, WhereProvidersAreListed) {
  if (device_is_inside()) GTEST_SKIP() << "there is no libfabric";
  const auto opened = open_test_fabric({}, "no_such_provider");
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().find("no_such_provider"), std::string::npos) << opened.error();
  EXPECT_NE(opened.error().find("fi_info"), std::string::npos) << opened.error();
}

// A server of two fabrics, and a client on each.
class SeveralFabricsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_is_inside()) GTEST_SKIP() << "there is no libfabric";
    const std::array<const char*, 2> providers{"", "tcp"};
    for (size_t i = 0; i < clients_.size(); ++i) {
      auto client = open_test_fabric({}, providers[i]);
      ASSERT_TRUE(client) << client.error();
      clients_[i].fabric = std::move(*client);
    }
    VerbsOptions options;
    options.libraries = VERBENA_LIBRARIES;
    auto opened = open_fabrics({{}, {"tcp"}}, options);
    ASSERT_TRUE(opened) << opened.error();
    server_.fabric = std::move(*opened);
    ASSERT_TRUE(server_.fabric->listen({"127.0.0.1", 0}));
  }
  void until(const std::function<bool()>& so) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!so()) {
      ASSERT_LT(std::chrono::steady_clock::now(), give_up);
      size_t happened = 0;
      std::vector<pollfd> fds;
      const std::array<Side*, 3> sides{&server_, &clients_[0], &clients_[1]};
      for (Side* const side : sides) {
        side->fabric->arm();
        happened += side->fabric->poll(*side);
        fds.push_back({side->fabric->fd(), POLLIN, 0});
      }
      if (happened == 0) ::poll(fds.data(), fds.size(), 30'000);
    }
  }
  Side server_{NoFabric{}};
  std::array<Side, 2> clients_{Side{NoFabric{}}, Side{NoFabric{}}};
};

TEST_F(SeveralFabricsTest, ClientsComeByEach) {
  const std::vector<Offer> offers = server_.fabric->offers();
  ASSERT_EQ(offers.size(), clients_.size());
  Bytes chunk(4096);
  const auto own = server_.fabric->add_memory(chunk.data(), chunk.size(), false);
  ASSERT_TRUE(own);
  for (size_t i = 0; i < clients_.size(); ++i) {
    Side& client = clients_[i];
    EXPECT_EQ(offers[i].kind, client.fabric->kind());
    const ConnectionId ours = client.fabric->connect({"127.0.0.1", offers[i].port});
    until([&] { return server_.connected.size() == i + 1 && !client.connected.empty(); });
    const ConnectionId theirs = server_.connected.back();
    // Messages both ways, and a read: each over the client's fabric.
    client.send(ours, {static_cast<uint8_t>(i)});
    server_.send(theirs, {7});
    Bytes memory = numbered(4096, static_cast<uint8_t>(i));
    const auto key = client.fabric->add_memory(memory.data(), memory.size(), true);
    ASSERT_TRUE(key);
    server_.fabric->read(theirs, std::vector<Remote>{{key->address, key->remote, 4096}},
                         std::vector<Local>{{chunk.data(), 4096, 4096, 1}}, i);
    until([&] {
      return server_.done.contains(i) && !server_.messages[theirs].empty() &&
             !client.messages[ours].empty();
    });
    EXPECT_TRUE(server_.done[i]);
    EXPECT_EQ(chunk, memory);
    EXPECT_EQ(server_.messages[theirs].at(0), Bytes{static_cast<uint8_t>(i)});
    server_.fabric->end(theirs);
    until([&] { return server_.ended.size() == i + 1 && client.failed.contains(ours); });
    EXPECT_EQ(server_.ended.back(), theirs);
    client.fabric->end(ours);
    until([&] { return client.ended.size() == 1; });
    client.fabric->remove_memory(*key);
  }
  server_.fabric->remove_memory(*own);
}

}  // namespace
}  // namespace verbena::fabric
