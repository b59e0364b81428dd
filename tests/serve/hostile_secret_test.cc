// SPDX-License-Identifier: Apache-2.0
// Attacks on a server with a shared secret, by those who do not have it, and by those who have but
// want to be somebody else.
#include <string>
#include <vector>

#include "base/endian.h"
#include "serve/hostile.h"

namespace verbena::serve {
namespace {

using protocol::EndReason;
using protocol::Fault;

class HostileSecret : public HostileFixture {
 protected:
  HostileSecret() : HostileFixture("sesame") {}

  // A connection that has said HELLO and got a CHALLENGE.
  struct Challenged {
    UniqueFd side;
    session::Transcript transcript;
  };
  [[nodiscard]] Challenged challenge(const Bytes& hello) const {
    Challenged made{connect_side(target_.host(), target_.port()), {hello, {}, {}}};
    EXPECT_TRUE(send_side(made.side.get(), hello));
    const auto frame = read_frame(made.side.get());
    EXPECT_TRUE(frame && frame->front() == protocol::Challenge::kType);
    if (frame) made.transcript.challenge = protocol::with_length(*frame);
    return made;
  }
  [[nodiscard]] Bytes hello() {
    protocol::Hello hello{.features = protocol::kFeatureSecret};
    for (uint8_t& byte : hello.client) byte = static_cast<uint8_t>(random_.next());
    for (uint8_t& byte : hello.nonce) byte = static_cast<uint8_t>(random_.next());
    return protocol::frame_of(hello);
  }
  // The server says goodbye for this reason, and closes the connection.
  static void expect_goodbye(int side, EndReason reason) {
    const auto frame = read_frame(side);
    ASSERT_TRUE(frame) << "closed without a word";
    const auto message = protocol::decode_frame(*frame);
    ASSERT_TRUE(message);
    const auto* const goodbye = std::get_if<protocol::Goodbye>(&*message);
    ASSERT_NE(goodbye, nullptr);
    EXPECT_EQ(goodbye->reason, reason) << goodbye->detail;
    EXPECT_FALSE(read_frame(side));
  }
  void expect_refused(const Challenged& with, const Bytes& frame, EndReason reason) {
    ASSERT_TRUE(send_side(with.side.get(), frame));
    expect_goodbye(with.side.get(), reason);
  }
  [[nodiscard]] uint64_t faults(Fault fault) {
    return target_.ask("status")["fault" + std::to_string(static_cast<int>(fault))];
  }
};

TEST_F(HostileSecret, NobodyComesInWithoutIt) {
  SCOPED_TRACE(testing::Message() << "VERBENA_SERVE_SEED=" << seed_);
  GoodClient good(target_, random_.next(), secret_);
  const uint64_t before = target_.ask("status")["begun"];
  // A HELLO that says that there is none.
  {
    const UniqueFd side = connect_side(target_.host(), target_.port());
    ASSERT_TRUE(send_side(side.get(), protocol::frame_of(protocol::Hello{})));
    expect_goodbye(side.get(), EndReason::kSecretRequired);
  }
  for (int i = 0; i < 20; ++i) {
    protocol::Proof wrong;
    for (uint8_t& byte : wrong.mac) byte = static_cast<uint8_t>(random_.next());
    expect_refused(challenge(hello()), protocol::frame_of(wrong), EndReason::kWrongSecret);
  }
  {
    const Challenged with = challenge(hello());
    const protocol::Proof other{.mac = session::client_mac("barley", with.transcript)};
    expect_refused(with, protocol::frame_of(other), EndReason::kWrongSecret);
  }
  // The right one, but one bit.
  for (size_t bit = 0; bit < 256; bit += 37) {
    const Challenged with = challenge(hello());
    protocol::Proof proof{.mac = session::client_mac(secret_, with.transcript)};
    proof.mac[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8);
    expect_refused(with, protocol::frame_of(proof), EndReason::kWrongSecret);
  }
  EXPECT_EQ(target_.ask("status")["begun"], before);
  good.finish();
}

// What was heard on the network is of no use.
TEST_F(HostileSecret, WhatWasHeardIsOfNoUse) {
  SCOPED_TRACE(testing::Message() << "VERBENA_SERVE_SEED=" << seed_);
  GoodClient good(target_, random_.next(), secret_);
  // Of a handshake that succeeded, all is known.
  const Bytes said = hello();
  const Challenged genuine = challenge(said);
  const Bytes proof =
      protocol::frame_of(protocol::Proof{.mac = session::client_mac(secret_, genuine.transcript)});
  ASSERT_TRUE(send_side(genuine.side.get(), proof));
  const auto frame = read_frame(genuine.side.get());
  ASSERT_TRUE(frame);
  const auto decoded = protocol::decode_frame(*frame);
  ASSERT_TRUE(decoded);
  const auto* const welcome = std::get_if<protocol::Welcome>(&*decoded);
  ASSERT_NE(welcome, nullptr);
  EXPECT_EQ(welcome->key, 0U);
  const uint64_t before = target_.ask("status")["begun"];

  // Said again: the challenge is another one.
  expect_refused(challenge(said), proof, EndReason::kWrongSecret);
  // The server's own MAC, and its own challenge, sent back.
  expect_refused(challenge(hello()), protocol::frame_of(protocol::Proof{.mac = welcome->mac}),
                 EndReason::kWrongSecret);
  const Challenged reflecting = challenge(hello());
  expect_refused(reflecting, reflecting.transcript.challenge, EndReason::kProtocol);
  expect_refused(challenge(hello()), protocol::with_length(*frame), EndReason::kProtocol);
  // A challenge of another connection, answered by who has the secret.
  const Challenged one = challenge(hello());
  const Challenged two = challenge(hello());
  expect_refused(
      one, protocol::frame_of(protocol::Proof{.mac = session::client_mac(secret_, two.transcript)}),
      EndReason::kWrongSecret);
  EXPECT_EQ(target_.ask("status")["begun"], before);
  good.finish();
}

TEST_F(HostileSecret, FramesThatAreNone) {
  SCOPED_TRACE(testing::Message() << "VERBENA_SERVE_SEED=" << seed_);
  GoodClient good(target_, random_.next(), secret_);
  const uint64_t before = target_.ask("status")["begun"];
  // A PROOF that is shorter or longer than one, or of no length, or endless.
  const Bytes proof = protocol::frame_of(protocol::Proof{});
  for (const size_t bytes : {1U, 2U, 32U, 34U, 1024U}) {
    Bytes other(bytes + 2, protocol::Proof::kType);
    store_be16(other.data(), static_cast<uint16_t>(bytes));
    expect_refused(challenge(hello()), other, EndReason::kProtocol);
  }
  expect_refused(challenge(hello()), {0, 0}, EndReason::kProtocol);
  expect_refused(challenge(hello()), {0xff, 0xff, protocol::Proof::kType}, EndReason::kProtocol);
  // Frames that belong elsewhere.
  expect_refused(challenge(hello()), hello(), EndReason::kProtocol);
  expect_refused(challenge(hello()), protocol::frame_of(protocol::SidePing{.cookie = 1}),
                 EndReason::kProtocol);
  {
    const UniqueFd side = connect_side(target_.host(), target_.port());
    ASSERT_TRUE(send_side(side.get(), proof));
    expect_goodbye(side.get(), EndReason::kProtocol);
  }
  // Gone in the midst of it.
  for (size_t bytes = 0; bytes < proof.size(); bytes += 5) {
    const Challenged with = challenge(hello());
    if (bytes > 0) send_side(with.side.get(), std::span(proof).first(bytes));
  }
  EXPECT_EQ(target_.ask("status")["begun"], before);
  // In a session, twice.
  auto client = raw();
  ASSERT_TRUE(client.open());
  ASSERT_TRUE(send_side(client.side(), proof));
  EXPECT_TRUE(client.ended_by_server());
  good.finish();
}

// Both have the secret. Neither can be the other, nor say anything twice.
TEST_F(HostileSecret, MessagesOfOthersAndOfBefore) {
  SCOPED_TRACE(testing::Message() << "VERBENA_SERVE_SEED=" << seed_);
  GoodClient good(target_, random_.next(), secret_);
  auto victim = raw();
  ASSERT_TRUE(victim.open());
  auto client = raw();
  const auto ping = [&](RawClient& from, const protocol::Address& address,
                        const protocol::Seal& seal) {
    const uint64_t id = from.next_id();
    return RawClient::encode(protocol::Ping{.id = id, .oldest = 1}, address, seal);
  };
  const auto ends = [&](const Bytes& message, Fault fault) {
    const uint64_t before = faults(fault);
    ASSERT_TRUE(client.send(message));
    ASSERT_TRUE(client.ended_by_server());
    EXPECT_EQ(faults(fault), before + 1) << protocol::text_of(fault);
  };
  const auto reopen = [&] { ASSERT_TRUE(client.open()); };

  reopen();
  ends(ping(client, client.address(), victim.seal()), Fault::kKey);
  reopen();
  ends(ping(victim, victim.address(), victim.seal()), Fault::kIdentity);
  // Without a tag, or with that of another message.
  reopen();
  ends(ping(client, client.address(), protocol::Seal::with_key(0)), Fault::kKey);
  reopen();
  {
    const Bytes one = ping(client, client.address(), client.seal());
    Bytes two = ping(client, client.address(), client.seal());
    std::copy_n(one.begin() + protocol::kWordOffset, 8, two.begin() + protocol::kWordOffset);
    ends(two, Fault::kKey);
  }
  // Again, in the same session, and what was valid in one before.
  reopen();
  const Bytes valid = ping(client, client.address(), client.seal());
  ASSERT_TRUE(client.send(valid));
  ASSERT_TRUE(client.take_answers(1));
  ends(valid, Fault::kOrder);
  reopen();
  ends(valid, Fault::kIdentity);
  reopen();
  {
    Bytes there = valid;  // with the ids of now
    store_be64(there.data() + 8, client.address().fabric);
    store_be64(there.data() + 16, client.address().session);
    const size_t end = there.size() - protocol::kCrcBytes;
    store_be32(there.data() + end, protocol::head_crc_of({there, end, 0}));
    ends(there, Fault::kKey);
  }
  // Plain requests have no tag that could not be used twice.
  reopen();
  const uint64_t id = client.next_id();
  ASSERT_TRUE(client.send(client.encode(protocol::IoRequest{.kind = protocol::IoKind::kRead,
                                                            .plain = true,
                                                            .id = id,
                                                            .offset = id * 4048,
                                                            .length = 9})));
  EXPECT_EQ(client.answer_to(id), protocol::Status::kTooLarge);

  // The victim has noticed nothing.
  const uint64_t last = victim.next_id();
  ASSERT_TRUE(victim.send(victim.encode(protocol::Ping{.id = last, .oldest = 1})));
  EXPECT_EQ(victim.answer_to(last), protocol::Status::kOk);
  good.finish();
}

}  // namespace
}  // namespace verbena::serve
