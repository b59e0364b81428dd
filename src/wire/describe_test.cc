// SPDX-License-Identifier: Apache-2.0
#include "wire/describe.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "wire/test_packets.h"

namespace verbena::wire {
namespace {

std::string words(const Headers& headers, size_t payload_bytes = 0) {
  std::vector<uint8_t> bytes = encode(headers, std::vector<uint8_t>(payload_bytes, 1));
  bytes.resize(bytes.size() + kIcrcBytes);
  const auto packet = parse(bytes);
  return packet ? describe(*packet) : to_string(packet.error());
}

Headers headers_for(Service service, Op op) {
  Headers h;
  h.bth.opcode = opcode_byte(service, op);
  h.bth.dest_qp = Qpn(0x12);
  h.bth.psn = Psn(0xabcd);
  return h;
}

TEST(Describe, Requests) {
  Headers write = headers_for(Service::kRc, Op::kWriteFirst);
  write.bth.ack_request = true;
  write.reth = {0x7f0000001000, RKey(0x1234), 5000};
  EXPECT_EQ(words(write, 1024),
            "RC WRITE_FIRST qp 0x000012 psn 0x00abcd ack va 0x7f0000001000 rkey 0x00001234 len 5000"
            " | 1024 bytes");

  Headers swap = headers_for(Service::kXrc, Op::kCompareSwap);
  swap.xrceth = {0, SrqId(7)};
  swap.atomic_eth = {0x1000, RKey(2), 0x30, 0x40};
  EXPECT_EQ(words(swap),
            "XRC COMPARE_SWAP qp 0x000012 psn 0x00abcd srq 0x000007 va 0x1000 rkey 0x00000002"
            " compare 0x40 swap 0x30");

  Headers add = headers_for(Service::kRc, Op::kFetchAdd);
  add.atomic_eth = {0x1000, RKey(2), 0x30, 0};
  EXPECT_EQ(words(add), "RC FETCH_ADD qp 0x000012 psn 0x00abcd va 0x1000 rkey 0x00000002 add 0x30");

  Headers send = headers_for(Service::kUd, Op::kSendOnlyImm);
  send.bth.solicited = send.bth.migrated = send.bth.fecn = send.bth.becn = true;
  send.deth = {0x80010000, 0, Qpn(1)};
  send.imm = {5};
  EXPECT_EQ(words(send, 3),
            "UD SEND_ONLY_IMM qp 0x000012 psn 0x00abcd solicited migrated fecn becn"
            " from qp 0x000001 qkey 0x80010000 imm 0x00000005 | 3 bytes");

  Headers invalidate = headers_for(Service::kRc, Op::kSendOnlyInvalidate);
  invalidate.ieth = {RKey(9)};
  EXPECT_EQ(words(invalidate),
            "RC SEND_ONLY_INVALIDATE qp 0x000012 psn 0x00abcd invalidate 0x00000009");

  Headers flush = headers_for(Service::kRc, Op::kFlush);
  flush.feth = {0x12};
  EXPECT_EQ(words(flush),
            "RC FLUSH qp 0x000012 psn 0x00abcd flush 0x12 va 0x0 rkey 0x00000000 len 0");

  Headers resync = headers_for(Service::kRd, Op::kResync);
  resync.rdeth = {0, 3};
  EXPECT_EQ(words(resync),
            "RD RESYNC qp 0x000012 psn 0x00abcd ee 0x000003 from qp 0x000000 qkey 0x00000000");
}

TEST(Describe, Responses) {
  Headers ack = headers_for(Service::kRc, Op::kAtomicAcknowledge);
  ack.aeth = {syndrome::kAckNoCredits, 7};
  ack.atomic_ack_eth = {0xff};
  EXPECT_EQ(words(ack), "RC ATOMIC_ACKNOWLEDGE qp 0x000012 psn 0x00abcd ACK msn 7 original 0xff");

  // With an extension (extended_ack.h).
  Headers plain = headers_for(Service::kRc, Op::kAcknowledge);
  plain.aeth = {syndrome::kAckNoCredits, 7};
  const std::vector<uint8_t> extension = {0x11, 0x01, 0x00, 0x02, 0, 0, 0, 5, 0xf0, 0, 0, 1};
  std::vector<uint8_t> bytes = encode(plain, extension);
  bytes.resize(bytes.size() + kIcrcBytes);
  const auto packet = parse(bytes);
  ASSERT_TRUE(packet);
  EXPECT_EQ(describe(*packet),
            "RC ACKNOWLEDGE qp 0x000012 psn 0x00abcd ACK msn 7 holds 5 room 8192"
            " duplicate 0x000005 | 12 bytes");
}

TEST(Describe, Syndromes) {
  EXPECT_EQ(describe_syndrome(0x1f), "ACK");
  EXPECT_EQ(describe_syndrome(0x0c), "ACK credits 12");
  EXPECT_EQ(describe_syndrome(0x2e), "RNR NAK timer 14");
  EXPECT_EQ(describe_syndrome(0x60), "NAK sequence error");
  EXPECT_EQ(describe_syndrome(0x61), "NAK invalid request");
  EXPECT_EQ(describe_syndrome(0x62), "NAK remote access error");
  EXPECT_EQ(describe_syndrome(0x63), "NAK remote operational error");
  EXPECT_EQ(describe_syndrome(0x64), "NAK invalid RD request");
  EXPECT_EQ(describe_syndrome(0x65), "syndrome 0x65");
  EXPECT_EQ(describe_syndrome(0x40), "syndrome 0x40");
  EXPECT_EQ(describe_syndrome(0xff), "syndrome 0xff");
}

TEST(GidText, AddressesAsPeopleWriteThem) {
  EXPECT_EQ(to_string(Gid::from_ipv4(10, 98, 0, 3)), "10.98.0.3");
  EXPECT_EQ(to_string(Gid{{0xfd, 0x99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}), "fd99::1");
  EXPECT_EQ(to_string(Gid{}), "::");
}

}  // namespace
}  // namespace verbena::wire
