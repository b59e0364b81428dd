// SPDX-License-Identifier: Apache-2.0
// For tests and fuzzers: one of each message, and bytes in hex.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/block_sums.h"
#include "base/endian.h"
#include "protocol/messages.h"
#include "protocol/side_channel.h"

namespace verbena::protocol::testing {

inline constexpr Address kAddress{.fabric = 0x0102030405060708, .session = 0x1112131415161718};
inline constexpr uint64_t kKey = 0x2122232425262728;
inline constexpr SipKey kSecret{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

using Bytes = std::vector<uint8_t>;

inline Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }
inline uint32_t crc_of(std::span<const uint8_t> bytes) {
  return crc32_finish(crc32_msb_update(kCrc32Start, bytes));
}

template <typename M>
[[nodiscard]] Bytes encoded(const M& message, const Seal& seal = Seal::with_key(kKey)) {
  Bytes room(kMaxInlineBytes + kMaxIoOverhead);
  const auto size = encode(message, kAddress, seal, room);
  room.resize(size.value_or(0));
  return room;
}

inline const Bytes kHelloData = bytes_of("Hello, chunk\n");

inline IoRequest read_request() {
  return {.kind = IoKind::kRead,
          .id = 7,
          .oldest = 5,
          .object = ObjectRef::by(ObjectId{3, 9}),
          .offset = 4048,
          .length = 13};
}
inline IoRequest write_request() {
  return {.kind = IoKind::kWrite,
          .id = 8,
          .oldest = 5,
          .object = ObjectRef::by("greeting"),
          .offset = 1,
          .length = 13,
          .crc = crc_of(kHelloData),
          .payload = kHelloData};
}
inline IoRequest rdma_write_request() {
  return {.kind = IoKind::kWrite,
          .repeatable = true,
          .id = 9,
          .oldest = 5,
          .object = ObjectRef::by(ObjectId{3, 9}),
          .offset = 0,
          .length = 100'000,
          .segments = {{0x7f0000001000, 0x1234, 65536}, {0x7f0000200000, 0x1235, 34464}},
          .crc = 0xdeadbeef};
}
inline IoRequest rdma_read_request() {
  IoRequest request = rdma_write_request();
  request.kind = IoKind::kRead;
  request.repeatable = false;
  request.crc = 0;
  request.length = 99'999;
  return request;
}
inline IoRequest plain_read() {
  return {.kind = IoKind::kRead, .plain = true, .id = 2, .length = 13};
}
inline IoRequest plain_write() {
  return {.kind = IoKind::kWrite,
          .plain = true,
          .id = 2,
          .length = 13,
          .crc = crc_of(kHelloData),
          .payload = kHelloData};
}

inline std::vector<Request> all_requests() {
  const ObjectRef by_id = ObjectRef::by(ObjectId{3, 9});
  const ObjectRef by_name = ObjectRef::by("greeting");
  return {
      Ping{.id = 1, .oldest = 1, .data = kHelloData},
      read_request(),
      write_request(),
      rdma_write_request(),
      rdma_read_request(),
      plain_read(),
      plain_write(),
      FlushRequest{.id = 10, .oldest = 5, .object = by_id, .offset = 1, .length = 2},
      FlushRequest{.id = 10, .oldest = 5},
      CreateRequest{.id = 11, .oldest = 5, .object = {3, 9}, .name = "greeting"},
      CowRequest{.id = 12,
                 .oldest = 5,
                 .from = by_name,
                 .to = by_id,
                 .from_offset = 1,
                 .length = 2,
                 .to_offset = 3,
                 .allow_existing = true,
                 .to_name = "copy"},
      DeleteRequest{.id = 13, .oldest = 5, .object = by_name},
      RenameRequest{.id = 14, .oldest = 5, .object = by_id, .name = "other"},
      TruncateRequest{.id = 15, .oldest = 5, .object = by_id, .size = 99},
      ReplaceRequest{.id = 16, .oldest = 5, .object = by_name, .by = by_id},
      StatRequest{.id = 17, .oldest = 5, .object = by_name, .make_default = true},
      ListRequest{.id = 18,
                  .oldest = 5,
                  .resume = true,
                  .after_name = "greeting",
                  .after_id = {3, 9},
                  .limit = 100},
      CrcRequest{.id = 22, .oldest = 5, .object = by_id, .offset = 4048, .length = 100'000},
      BehindRequest{.id = 23, .oldest = 5, .object = by_id, .action = BehindAction::kEvict},
      RangeRegisterRequest{.id = 19,
                           .oldest = 5,
                           .object = by_id,
                           .offset = 1,
                           .length = 2,
                           .access = RangeAccess::kWrite},
      RangeUnregisterRequest{.id = 20, .oldest = 5, .range = 77},
  };
}

inline ObjectEntry entry_of(std::string_view name) {
  return {.object = {3, 9},
          .size = 13,
          .chunks = 1,
          .segments = 1,
          .content = 2,
          .created_ns = 1'700'000'000'000'000'000,
          .modified_ns = 1'700'000'000'000'000'001,
          .name = name};
}

inline IoResponse read_response() {
  return {.kind = IoKind::kRead,
          .data_inline = true,
          .id = 7,
          .object = {3, 9},
          .offset = 4048,
          .length = 13,
          .crc = crc_of(kHelloData),
          .payload = kHelloData};
}
inline IoResponse write_response() {
  return {.kind = IoKind::kWrite,
          .id = 9,
          .object = {3, 9},
          .offset = 0,
          .length = 100'000,
          .crc = 0xdeadbeef};
}
inline IoResponse failed_response() {
  return {.kind = IoKind::kRead,
          .id = 7,
          .status = Status::kDamaged,
          .object = {3, 9},
          .offset = 4048,
          .detail = "object 3:9, offset 4048, chunk 17: data CRC is 0x1, expected 0x2"};
}
inline IoResponse plain_read_response() {
  IoResponse response = read_response();
  response.plain = true;
  response.id = 2;
  response.object = {};
  response.offset = 0;
  return response;
}

inline std::vector<Response> all_responses() {
  const std::string_view detail = "no object 'greeting'";
  RenameResponse rename;
  rename.id = 14;
  rename.status = Status::kNotFound;
  rename.detail = detail;
  return {
      Pong{.id = 1, .data = kHelloData},
      read_response(),
      write_response(),
      failed_response(),
      plain_read_response(),
      IoResponse{.kind = IoKind::kWrite, .plain = true, .id = 2},
      FlushResponse{{.id = 10}},
      CreateResponse{.id = 11, .object = {3, 9}},
      CowResponse{.id = 12, .object = {3, 9}},
      DeleteResponse{{.id = 13}},
      rename,
      TruncateResponse{{.id = 15}},
      ReplaceResponse{{.id = 16}},
      StatResponse{.id = 17, .entry = entry_of("greeting")},
      ListResponse{.id = 18, .more = true, .entries = {entry_of("a"), entry_of("b")}},
      CrcResponse{.id = 22, .length = 100'000, .crc = 0xdeadbeef},
      BehindResponse{
          .id = 23, .only_here = 1, .in_both = 2, .behind = 3, .evicted = 4, .flushed = true},
      RangeRegisterResponse{.id = 19, .range = 77},
      RangeUnregisterResponse{{.id = 20}},
      Refused{.id = 21, .detail = "unknown message type 99", .type = 99},
  };
}

inline std::vector<SideMessage> all_side_messages() {
  Nonce nonce;
  Mac mac;
  for (uint8_t i = 0; i < 32; ++i) nonce[i] = i, mac[i] = 0xa0 | i;
  InstanceId client;
  InstanceId server;
  for (uint8_t i = 0; i < 16; ++i) client[i] = 0xc0 | i, server[i] = 0xd0 | i;
  return {Hello{.features = kFeatureSecret,
                .client = client,
                .nonce = nonce,
                .resume_session = 1,
                .resume_key = 2},
          Challenge{.version = 1, .server = server, .nonce = nonce},
          Proof{.mac = mac},
          Welcome{.version = 1,
                  .server = server,
                  .session = 0x1112131415161718,
                  .key = kKey,
                  .resumed = true,
                  .fabric_host = "192.0.2.1",
                  .fabric_port = 7471,
                  .mac = mac},
          SidePing{.cookie = 3},
          SidePong{.cookie = 3},
          Goodbye{.reason = EndReason::kBusy, .detail = "too many"}};
}

}  // namespace verbena::protocol::testing
