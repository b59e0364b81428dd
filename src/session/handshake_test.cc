// SPDX-License-Identifier: Apache-2.0
// How sessions come about, or do not: secrets, versions, what others change on the way, limits.
#include <gtest/gtest.h>

#include "session/pair_fixture.h"

namespace verbena::session {
namespace {

using protocol::EndReason;

constexpr Duration kLong = 60 * kSecond;

ServerOptions server_with(const char* secret) {
  ServerOptions options;
  options.secret = secret;
  options.fabric_host = "192.0.2.7";
  options.fabric_port = 7471;
  return options;
}
ClientOptions client_with(const char* secret) {
  ClientOptions options;
  options.secret = secret;
  return options;
}

TEST(Handshake, ConnectsAndIsAnswered) {
  for (const char* secret : {"", "correct horse"}) {
    Pair pair(server_with(secret), client_with(secret));
    ASSERT_TRUE(pair.connect()) << pair.lost;
    ASSERT_EQ(pair.ready.size(), 1u);
    EXPECT_FALSE(pair.ready[0].resumed);
    EXPECT_EQ(pair.ready[0].server, pair.server->incarnation());
    const RequestId id = pair.client.submit(protocol::CreateRequest{.name = "a"}, kLong, pair.now);
    pair.pump();
    ASSERT_NE(pair.completion(id), nullptr);
    EXPECT_EQ(pair.outcome(id), Outcome::kDone);
    EXPECT_TRUE(pair.completion(id)->as<protocol::CreateResponse>());
  }
}

// A client says which fabric it uses, and is told that fabric's port, or that there is none.
TEST(Handshake, FabricsOfTheServer) {
  const auto connects = [](ServerOptions options, const char* fabric, uint16_t port) {
    ClientOptions client;
    if (*fabric != 0) client.fabric = protocol::number_of_fabric(fabric);
    Pair pair(std::move(options), client);
    return pair.connect() && pair.fabric_port == port;
  };
  ServerOptions options = server_with("");
  options.fabrics = {{"verbs", 7471}, {"ofi:shm", 4000}};
  EXPECT_TRUE(connects(options, "", 7471));
  EXPECT_TRUE(connects(options, "verbs", 7471));
  EXPECT_TRUE(connects(options, "ofi:shm", 4000));
  // A server of one fabric that does not say which.
  EXPECT_TRUE(connects(server_with(""), "ofi:shm", 7471));
  ClientOptions other;
  other.fabric = protocol::number_of_fabric("ofi:tcp;ofi_rxm");
  Pair pair(options, other);
  EXPECT_FALSE(pair.connect());
  ASSERT_TRUE(pair.refused);
  EXPECT_EQ(pair.refused->reason, EndReason::kNoFabric);
  EXPECT_NE(pair.refused->detail.find("verbs, ofi:shm"), std::string::npos);
}

TEST(Handshake, WithASecretNothingSecretIsSent) {
  Pair pair(server_with("correct horse"), client_with("correct horse"));
  std::vector<uint8_t> all;
  pair.tamper_to_client = [&](Pair::Bytes& bytes) {
    all.insert(all.end(), bytes.begin(), bytes.end());
  };
  pair.tamper_to_server = pair.tamper_to_client;
  ASSERT_TRUE(pair.connect());
  const std::string text(all.begin(), all.end());
  EXPECT_EQ(text.find("correct horse"), std::string::npos);
  // The key in WELCOME, behind type, version, incarnation and session id, is 0.
  EXPECT_NE(text.find(std::string(8, '\0') + '\0' + std::string("\0\0\x80\0", 4)),
            std::string::npos);
}

TEST(Handshake, OneEndWithoutTheSecretIsToldSo) {
  {
    Pair pair(server_with("correct horse"), client_with(""));
    EXPECT_FALSE(pair.connect());
    ASSERT_TRUE(pair.refused);
    EXPECT_EQ(pair.refused->reason, EndReason::kSecretRequired);
  }
  {
    Pair pair(server_with(""), client_with("correct horse"));
    EXPECT_FALSE(pair.connect());
    ASSERT_TRUE(pair.refused);
    EXPECT_EQ(pair.refused->reason, EndReason::kNoSecret);
    EXPECT_EQ(pair.refused->detail, "the client requires a shared secret, and the server has none");
  }
  {
    Pair pair(server_with("correct horse"), client_with("battery staple"));
    EXPECT_FALSE(pair.connect());
    ASSERT_TRUE(pair.refused);
    EXPECT_EQ(pair.refused->reason, EndReason::kWrongSecret);
    EXPECT_EQ(pair.server->sessions(), 0u);
  }
}

// Requests do not wait for what will not come.
TEST(Handshake, RefusedClientsRefuseRequests) {
  Pair pair(server_with("correct horse"), client_with(""));
  const RequestId before = pair.client.submit(protocol::StatRequest{}, kLong, pair.now);
  EXPECT_FALSE(pair.connect());
  EXPECT_EQ(pair.outcome(before), Outcome::kRefused);
  const RequestId after = pair.client.submit(protocol::StatRequest{}, kLong, pair.now);
  pair.pump();
  EXPECT_EQ(pair.outcome(after), Outcome::kRefused);
  pair.advance(kLong);
  EXPECT_EQ(pair.connection, 1u);
}

// Somebody in between changes one byte: there is no session, or it is as if nothing had changed.
TEST(Handshake, WithASecretNoByteCanBeChanged) {
  std::vector<size_t> lengths[2];
  {
    Pair pair(server_with("s"), client_with("s"));
    pair.tamper_to_server = [&](Pair::Bytes& bytes) { lengths[0].push_back(bytes.size()); };
    pair.tamper_to_client = [&](Pair::Bytes& bytes) { lengths[1].push_back(bytes.size()); };
    ASSERT_TRUE(pair.connect());
  }
  ASSERT_EQ(lengths[0].size(), 2u);  // HELLO, PROOF
  ASSERT_EQ(lengths[1].size(), 2u);  // CHALLENGE, WELCOME
  for (const size_t side : {0, 1}) {
    for (size_t frame = 0; frame < 2; ++frame) {
      for (size_t at = 0; at < lengths[side][frame]; ++at) {
        Pair pair(server_with("s"), client_with("s"));
        size_t count = 0;
        auto& tamper = side == 0 ? pair.tamper_to_server : pair.tamper_to_client;
        tamper = [&](Pair::Bytes& bytes) {
          if (count++ == frame) bytes[at] ^= 1;
        };
        EXPECT_FALSE(pair.connect()) << "side " << side << " frame " << frame << " byte " << at;
      }
    }
  }
}

// As above, by somebody who answers in the server's place.
TEST(Handshake, AClientWithASecretAcceptsNoWelcomeWithoutAChallenge) {
  Pair pair(server_with("s"), client_with("s"));
  pair.tamper_to_client = [](Pair::Bytes& bytes) {
    bytes = protocol::frame_of(protocol::Welcome{.version = 1, .session = 5, .key = 6});
  };
  EXPECT_FALSE(pair.connect());
  ASSERT_TRUE(pair.refused);
  EXPECT_EQ(pair.refused->reason, EndReason::kNoSecret);
}

TEST(Handshake, NoCommonVersion) {
  Pair pair;
  pair.tamper_to_server = [](Pair::Bytes& bytes) {
    bytes = protocol::frame_of(protocol::Hello{.min_version = 2, .max_version = 3});
  };
  EXPECT_FALSE(pair.connect());
  ASSERT_TRUE(pair.refused);
  EXPECT_EQ(pair.refused->reason, EndReason::kVersion);
  EXPECT_EQ(pair.refused->detail, "the server has version 1");
}

TEST(Handshake, ASilentConnectionIsClosed) {
  Pair pair;
  pair.server->on_connection(100, pair.now);
  pair.advance(4 * kSecond);
  EXPECT_TRUE(pair.closed_connections.empty());
  pair.advance(2 * kSecond);
  ASSERT_EQ(pair.closed_connections.size(), 1u);
  EXPECT_EQ(pair.closed_connections[0].connection, 100u);
  EXPECT_TRUE(pair.server->idle());
}

TEST(Handshake, AThousandSilentConnectionsKeepNobodyOut) {
  ServerOptions options;
  options.max_unauthenticated = 10;
  Pair pair(options);
  for (ConnectionId id = 1000; id < 2000; ++id) pair.server->on_connection(id, pair.now);
  pair.pump();
  EXPECT_EQ(pair.server->counter(ServerCounter::kEvictedConnections), 990u);
  EXPECT_TRUE(pair.connect());
}

TEST(Handshake, GarbageEndsTheConnection) {
  for (const Pair::Bytes& bytes :
       {Pair::Bytes{0, 0}, Pair::Bytes{0xff, 0xff}, Pair::Bytes{0, 1, 99},
        protocol::frame_of(protocol::SidePing{}), protocol::frame_of(protocol::Proof{})}) {
    Pair pair;
    pair.server->on_connection(100, pair.now);
    pair.server->on_bytes(100, bytes, pair.now);
    pair.server->on_bytes(100, bytes, pair.now);  // what follows is not looked at
    pair.pump();
    ASSERT_EQ(pair.closed_connections.size(), 1u);
    EXPECT_TRUE(pair.server->idle());
  }
}

TEST(Handshake, TooManySessions) {
  ServerOptions options;
  options.max_sessions = 0;
  Pair pair(options);
  EXPECT_FALSE(pair.connect());
  EXPECT_FALSE(pair.refused);  // it tries again
  EXPECT_EQ(pair.server->clients(), 0u);
  pair.advance(10 * kSecond);
  EXPECT_GT(pair.connection, 3u);
  EXPECT_LT(pair.connection, 30u);  // less and less often
}

TEST(Handshake, ASessionWithoutAQueuePairEnds) {
  Pair pair;
  pair.server->on_connection(100, pair.now);
  pair.server->on_bytes(100, protocol::frame_of(protocol::Hello{}), pair.now);
  pair.pump();
  EXPECT_EQ(pair.server->sessions(), 1u);
  pair.advance(11 * kSecond);
  EXPECT_EQ(pair.server->sessions(), 0u);
  ASSERT_EQ(pair.ended.size(), 1u);
  EXPECT_EQ(pair.ended[0].reason, EndReason::kTimeout);
}

TEST(Handshake, AQueuePairWithoutASessionIsClosed) {
  ServerOptions options;
  options.max_unbound = 2;
  Pair pair(options);
  for (QueuePairId id = 101; id <= 103; ++id) pair.server->on_queue_pair(id, pair.now);
  pair.pump();
  ASSERT_EQ(pair.closed_queue_pairs.size(), 1u);  // one too many
  EXPECT_EQ(pair.closed_queue_pairs[0].queue_pair, 101u);
  EXPECT_FALSE(pair.server->on_message(102, Pair::Bytes(100), pair.now));
  pair.pump();
  EXPECT_EQ(pair.closed_queue_pairs.size(), 2u);
  pair.advance(11 * kSecond);
  EXPECT_EQ(pair.closed_queue_pairs.size(), 3u);
  EXPECT_TRUE(pair.server->idle());
}

TEST(Handshake, SessionsWithoutAQueuePairKeepNobodyOut) {
  ServerOptions options;
  options.max_unbound = 5;
  Pair pair(options);
  for (ConnectionId id = 1000; id < 1100; ++id) {
    protocol::Hello hello;
    store_be64(hello.client.data(), id);
    pair.server->on_connection(id, pair.now);
    pair.server->on_bytes(id, protocol::frame_of(hello), pair.now);
  }
  pair.pump();
  EXPECT_EQ(pair.server->sessions(), 5u);
  EXPECT_TRUE(pair.connect());
}

// The WELCOME was lost, more than once: the client comes again, with what it knows.
TEST(Handshake, LostWelcomes) {
  for (const char* secret : {"", "s"}) {
    Pair pair(server_with(secret), client_with(secret));
    int lose = 3;
    pair.tamper_to_client = [&](Pair::Bytes& bytes) {
      if (bytes[2] != protocol::Welcome::kType || lose == 0) return;
      --lose;
      bytes.clear();
      pair.client.on_side_closed(pair.attempt, pair.now);
    };
    EXPECT_FALSE(pair.connect());
    pair.advance(kSecond);
    EXPECT_TRUE(pair.client.active());
    lose = 3;
    pair.cut();
    pair.advance(kSecond);
    EXPECT_TRUE(pair.client.active());
    EXPECT_EQ(pair.client.faults(), 0u);
    ASSERT_EQ(pair.ready.size(), 2u);
    EXPECT_TRUE(pair.ready[1].resumed);
  }
}

// Somebody who knows the client's instance, but none of its sessions.
TEST(Handshake, AnImpostorDoesNotEndASession) {
  Pair pair;
  protocol::Hello hello;
  pair.tamper_to_server = [&](Pair::Bytes& bytes) {
    const auto frame = protocol::decode_frame(std::span(bytes).subspan(2));
    if (frame && std::holds_alternative<protocol::Hello>(*frame)) {
      hello = std::get<protocol::Hello>(*frame);
    }
  };
  ASSERT_TRUE(pair.connect());
  hello.resume_session = pair.begun[0].session;
  hello.resume_key = 1;
  pair.server->on_connection(100, pair.now);
  pair.server->on_bytes(100, protocol::frame_of(hello), pair.now);
  pair.pump();
  EXPECT_EQ(pair.closed_connections.size(), 1u);
  EXPECT_TRUE(pair.client.active());
  EXPECT_TRUE(pair.ended.empty());
}

TEST(Handshake, ClientsThatAreAwayAreForgotten) {
  ServerOptions options;
  options.max_clients = 2;
  Pair pair(options);
  for (ConnectionId id = 101; id <= 103; ++id) {
    protocol::Hello hello;
    hello.client[0] = static_cast<uint8_t>(id);
    pair.server->on_connection(id, pair.now);
    pair.server->on_bytes(id, protocol::frame_of(hello), pair.now);
    pair.server->on_connection_closed(id, pair.now);
    pair.now += kMillisecond;
  }
  EXPECT_EQ(pair.server->clients(), 2u);
  pair.advance(200 * kSecond);
  EXPECT_EQ(pair.server->clients(), 0u);
  EXPECT_EQ(pair.server->counter(ServerCounter::kForgottenClients), 3u);
}

// The MACs and the key of docs/protocol.md, from frames that are given: made independently.
TEST(Secret, KnownValues) {
  Transcript transcript;
  transcript.hello = {1, 2, 3};
  transcript.challenge = {4, 5};
  transcript.proof = {6};
  const auto hex = [](std::span<const uint8_t> bytes) {
    std::string text;
    for (const uint8_t byte : bytes) {
      char two[3];
      std::snprintf(two, sizeof two, "%02x", byte);
      text += two;
    }
    return text;
  };
  const protocol::Welcome welcome{.version = 1, .session = 2, .fabric_port = 3};
  EXPECT_EQ(hex(client_mac("secret", transcript)),
            "96f8d7938bd314abe98240d1ceb31e433b0c75233ddcd37aa34d3dfa961a8f38");
  EXPECT_EQ(hex(server_mac("secret", transcript, welcome)),
            "5610e83e7e73b319612c49a190a5122fc2a6bfcb9284e15881097ed4121689f3");
  EXPECT_EQ(hex(session_key("secret", transcript, welcome)), "784de0c3f77f7341157b1e47c095fed7");
}

}  // namespace
}  // namespace verbena::session
