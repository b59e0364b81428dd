// SPDX-License-Identifier: Apache-2.0
#include "serve/attacks.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/endian.h"

namespace verbena::serve {
namespace {

using protocol::Fault;
using protocol::IoKind;
using protocol::IoRequest;
using protocol::ObjectRef;

const Bytes kHello{'h', 'e', 'l', 'l', 'o'};

// What everybody may ask.
Bytes ping(RawClient& client, uint64_t id) {
  return client.encode(protocol::Ping{.id = id, .oldest = 1, .data = kHello});
}
uint64_t send_ping(RawClient& client, const protocol::Address& address,
                   const protocol::Seal& seal) {
  const uint64_t id = client.next_id();
  client.send(
      RawClient::encode(protocol::Ping{.id = id, .oldest = 1, .data = kHello}, address, seal));
  return id;
}

// Makes the head CRC right again, of a message without user data, or with `behind` bytes after it.
void mend(Bytes& message, size_t behind) {
  const size_t end = message.size() - behind - protocol::kCrcBytes;
  store_be32(message.data() + end, protocol::head_crc_of({message, end, 0}));
}

// OBJ_READ of an object by its id, at `offset`.
Bytes read_at(RawClient& client, uint64_t id, uint64_t offset, uint64_t length) {
  Bytes message = client.encode(IoRequest{.kind = IoKind::kRead,
                                          .id = id,
                                          .oldest = id,
                                          .object = ObjectRef::by(ObjectId{1, 2}),
                                          .offset = 1,
                                          .length = 1});
  store_be64(message.data() + 0x33, offset);
  store_be64(message.data() + 0x3b, length);
  mend(message, protocol::kCrcBytes);
  return message;
}

// By RDMA, with memory that is not what it says.
uint64_t transfer(RawClient& client, IoKind kind, const protocol::Segment& segment) {
  const uint64_t id = client.next_id();
  client.send(client.encode(IoRequest{.kind = kind,
                                      .id = id,
                                      .oldest = id,
                                      .object = ObjectRef::by("target"),
                                      .length = segment.length,
                                      .segments = {segment}}));
  return id;
}

Attack identity(std::string name, Fault fault,
                std::function<uint64_t(RawClient&, const RawClient&, RandomSource&)> send) {
  return {.name = std::move(name), .fault = fault, .ends = true, .send = std::move(send)};
}

void add_identities(std::vector<Attack>& to) {
  to.push_back(identity("wrong key", Fault::kKey, [](RawClient& c, const RawClient&, auto& r) {
    return send_ping(c, c.address(), protocol::Seal::with_key(r.next()));
  }));
  to.push_back(
      identity("wrong session", Fault::kIdentity, [](RawClient& c, const RawClient&, auto& r) {
        return send_ping(c, {c.address().fabric, r.next()}, c.seal());
      }));
  to.push_back(
      identity("wrong client id", Fault::kIdentity, [](RawClient& c, const RawClient&, auto& r) {
        return send_ping(c, {r.next(), c.address().session}, c.seal());
      }));
  to.push_back(identity("another client's ids and key", Fault::kIdentity,
                        [](RawClient& c, const RawClient& other, auto&) {
                          return send_ping(c, other.address(), other.seal());
                        }));
  to.push_back(identity("another client's key", Fault::kKey,
                        [](RawClient& c, const RawClient& other, auto&) {
                          return send_ping(c, c.address(), other.seal());
                        }));
}

void add_formats(std::vector<Attack>& to) {
  to.push_back({"damaged head", Fault::kHeadCrc, true, [](RawClient& c, auto&, auto& r) {
                  Bytes message = ping(c, c.next_id());
                  message[message.size() - 1 - r.next() % 4] ^=
                      static_cast<uint8_t>(1 + r.next() % 255);
                  c.send(message);
                  return uint64_t{0};
                }});
  to.push_back({"truncated", std::nullopt, true, [](RawClient& c, auto&, auto& r) {
                  Bytes message = ping(c, c.next_id());
                  message.resize(r.next() % message.size());
                  c.send(message);
                  return uint64_t{0};
                }});
  to.push_back({"garbage", std::nullopt, true, [](RawClient& c, auto&, auto& r) {
                  Bytes message(r.next() % 5000);
                  for (uint8_t& byte : message) byte = static_cast<uint8_t>(r.next());
                  c.send(message);
                  return uint64_t{0};
                }});
  to.push_back(
      {"garbage behind a good header", std::nullopt, true, [](RawClient& c, auto&, auto& r) {
         Bytes message = ping(c, c.next_id());
         message.resize(60 + r.next() % 1000);
         store_be64(message.data(), 100 + r.next() % 24);
         for (size_t i = 32; i < message.size(); ++i) {
           message[i] = static_cast<uint8_t>(r.next());
         }
         c.send(message);
         return uint64_t{0};
       }});
  to.push_back({kTooLong, std::nullopt, true, [](RawClient& c, auto&, auto&) {
                  c.send(Bytes(size_t{40} * 1024));
                  return uint64_t{0};
                }});
  to.push_back({"a response", Fault::kUnexpected, true, [](RawClient& c, auto&, auto&) {
                  Bytes message(2048);
                  const auto size = protocol::encode(protocol::AssignId{.fabric = 7}, c.address(),
                                                     c.seal(), message);
                  message.resize(*size);
                  c.send(message);
                  return uint64_t{0};
                }});
}

void add_numbers(std::vector<Attack>& to) {
  to.push_back({"end beyond 2^64", Fault::kLength, true, [](RawClient& c, auto&, auto&) {
                  c.send(read_at(c, c.next_id(), UINT64_MAX - 5, 7));
                  return uint64_t{0};
                }});
  to.push_back({"id used twice", Fault::kOrder, true, [](RawClient& c, auto&, auto&) {
                  const uint64_t id = c.next_id();
                  c.send(ping(c, id));
                  c.send(ping(c, id));
                  return uint64_t{0};
                }});
  to.push_back({"oldest above the id", Fault::kOrder, true, [](RawClient& c, auto&, auto&) {
                  const uint64_t id = c.next_id();
                  c.send(c.encode(protocol::Ping{.id = id, .oldest = id + 1, .data = {}}));
                  return uint64_t{0};
                }});
  to.push_back({"id beyond the span", Fault::kWindow, true, [](RawClient& c, auto&, auto&) {
                  c.send(c.encode(protocol::CreateRequest{.id = 100'000, .oldest = 1}));
                  return uint64_t{0};
                }});
  to.push_back({"wrong rkey, to read from", std::nullopt, true, [](RawClient& c, auto&, auto& r) {
                  return transfer(c, IoKind::kWrite,
                                  {r.next() >> 20, static_cast<uint32_t>(r.next()), 100'000});
                }});
  to.push_back({"wrong rkey, to write to", std::nullopt, true, [](RawClient& c, auto&, auto& r) {
                  return transfer(c, IoKind::kRead,
                                  {r.next() >> 20, static_cast<uint32_t>(r.next()), 100'000});
                }});
}

void add_refused(std::vector<Attack>& to) {
  to.push_back({"unknown type", std::nullopt, false, [](RawClient& c, auto&, auto& r) {
                  const uint64_t id = c.next_id();
                  Bytes message = ping(c, id);
                  store_be64(message.data(), 200 + r.next() % 1'000'000);
                  mend(message, 0);
                  c.send(message);
                  return id;
                }});
  to.push_back(
      {"more than one request may have", std::nullopt, false, [](RawClient& c, auto&, auto&) {
         return transfer(c, IoKind::kRead, {0x1000, 1, 17U << 20});
       }});
  to.push_back({"inline data above the limit", std::nullopt, false, [](RawClient& c, auto&, auto&) {
                  const uint64_t id = c.next_id();
                  c.send(c.encode(protocol::Ping{.id = id, .oldest = 1, .data = Bytes(33'000)}));
                  return id;
                }});
  to.push_back({"data with another CRC", std::nullopt, false, [](RawClient& c, auto&, auto& r) {
                  const uint64_t id = c.next_id();
                  c.send(c.encode(IoRequest{.kind = IoKind::kWrite,
                                            .id = id,
                                            .oldest = id,
                                            .object = ObjectRef::by("target"),
                                            .length = kHello.size(),
                                            .crc = static_cast<uint32_t>(r.next()),
                                            .payload = kHello}));
                  return id;
                }});
  to.push_back(
      {"plain, without an object", std::nullopt, false, [](RawClient& c, auto&, auto&) {
         const uint64_t id = c.next_id();
         c.send(c.encode(IoRequest{
             .kind = IoKind::kRead, .plain = true, .id = id, .offset = id * 4048, .length = 9}));
         return id;
       }});
  to.push_back({"an end that no object has", std::nullopt, false, [](RawClient& c, auto&, auto&) {
                  const uint64_t id = c.next_id();
                  c.send(c.encode(protocol::CowRequest{.id = id,
                                                       .oldest = id,
                                                       .from = ObjectRef::by("target"),
                                                       .to = ObjectRef::by("nobody's"),
                                                       .from_offset = UINT64_MAX - 1,
                                                       .length = 1,
                                                       .to_offset = UINT64_MAX - 1}));
                  return id;
                }});
  to.push_back({"an object that is not there", std::nullopt, false, [](RawClient& c, auto&, auto&) {
                  const uint64_t id = c.next_id();
                  c.send(read_at(c, id, 0, 100));
                  return id;
                }});
  const auto refused = [&](std::string name, auto request) {
    to.push_back({std::move(name), std::nullopt, false, [request](RawClient& c, auto&, auto&) {
                    auto with_id = request;
                    with_id.id = c.next_id();
                    with_id.oldest = with_id.id;
                    c.send(c.encode(with_id));
                    return with_id.id;
                  }});
  };
  const ObjectRef nobody = ObjectRef::by("nobody's");
  const ObjectRef target = ObjectRef::by("target");
  refused("create of a name that is there", protocol::CreateRequest{.name = "target"});
  refused("create of a name that is none",
          protocol::CreateRequest{.name = std::string_view("\0", 1)});
  refused("delete of what is not there", protocol::DeleteRequest{.object = nobody});
  refused("rename of what is not there", protocol::RenameRequest{.object = nobody, .name = "a"});
  refused("truncate of what is not there", protocol::TruncateRequest{.object = nobody});
  refused("replace of what is not there", protocol::ReplaceRequest{.object = nobody, .by = target});
  refused("replace by itself", protocol::ReplaceRequest{.object = target, .by = target});
  refused("clone to what is there", protocol::CowRequest{.from = target, .to = target});
  refused("flush of what is not there", protocol::FlushRequest{.object = nobody});
  refused("stat of what is not there", protocol::StatRequest{.object = nobody});
  refused("what is behind a server that is no cache", protocol::BehindRequest{});
  refused("what is behind an object that is not there", protocol::BehindRequest{.object = nobody});
  refused("CRC of what is not there", protocol::CrcRequest{.object = nobody});
  refused("range of what is not there", protocol::RangeRegisterRequest{.object = nobody});
  to.push_back({"somebody's range", std::nullopt, false, [](RawClient& c, auto&, auto& r) {
                  const uint64_t id = c.next_id();
                  c.send(c.encode(protocol::RangeUnregisterRequest{
                      .id = id, .oldest = 1, .range = r.next() % 10}));
                  return id;
                }});
}

}  // namespace

std::vector<Attack> all_attacks() {
  std::vector<Attack> all;
  add_identities(all);
  add_formats(all);
  add_numbers(all);
  add_refused(all);
  return all;
}

void attack(const Attack& with, RawClient& client, const RawClient& other, RandomSource& random) {
  SCOPED_TRACE(with.name);
  const uint64_t id = with.send(client, other, random);
  if (with.ends) {
    ASSERT_TRUE(client.ended_by_server());
    return;
  }
  const auto status = client.answer_to(id);
  ASSERT_TRUE(status) << "the session has ended";
  EXPECT_NE(*status, protocol::Status::kOk);
}

}  // namespace verbena::serve
