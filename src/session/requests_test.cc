// SPDX-License-Identifier: Apache-2.0
// Requests in one session: windows, limits, data and its CRC, what a hostile client sends.
#include <numeric>

#include <gtest/gtest.h>

#include "base/block_sums.h"
#include "base/endian.h"
#include "session/pair_fixture.h"

namespace verbena::session {
namespace {

using protocol::EndReason;
using protocol::Fault;
using protocol::ObjectRef;
using protocol::Status;

constexpr Time kFar = 1000 * kSecond;
constexpr ObjectId kObject{3, 9};

uint32_t crc_of(std::span<const uint8_t> bytes) {
  return crc32_finish(crc32_msb_update(kCrc32Start, bytes));
}

// Two pieces of memory, as one buffer of a caller.
struct Memory {
  explicit Memory(size_t length) : bytes(length) { std::iota(bytes.begin(), bytes.end(), 1); }
  [[nodiscard]] std::vector<Buffer> buffers() {
    const auto half = static_cast<uint32_t>(bytes.size() / 2);
    const auto rest = static_cast<uint32_t>(bytes.size()) - half;
    return {{bytes.data(), half, 11, 0x1000}, {bytes.data() + half, rest, 12, 0x200000}};
  }
  std::vector<uint8_t> bytes;
};

// What a server without faults says; a read's data is `data`.
protocol::Response good_answer(const protocol::Request& request, std::span<const uint8_t> data) {
  const auto& io = std::get<protocol::IoRequest>(request);
  protocol::IoResponse response{.kind = io.kind,
                                .plain = io.plain,
                                .id = io.id,
                                .object = kObject,
                                .offset = io.offset,
                                .length = io.length,
                                .crc = io.crc};
  if (io.kind == protocol::IoKind::kRead) {
    response.data_inline = io.segments.empty();
    response.length = data.size();
    response.crc = crc_of(data);
    if (response.data_inline) response.payload = data;
  }
  return response;
}

class Requests : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(pair_.connect()); }
  // The server's fault, by a message as its client would send it.
  void expect_ended(const Pair::Bytes& message, Fault fault) {
    EXPECT_FALSE(pair_.server->on_message(pair_.queue_pair, message, pair_.now));
    EXPECT_EQ(pair_.server->faults(fault), 1u);
    pair_.pump();
    ASSERT_EQ(pair_.ended.size(), 1u);
    EXPECT_EQ(pair_.ended[0].reason, EndReason::kProtocol);
    EXPECT_FALSE(pair_.client.active());
    pair_.advance(kSecond);
    EXPECT_TRUE(pair_.client.active());  // it comes back
  }
  // A message that the client sent, once more or changed.
  Pair::Bytes some_message() {
    (void)pair_.client.submit(protocol::StatRequest{}, kFar, pair_.now);
    pair_.pump();
    return pair_.sent_messages.back();
  }

  Pair pair_;
};

TEST_F(Requests, InlineWriteAndRead) {
  Memory memory(1001);
  std::vector<uint8_t> stored;
  pair_.execute = [&](const protocol::Request& request) {
    const auto& io = std::get<protocol::IoRequest>(request);
    if (io.kind == protocol::IoKind::kWrite) {
      EXPECT_TRUE(io.segments.empty());
      EXPECT_EQ(crc_of(io.payload), io.crc);
      stored.assign(io.payload.begin(), io.payload.end());
    }
    return good_answer(request, stored);
  };
  const RequestId write =
      pair_.client.write(ObjectRef::by(kObject), 5, memory.buffers(), {}, kFar, pair_.now);
  pair_.pump();
  EXPECT_EQ(pair_.outcome(write), Outcome::kDone);
  EXPECT_EQ(stored, memory.bytes);
  Memory other(1001);
  std::ranges::fill(other.bytes, 0);
  const RequestId read =
      pair_.client.read(ObjectRef::by("n"), 5, other.buffers(), {}, kFar, pair_.now);
  pair_.pump();
  EXPECT_EQ(pair_.outcome(read), Outcome::kDone);
  EXPECT_EQ(pair_.completion(read)->length, 1001u);
  EXPECT_EQ(pair_.completion(read)->object, kObject);
  EXPECT_EQ(other.bytes, memory.bytes);
}

TEST_F(Requests, AboveTheInlineLimitTheServerGetsSegments) {
  Memory memory(100'000);
  pair_.execute = [&](const protocol::Request& request) {
    const auto& io = std::get<protocol::IoRequest>(request);
    EXPECT_EQ(io.segments, (protocol::SegmentList{{0x1000, 11, 50'000}, {0x200000, 12, 50'000}}));
    EXPECT_TRUE(io.payload.empty());
    return good_answer(request, memory.bytes);
  };
  const RequestId write =
      pair_.client.write(ObjectRef::by(kObject), 0, memory.buffers(), {}, kFar, pair_.now);
  const RequestId read =
      pair_.client.read(ObjectRef::by(kObject), 0, memory.buffers(), {}, kFar, pair_.now);
  pair_.pump();
  EXPECT_EQ(pair_.outcome(write), Outcome::kDone);
  EXPECT_EQ(pair_.outcome(read), Outcome::kDone);
}

TEST_F(Requests, DataAndEchoesAreChecked) {
  struct Case {
    const char* what;
    std::function<void(protocol::IoResponse&)> spoil;
  };
  for (const size_t length : {100u, 100'000u}) {
    for (const bool write : {false, true}) {
      for (const Case& spoilt : std::vector<Case>{
               {"CRC", [](auto& r) { r.crc ^= 1; }},
               {"object", [](auto& r) { r.object.low ^= 1; }},
               {"offset", [](auto& r) { r.offset += 1; }},
               {"length", [&](auto& r) { write ? void(r.length -= 1) : void(r.crc += 1); }}}) {
        Memory memory(length);
        pair_.execute = [&](const protocol::Request& request) {
          protocol::Response response = good_answer(request, memory.bytes);
          spoilt.spoil(std::get<protocol::IoResponse>(response));
          return response;
        };
        const RequestId id = write ? pair_.client.write(ObjectRef::by(kObject), 0, memory.buffers(),
                                                        {}, kFar, pair_.now)
                                   : pair_.client.read(ObjectRef::by(kObject), 0, memory.buffers(),
                                                       {}, kFar, pair_.now);
        pair_.pump();
        EXPECT_EQ(pair_.outcome(id), Outcome::kCorrupted) << spoilt.what << " " << length;
        EXPECT_FALSE(pair_.completion(id)->detail.empty());
      }
    }
  }
}

// Its caller is told the CRC, and compares; what comes with the message is compared in any case.
TEST_F(Requests, ACallerMayCheckWhatItReads) {
  for (const size_t length : {100u, 100'000u}) {
    Memory memory(length);
    pair_.execute = [&](const protocol::Request& request) {
      protocol::Response response = good_answer(request, memory.bytes);
      std::get<protocol::IoResponse>(response).crc ^= 1;
      return response;
    };
    const RequestId id = pair_.client.read(ObjectRef::by(kObject), 0, memory.buffers(),
                                           {.caller_checks = true}, kFar, pair_.now);
    pair_.pump();
    EXPECT_EQ(pair_.outcome(id), length == 100 ? Outcome::kCorrupted : Outcome::kDone);
    EXPECT_EQ(pair_.completion(id)->crc,
              crc32_finish(crc32_msb_update(kCrc32Start, memory.bytes)) ^ 1);
  }
}

TEST_F(Requests, AShortReadIsFine) {
  Memory memory(100);
  const std::vector<uint8_t> data{1, 2, 3};
  pair_.execute = [&](const protocol::Request& request) { return good_answer(request, data); };
  const RequestId id =
      pair_.client.read(ObjectRef::by(kObject), 0, memory.buffers(), {}, kFar, pair_.now);
  pair_.pump();
  EXPECT_EQ(pair_.outcome(id), Outcome::kDone);
  EXPECT_EQ(pair_.completion(id)->length, 3u);
}

TEST_F(Requests, TheWindowIsFilledAndNotExceeded) {
  pair_.hold_requests = true;
  std::vector<RequestId> ids;
  for (int i = 0; i < 300; ++i) {
    ids.push_back(pair_.client.submit(protocol::StatRequest{}, kFar, pair_.now));
  }
  pair_.pump();
  EXPECT_EQ(pair_.held.size(), 128u);
  // In any order.
  while (!pair_.held.empty()) {
    pair_.answer_held(pair_.random.below(pair_.held.size()));
    pair_.pump();
  }
  for (const RequestId id : ids) EXPECT_EQ(pair_.outcome(id), Outcome::kDone);
  EXPECT_EQ(pair_.server->counter(ServerCounter::kBadMessages), 0u);
}

// One that takes long does not make the server remember more than it said.
TEST_F(Requests, TheResultSpanIsKept) {
  pair_.hold_requests = true;
  const RequestId slow = pair_.client.submit(protocol::FlushRequest{}, kFar, pair_.now);
  pair_.pump();
  pair_.hold_requests = false;
  RequestId last = 0;
  for (int i = 0; i < 2000; ++i) {
    last = pair_.client.submit(protocol::DeleteRequest{}, kFar, pair_.now);
    pair_.pump();
  }
  EXPECT_EQ(pair_.completion(last), nullptr);
  EXPECT_EQ(pair_.completions.size(), 1023u);
  pair_.answer_held(0);
  pair_.pump();
  EXPECT_EQ(pair_.outcome(slow), Outcome::kDone);
  EXPECT_EQ(pair_.outcome(last), Outcome::kDone);
}

// A client that gave up a request is not allowed one more for it.
TEST_F(Requests, WhatWasGivenUpStillCountsInTheWindow) {
  pair_.hold_requests = true;
  for (int i = 0; i < 200; ++i) {
    const RequestId id = pair_.client.submit(protocol::StatRequest{}, kFar, pair_.now);
    pair_.pump();
    pair_.client.cancel(id, pair_.now);
    pair_.pump();
    EXPECT_EQ(pair_.outcome(id), Outcome::kCancelled);
  }
  EXPECT_EQ(pair_.held.size(), 128u);
  EXPECT_EQ(pair_.server->counter(ServerCounter::kBadMessages), 0u);
  while (!pair_.held.empty()) pair_.answer_held(0);
  EXPECT_TRUE(pair_.client.active());
  EXPECT_EQ(pair_.client.faults(), 0u);
}

TEST_F(Requests, InvalidOnesEndWithoutBeingSent) {
  const std::string name(2000, 'n');
  const RequestId bad_name =
      pair_.client.submit(protocol::CreateRequest{.name = name}, kFar, pair_.now);
  Memory memory(32u << 20);
  const RequestId too_long =
      pair_.client.read(ObjectRef::by(kObject), 0, memory.buffers(), {}, kFar, pair_.now);
  Memory small(100'000);
  std::vector<Buffer> pieces;
  for (uint32_t i = 0; i < 20; ++i) pieces.push_back({&small.bytes[i * 5000], 5000, 1, 1});
  const RequestId too_many =
      pair_.client.read(ObjectRef::by(kObject), 0, pieces, {}, kFar, pair_.now);
  pair_.pump();
  EXPECT_EQ(pair_.outcome(bad_name), Outcome::kInvalid);
  EXPECT_EQ(pair_.outcome(too_long), Outcome::kInvalid);
  EXPECT_EQ(pair_.outcome(too_many), Outcome::kInvalid);
  EXPECT_EQ(pair_.sent_messages.size(), 1u);  // CONNECT_INIT
}

TEST_F(Requests, HostileWrongKey) {
  Pair::Bytes message = some_message();
  message[protocol::kWordOffset] ^= 1;
  expect_ended(message, Fault::kKey);
}

TEST_F(Requests, HostileIdsOfOthers) {
  Pair::Bytes message = some_message();
  message[15] ^= 1;
  expect_ended(message, Fault::kIdentity);
}

TEST_F(Requests, HostileDamage) {
  Pair::Bytes message = some_message();
  message[40] ^= 1;
  expect_ended(message, Fault::kHeadCrc);
}

TEST_F(Requests, HostileBeyondTheWindow) {
  pair_.hold_requests = true;
  for (int i = 0; i < 128; ++i) {
    (void)pair_.client.submit(protocol::StatRequest{}, kFar, pair_.now);
  }
  pair_.pump();
  ASSERT_EQ(pair_.held.size(), 128u);
  Pair::Bytes message = pair_.sent_messages.back();
  uint8_t* const id = message.data() + protocol::kHeaderBytes;
  store_be64(id, load_be64(id) + 1);
  const size_t end = message.size() - protocol::kCrcBytes;
  store_be32(message.data() + end, protocol::head_crc_of({message, end, 0}));
  EXPECT_FALSE(pair_.server->on_message(pair_.queue_pair, message, pair_.now));
  EXPECT_EQ(pair_.server->faults(Fault::kWindow), 1u);
}

TEST_F(Requests, HostileReplay) { expect_ended(some_message(), Fault::kOrder); }

TEST_F(Requests, HostileTruncation) {
  Pair::Bytes message = some_message();
  message.resize(33);
  expect_ended(message, Fault::kShort);
}

TEST_F(Requests, HostileResponseAsRequest) {
  Pair::Bytes message = some_message();
  store_be64(message.data(), 120);
  expect_ended(message, Fault::kUnexpected);
}

// Of another session, whose owner is as genuine as this one's, on this queue pair.
TEST_F(Requests, HostileSecondConnectInit) {
  const Pair::Bytes init = pair_.sent_messages.front();
  pair_.server->on_queue_pair(100, pair_.now);
  EXPECT_FALSE(pair_.server->on_message(100, init, pair_.now));
  pair_.pump();
  ASSERT_EQ(pair_.closed_queue_pairs.size(), 1u);
  EXPECT_EQ(pair_.server->faults(Fault::kIdentity), 1u);
  EXPECT_TRUE(pair_.client.active());
}

TEST_F(Requests, UnknownTypesAreRefusedAndTheSessionGoesOn) {
  Pair::Bytes message = some_message();
  store_be64(message.data(), 99);
  store_be64(message.data() + protocol::kHeaderBytes, 1000);  // its id
  const size_t end = message.size() - protocol::kCrcBytes;
  store_be32(message.data() + end,
             protocol::head_crc_of({.message = message, .head_end = end, .crc_bytes = 0}));
  EXPECT_FALSE(pair_.server->on_message(pair_.queue_pair, message, pair_.now));
  EXPECT_EQ(pair_.server->counter(ServerCounter::kUnknownTypes), 1u);
  EXPECT_EQ(pair_.server->take_actions().size(), 1u);  // REFUSED
  EXPECT_TRUE(pair_.ended.empty());
}

TEST_F(Requests, BeyondTheSessionsLimits) {
  const auto header = protocol::decode_header(some_message());
  const auto send = [&](protocol::IoRequest io) {
    Pair::Bytes room(100'000);
    const auto size = protocol::encode(io, {header->fabric, header->session},
                                       protocol::Seal::with_key(header->word), room);
    room.resize(size.value());
    EXPECT_FALSE(pair_.server->on_message(pair_.queue_pair, room, pair_.now));
    const auto actions = pair_.server->take_actions();
    ASSERT_EQ(actions.size(), 1u);
    const auto response = protocol::decode_response(std::get<SendMessage>(actions[0]).bytes,
                                                    protocol::Seal::with_key(header->word));
    ASSERT_TRUE(response);
    EXPECT_EQ(protocol::status_of(*response), Status::kTooLarge);
  };
  send({.kind = protocol::IoKind::kRead, .id = 1000, .oldest = 1, .length = 32769});
  send({.kind = protocol::IoKind::kRead,
        .id = 1001,
        .oldest = 1,
        .length = (16u << 20) + 1,
        .segments = {{1, 1, 1u << 25}}});
}

// With a secret, the tag of a plain request could be used again.
TEST(RequestsWithASecret, PlainOnesAreRefused) {
  ServerOptions options;
  options.secret = "s";
  options.check_identity = false;
  ClientOptions client;
  client.secret = "s";
  Pair pair(options, client);
  ASSERT_TRUE(pair.connect());
  Pair::Bytes room(1000);
  const auto size = protocol::encode(protocol::IoRequest{.plain = true, .id = 1, .length = 5}, {},
                                     protocol::Seal::with_key(0), room);
  room.resize(size.value());
  EXPECT_FALSE(pair.server->on_message(pair.queue_pair, room, pair.now));
  EXPECT_EQ(pair.server->take_actions().size(), 1u);
}

// Checks that were switched off.
TEST(RequestsUnchecked, AnyKeyWillDo) {
  ServerOptions options;
  options.check_identity = false;
  Pair pair(options);
  ASSERT_TRUE(pair.connect());
  Pair::Bytes room(1000);
  const auto size =
      protocol::encode(protocol::StatRequest{.id = 7}, {}, protocol::Seal::with_key(123), room);
  room.resize(size.value());
  EXPECT_TRUE(pair.server->on_message(pair.queue_pair, room, pair.now));
}

// Plain requests, whose ids are places.
TEST_F(Requests, PlainOnesMayRepeatTheirIds) {
  const auto header = protocol::decode_header(some_message()).value();
  Pair::Bytes room(1000);
  const auto size = protocol::encode(
      protocol::IoRequest{.kind = protocol::IoKind::kRead, .plain = true, .id = 0, .length = 5},
      {header.fabric, header.session}, protocol::Seal::with_key(header.word), room);
  room.resize(size.value());
  for (int i = 0; i < 3; ++i) {
    const auto admitted = pair_.server->on_message(pair_.queue_pair, room, pair_.now);
    ASSERT_TRUE(admitted);
    const std::vector<uint8_t> data{1, 2, 3, 4, 5};
    Pair::Bytes answer(1000);
    EXPECT_NE(pair_.server->respond(admitted->session, admitted->request,
                                    good_answer(admitted->request, data), answer, pair_.now),
              0u);
  }
}

}  // namespace
}  // namespace verbena::session
