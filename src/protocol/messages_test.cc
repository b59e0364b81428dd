// SPDX-License-Identifier: Apache-2.0
// Each message there and back, and each reason to refuse one.
#include "protocol/messages.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "protocol/testing.h"

namespace verbena::protocol {
namespace {

using testing::all_requests;
using testing::all_responses;
using testing::Bytes;
using testing::encoded;
using testing::kAddress;
using testing::kKey;
using testing::kSecret;

const Seal kPlainSeal = Seal::with_key(kKey);
const Seal kTagSeal = Seal::with_secret(kSecret);

Fault fault_of(std::span<const uint8_t> message, const Seal& seal = kPlainSeal) {
  const auto decoded = decode_request(message, seal);
  return decoded ? Fault::kEnd : decoded.error();
}
Fault response_fault_of(std::span<const uint8_t> message, const Seal& seal = kPlainSeal) {
  const auto decoded = decode_response(message, seal);
  return decoded ? Fault::kEnd : decoded.error();
}

// After a change of fields: the head CRC right again, of a message without user data.
void renew_crc(Bytes& message) {
  const Parts parts{.message = message, .head_end = message.size() - kCrcBytes, .crc_bytes = 0};
  store_be32(message.data() + parts.head_end, head_crc_of(parts));
}

TEST(Messages, RequestsThereAndBack) {
  for (const Seal& seal : {kPlainSeal, kTagSeal}) {
    for (const Request& request : all_requests()) {
      SCOPED_TRACE(name_of(type_of(request)));
      const Bytes message = encoded(request, seal);
      ASSERT_FALSE(message.empty());
      const auto header = decode_header(message);
      ASSERT_TRUE(header);
      EXPECT_EQ(header->type, type_of(request));
      EXPECT_EQ((Address{header->fabric, header->session}), kAddress);
      const auto decoded = decode_request(message, seal);
      ASSERT_TRUE(decoded) << text_of(decoded.error());
      EXPECT_EQ(decoded->index(), request.index());
      EXPECT_EQ(id_of(*decoded), id_of(request));
      EXPECT_EQ(oldest_of(*decoded), oldest_of(request));
      EXPECT_EQ(effect_of(*decoded), effect_of(request));
      EXPECT_EQ(encoded(*decoded, seal), message);
    }
  }
}

TEST(Messages, ResponsesThereAndBack) {
  for (const Seal& seal : {kPlainSeal, kTagSeal}) {
    for (const Response& response : all_responses()) {
      SCOPED_TRACE(id_of(response));
      const Bytes message = encoded(response, seal);
      ASSERT_FALSE(message.empty());
      const auto decoded = decode_response(message, seal);
      ASSERT_TRUE(decoded) << text_of(decoded.error());
      EXPECT_EQ(decoded->index(), response.index());
      EXPECT_EQ(id_of(*decoded), id_of(response));
      EXPECT_EQ(status_of(*decoded), status_of(response));
      EXPECT_EQ(detail_of(*decoded), detail_of(response));
      EXPECT_EQ(encoded(*decoded, seal), message);
    }
  }
}

TEST(Messages, FieldsAreThoseThatWereWritten) {
  const Bytes cow_message = encoded(all_requests()[10]);
  const auto decoded = decode_request(cow_message, kPlainSeal);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<CowRequest>(*decoded), std::get<CowRequest>(all_requests()[10]));
  const Bytes list_message = encoded(all_responses()[14]);
  const auto list = decode_response(list_message, kPlainSeal);
  ASSERT_TRUE(list);
  EXPECT_EQ(std::get<ListResponse>(*list), std::get<ListResponse>(all_responses()[14]));
}

TEST(Messages, EveryTruncationIsRefused) {
  for (const Request& request : all_requests()) {
    const Bytes message = encoded(request, kTagSeal);
    for (size_t size = 0; size < message.size(); ++size) {
      EXPECT_NE(fault_of(std::span(message).first(size), kTagSeal), Fault::kEnd) << size;
    }
    Bytes longer = message;
    longer.push_back(0);
    EXPECT_NE(fault_of(longer, kTagSeal), Fault::kEnd);
  }
  for (const Response& response : all_responses()) {
    const Bytes message = encoded(response, kTagSeal);
    for (size_t size = 0; size < message.size(); ++size) {
      EXPECT_NE(response_fault_of(std::span(message).first(size), kTagSeal), Fault::kEnd) << size;
    }
  }
}

// All but the user data, which is under its own CRC.
TEST(Messages, EveryFlippedBitOutsideThePayloadIsRefused) {
  for (const Request& request : all_requests()) {
    const Bytes message = encoded(request, kTagSeal);
    const auto* io = std::get_if<IoRequest>(&request);
    const size_t data_begin = io == nullptr ? message.size() : payload_offset(*io);
    const size_t data_end = data_begin + (io == nullptr ? 0 : io->payload.size());
    for (size_t at = 0; at < message.size(); ++at) {
      if (at >= data_begin && at < data_end) continue;
      for (int bit = 0; bit < 8; ++bit) {
        Bytes spoilt = message;
        spoilt[at] ^= static_cast<uint8_t>(1 << bit);
        EXPECT_NE(fault_of(spoilt, kTagSeal), Fault::kEnd)
            << name_of(type_of(request)) << " byte " << at << " bit " << bit;
      }
    }
  }
}

TEST(Messages, ReasonShort) {
  EXPECT_EQ(fault_of({}), Fault::kShort);
  const Bytes message = encoded(all_requests()[0]);
  EXPECT_EQ(fault_of(std::span(message).first(kHeaderBytes)), Fault::kShort);
}

TEST(Messages, ReasonLong) {
  Bytes message = encoded(DeleteRequest{.id = 1});
  message.insert(message.end() - 4, 0);
  renew_crc(message);
  EXPECT_EQ(fault_of(message), Fault::kLong);
}

TEST(Messages, ReasonTypeAndUnknownMessages) {
  Bytes message = encoded(DeleteRequest{.id = 5});
  store_be64(message.data(), 99);
  renew_crc(message);
  EXPECT_EQ(fault_of(message), Fault::kType);
  const auto unknown = decode_unknown(message, kPlainSeal);
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->id, 5u);
  EXPECT_EQ(unknown->type, MessageType{99});
  EXPECT_EQ(decode_unknown(message, Seal::with_key(1)).error(), Fault::kKey);
  store_be64(message.data(), UINT64_MAX);
  EXPECT_EQ(fault_of(message), Fault::kType);
  EXPECT_EQ(decode_unknown(message, kPlainSeal).error(), Fault::kHeadCrc);
  EXPECT_EQ(decode_unknown(std::span(message).first(40), kPlainSeal).error(), Fault::kShort);
}

TEST(Messages, ReasonUnexpected) {
  EXPECT_EQ(fault_of(encoded(Pong{.id = 1})), Fault::kUnexpected);
  EXPECT_EQ(fault_of(encoded(ConnectInit{.version = 1})), Fault::kUnexpected);
  EXPECT_EQ(response_fault_of(encoded(Ping{.id = 1})), Fault::kUnexpected);
  EXPECT_EQ(decode<ConnectInit>(encoded(AssignId{}), kPlainSeal).error(), Fault::kUnexpected);
}

TEST(Messages, ReasonReserved) {
  Bytes message = encoded(StatRequest{.id = 1, .make_default = true});
  message[message.size() - 5] = 2;
  renew_crc(message);
  EXPECT_EQ(fault_of(message), Fault::kReserved);
  Bytes refused = encoded(Refused{.id = 1});
  refused[kHeaderBytes + 8] = kMaxStatus + 1;
  renew_crc(refused);
  EXPECT_EQ(response_fault_of(refused), Fault::kReserved);
}

TEST(Messages, ReasonNameAndText) {
  const std::string name(kMaxNameBytes + 1, 'n');
  Bytes room(4096);
  EXPECT_EQ(encode(CreateRequest{.name = name}, kAddress, kPlainSeal, room).error(), Fault::kName);
  EXPECT_EQ(encode(BadAuth{.detail = name}, kAddress, kPlainSeal, room).error(), Fault::kText);
  Bytes message = encoded(CreateRequest{.name = std::string_view(name).substr(1)});
  store_be16(message.data() + kHeaderBytes + 32, kMaxNameBytes + 1);
  renew_crc(message);
  EXPECT_EQ(fault_of(message), Fault::kName);
  Bytes refused = encoded(Refused{.detail = std::string_view(name).substr(0, kMaxTextBytes)});
  store_be16(refused.data() + kHeaderBytes + 9, kMaxTextBytes + 1);
  renew_crc(refused);
  EXPECT_EQ(response_fault_of(refused), Fault::kText);
}

TEST(Messages, ReasonCountTakesNoMemoryForEntriesThatAreNotThere) {
  Bytes message = encoded(ListResponse{.id = 1});
  store_be16(message.data() + message.size() - 6, UINT16_MAX);
  renew_crc(message);
  EXPECT_EQ(response_fault_of(message), Fault::kCount);
}

TEST(Messages, ReasonHeadCrcComesBeforeKey) {
  Bytes message = encoded(DeleteRequest{.id = 1});
  message[8] ^= 1;
  EXPECT_EQ(fault_of(message), Fault::kHeadCrc);
  EXPECT_EQ(fault_of(message, Seal::with_key(1)), Fault::kHeadCrc);
}

TEST(Messages, ReasonKey) {
  EXPECT_EQ(fault_of(encoded(DeleteRequest{.id = 1}), Seal::with_key(kKey + 1)), Fault::kKey);
  SipKey other = kSecret;
  other[15] ^= 1;
  EXPECT_EQ(fault_of(encoded(DeleteRequest{.id = 1}, kTagSeal), Seal::with_secret(other)),
            Fault::kKey);
  EXPECT_EQ(fault_of(encoded(DeleteRequest{.id = 1}, kTagSeal), kPlainSeal), Fault::kKey);
  EXPECT_EQ(fault_of(encoded(DeleteRequest{.id = 1}, kTagSeal), kPlainSeal.without_checks()),
            Fault::kEnd);
}

TEST(Messages, ReasonRoom) {
  for (const Request& request : all_requests()) {
    const size_t size = encoded(request).size();
    Bytes room(size - 1);
    const auto result = encode(request, kAddress, kPlainSeal, room);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error(), Fault::kRoom);
  }
}

TEST(Messages, TheTagCoversWhatTheKeyDoesNot) {
  const Bytes one = encoded(DeleteRequest{.id = 1}, kTagSeal);
  const Bytes other = encoded(DeleteRequest{.id = 2}, kTagSeal);
  EXPECT_NE(load_be64(one.data() + kWordOffset), load_be64(other.data() + kWordOffset));
}

TEST(Messages, FailuresAnswerTheirRequests) {
  for (const Request& request : all_requests()) {
    const Response failure = failure_of(request, Status::kFull, "no space");
    EXPECT_TRUE(answers(failure, type_of(request)));
    EXPECT_EQ(id_of(failure), id_of(request));
    const Bytes message = encoded(failure);
    const auto decoded = decode_response(message, kPlainSeal);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(status_of(*decoded), Status::kFull);
  }
  EXPECT_FALSE(answers(testing::write_response(), IoRequest::kReadType));
  EXPECT_FALSE(answers(Pong{}, IoRequest::kReadType));
  EXPECT_TRUE(answers(Refused{}, IoRequest::kReadType));
}

TEST(Messages, NamesOfTypes) {
  EXPECT_STREQ(name_of(MessageType{0}), "CONNECT_INIT");
  EXPECT_STREQ(name_of(MessageType{101}), "OBJ_WRITE");
  EXPECT_STREQ(name_of(MessageType{112}), "COW_ACK");
  EXPECT_STREQ(name_of(MessageType{99}), "unknown");
  EXPECT_STREQ(name_of(MessageType{UINT64_MAX}), "unknown");
}

TEST(Messages, EveryFaultStatusAndEndReasonHasAText) {
  for (uint8_t i = 0; i < kFaults; ++i) {
    EXPECT_STRNE(text_of(static_cast<Fault>(i)), "unknown");
  }
  for (uint8_t i = 0; i <= kMaxStatus; ++i) {
    EXPECT_STRNE(name_of(static_cast<Status>(i)), "unknown");
  }
  for (uint16_t i = 0; is_defined(static_cast<EndReason>(i)); ++i) {
    EXPECT_STRNE(text_of(static_cast<EndReason>(i)), "unknown");
  }
}

}  // namespace
}  // namespace verbena::protocol
