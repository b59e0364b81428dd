// SPDX-License-Identifier: Apache-2.0
// Reads and writes: their layout, and each reason to refuse one.
#include "protocol/io.h"

#include <gtest/gtest.h>

#include "protocol/testing.h"

namespace verbena::protocol {
namespace {

using testing::Bytes;
using testing::encoded;
using testing::kAddress;
using testing::kKey;

const Seal kIoSeal = Seal::with_key(kKey);
constexpr size_t kTypeAt = kHeaderBytes + 10;
constexpr size_t kSizeAt = kHeaderBytes + 8;

Fault encode_fault(const auto& message) {
  Bytes room(kMaxInlineBytes + kMaxIoOverhead);
  const auto size = encode(message, kAddress, kIoSeal, room);
  return size ? Fault::kEnd : size.error();
}
Fault decode_fault(std::span<const uint8_t> message) {
  const auto decoded = decode_io_request(message, kIoSeal);
  return decoded ? Fault::kEnd : decoded.error();
}

void renew_head_crc(Bytes& message, size_t head_end) {
  store_be32(message.data() + head_end, head_crc_of({.message = message, .head_end = head_end}));
}

TEST(Io, EveryFieldOfAnRdmaWrite) {
  const IoRequest request = testing::rdma_write_request();
  const Bytes message = encoded(request);
  const auto decoded = decode_io_request(message, kIoSeal);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->kind, request.kind);
  EXPECT_TRUE(decoded->repeatable);
  EXPECT_FALSE(decoded->plain);
  EXPECT_EQ(decoded->object, request.object);
  EXPECT_EQ(decoded->offset, request.offset);
  EXPECT_EQ(decoded->length, request.length);
  EXPECT_EQ(decoded->segments, request.segments);
  EXPECT_EQ(decoded->crc, request.crc);
  EXPECT_TRUE(decoded->payload.empty());
  EXPECT_EQ(decoded->effect(), Effect::kStore);
}

TEST(Io, APlainWriteIsAsShortAsTheFirstProtocolHadIt) {
  const Bytes message = encoded(testing::plain_write());
  EXPECT_EQ(message.size(), kHeaderBytes + 11 + 13 + 4);
  const auto decoded = decode_io_request(message, kIoSeal);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->offset, 2 * kPlainStride);
  EXPECT_EQ(decoded->length, 13u);
  const Bytes response = encoded(IoResponse{.kind = IoKind::kWrite, .plain = true, .id = 2});
  EXPECT_EQ(response.size(), kHeaderBytes + 9);
}

TEST(Io, APlainReadSaysItsSizeAndHasNoPayload) {
  const Bytes message = encoded(testing::plain_read());
  EXPECT_EQ(message.size(), kHeaderBytes + 11 + 4);
  const auto decoded = decode_io_request(message, kIoSeal);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->length, 13u);
}

TEST(Io, ThePayloadMayBeFilledInAfterwards) {
  IoRequest request = testing::write_request();
  const Bytes expected = encoded(request);
  request.payload = {};
  Bytes message = encoded(request);
  ASSERT_EQ(message.size(), expected.size());
  EXPECT_NE(message, expected);
  std::ranges::copy(testing::kHelloData,
                    message.begin() + static_cast<ptrdiff_t>(payload_offset(request)));
  EXPECT_EQ(message, expected);
  // Or lie there already.
  Bytes room(4096);
  std::ranges::copy(testing::kHelloData,
                    room.begin() + static_cast<ptrdiff_t>(payload_offset(request)));
  request.payload = std::span(room).subspan(payload_offset(request), 13);
  const auto size = encode(request, kAddress, kIoSeal, room);
  ASSERT_TRUE(size);
  room.resize(*size);
  EXPECT_EQ(room, expected);
}

TEST(Io, ReasonTypeByte) {
  Bytes message = encoded(testing::read_request());
  message[kTypeAt] |= 1;  // a write, in a message that is a read
  EXPECT_EQ(decode_fault(message), Fault::kTypeByte);
  message = encoded(testing::plain_read());
  message[kTypeAt] |= 0x40;  // segments without an extension
  EXPECT_EQ(decode_fault(message), Fault::kTypeByte);
  message = encoded(testing::read_request());
  message[kTypeAt] |= 0x08;  // a repeatable read
  renew_head_crc(message, message.size() - 8);
  EXPECT_EQ(decode_fault(message), Fault::kTypeByte);
  IoRequest request = testing::read_request();
  request.repeatable = true;
  EXPECT_EQ(encode_fault(request), Fault::kTypeByte);
}

TEST(Io, ReasonObject) {
  Bytes message = encoded(testing::read_request());
  message[kTypeAt] |= 0x30;
  EXPECT_EQ(decode_fault(message), Fault::kObject);
}

TEST(Io, ReasonSegments) {
  IoRequest request = testing::rdma_read_request();
  request.segments = {{0x1000, 1, 0}};
  EXPECT_EQ(encode_fault(request), Fault::kSegments);
  request.segments = {{UINT64_MAX, 1, 100'000}};
  EXPECT_EQ(encode_fault(request), Fault::kSegments);
  const size_t count_at = kTypeAt + 1 + 24 + 16;
  for (const int count : {0, 17, 255}) {
    Bytes message = encoded(testing::rdma_read_request());
    message[count_at] = static_cast<uint8_t>(count);
    EXPECT_EQ(decode_fault(message), Fault::kSegments) << count;
  }
  SegmentList full;
  for (size_t i = 0; i < kMaxSegments; ++i) EXPECT_TRUE(full.add({1, 1, 1}));
  EXPECT_FALSE(full.add({1, 1, 1}));
}

TEST(Io, ReasonLength) {
  IoRequest request = testing::read_request();
  request.offset = UINT64_MAX;
  EXPECT_EQ(encode_fault(request), Fault::kLength);
  request = testing::read_request();
  request.length = kMaxInlineBytes + 1;
  EXPECT_EQ(encode_fault(request), Fault::kLength);
  request = testing::rdma_write_request();
  request.length -= 1;  // a write takes all of its segments
  EXPECT_EQ(encode_fault(request), Fault::kLength);
  request = testing::rdma_read_request();
  request.length = 100'001;
  EXPECT_EQ(encode_fault(request), Fault::kLength);
  request = testing::plain_read();
  request.length = kPlainStride + 1;
  EXPECT_EQ(encode_fault(request), Fault::kLength);
  request = testing::plain_read();
  request.id = UINT64_MAX / 2;
  EXPECT_EQ(encode_fault(request), Fault::kLength);
  request = testing::write_request();
  request.payload = request.payload.first(3);
  EXPECT_EQ(encode_fault(request), Fault::kLength);
  Bytes message = encoded(testing::write_request());
  store_be16(message.data() + kSizeAt, 12);
  EXPECT_EQ(decode_fault(message), Fault::kLength);
}

TEST(Io, ReasonReserved) {
  IoRequest request = testing::read_request();
  request.crc = 1;
  EXPECT_EQ(encode_fault(request), Fault::kReserved);
  IoResponse response = testing::write_response();
  response.data_inline = true;
  EXPECT_EQ(encode_fault(response), Fault::kReserved);
  response = testing::failed_response();
  response.length = 1;
  EXPECT_EQ(encode_fault(response), Fault::kLength);
  Bytes message = encoded(testing::failed_response());
  message[kHeaderBytes + 8] |= kStatusMask;
  EXPECT_EQ(decode_io_response(message, kIoSeal).error(), Fault::kReserved);
}

TEST(Io, TheLongestRequestsFitTheirOverhead) {
  const std::string name(kMaxNameBytes, 'n');
  IoRequest request = testing::rdma_read_request();
  request.object = ObjectRef::by(name);
  request.segments = {};
  for (size_t i = 0; i < kMaxSegments; ++i) request.segments.add({1, 1, UINT32_MAX});
  EXPECT_LE(encoded(request).size(), kMaxIoOverhead);
  EXPECT_EQ(payload_offset(request) + 4, encoded(request).size());
  IoResponse response = testing::failed_response();
  const std::string detail(kMaxTextBytes, 'd');
  response.detail = detail;
  EXPECT_LE(encoded(response).size(), kMaxIoOverhead);
}

TEST(Io, ADamagedPayloadIsLeftToItsCrc) {
  Bytes message = encoded(testing::write_request());
  message[payload_offset(testing::write_request())] ^= 1;
  const auto decoded = decode_io_request(message, kIoSeal);
  ASSERT_TRUE(decoded);
  EXPECT_NE(testing::crc_of(decoded->payload), decoded->crc);
}

}  // namespace
}  // namespace verbena::protocol
