// SPDX-License-Identifier: Apache-2.0
// Each message's fields in their places, against what Linux 6.1 sent (tests/golden/captures), and
// read and write as inverses.
#include "cm/mad.h"

#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "cm/route.h"
#include "cm/service_id.h"
#include "wire/test_packets.h"

namespace verbena::cm {
namespace {

// Whole: what is missing at the end is zero.
std::vector<uint8_t> mad_from_hex(std::string_view text) {
  std::vector<uint8_t> bytes = wire::from_hex(text);
  bytes.resize(kMadBytes);
  return bytes;
}

// Frames 1 and 2 of cm-rping.pcap, frame 2 of cm-reject-no-listener.pcap; the rest is zero.
constexpr std::string_view kRpingReq =
    "01070203 00000000 00000002 3c026575 00100000 00000000"
    "7565023c 00000000 00000000 01061c06 505400ff fe000002 00000000 00000000"
    "00001701 00000001 000000a0 b5da29a7 ffff37f0 ffffffff 00000000 00000000"
    "0000ffff 0a630002 00000000 00000000 0000ffff 0a630003 89de4000 00400098"
    "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000"
    "00000000 00000000 00000000 0040ca62 00000000 00000000 00000000 0a630002"
    "00000000 00000000 00000000 0a630003";
constexpr std::string_view kRpingRep =
    "01070203 00000000 00000002 3c026575 00130000 00000000"
    "c15cc529 7565023c 00000000 00001700 00000000 4dae1000 010178e0 505400ff fe000003";
constexpr std::string_view kNoListener =
    "01070203 00000000 00000002 3c026571 00120000 00000000 00000000 7165023c 00000008";

TEST(Mad, RequestOfLinux) {
  const auto mad = decode(mad_from_hex(kRpingReq));
  ASSERT_TRUE(mad.has_value());
  EXPECT_EQ(mad->header.transaction, 0x000000023c026575u);
  const Req& m = std::get<Req>(mad->message);
  EXPECT_EQ(m.local_id, 0x7565023cu);
  EXPECT_EQ(m.service_id, service_id(PortSpace::kTcp, 7174));
  EXPECT_EQ(m.ca_guid, 0x505400fffe000002u);
  EXPECT_EQ(m.qpn, Qpn(0x17));
  EXPECT_EQ(m.responder_resources, 1);
  EXPECT_EQ(m.initiator_depth, 1);
  EXPECT_EQ(m.remote_response_timeout, 20);
  EXPECT_EQ(m.transport_service, 0);
  EXPECT_FALSE(m.flow_control);
  EXPECT_EQ(m.psn, wire::Psn(0xb5da29));
  EXPECT_EQ(m.local_response_timeout, 20);
  EXPECT_EQ(m.retry_count, 7);
  EXPECT_EQ(m.pkey, 0xffff);
  EXPECT_EQ(m.mtu, 3);
  EXPECT_EQ(m.rnr_retry_count, 7);
  EXPECT_EQ(m.max_cm_retries, 15);
  EXPECT_FALSE(m.srq);
  EXPECT_EQ(m.path.local_lid, 0xffff);
  EXPECT_EQ(m.path.remote_lid, 0xffff);
  EXPECT_EQ(m.path.local, wire::Gid::from_ipv4(10, 99, 0, 2));
  EXPECT_EQ(m.path.remote, wire::Gid::from_ipv4(10, 99, 0, 3));
  EXPECT_EQ(m.path.flow_label, 0x89de4u);
  EXPECT_EQ(m.path.hop_limit, 64);
  EXPECT_EQ(m.path.local_ack_timeout, 19);
  EXPECT_EQ(m.alternate, PathFields{});
  const AddressHeader addresses{0xca62, wire::Gid::from_ipv4(10, 99, 0, 2),
                                wire::Gid::from_ipv4(10, 99, 0, 3)};
  EXPECT_EQ(AddressHeader::read(m.private_data), addresses);
}

TEST(Mad, ReplyOfLinux) {
  const auto mad = decode(mad_from_hex(kRpingRep));
  ASSERT_TRUE(mad.has_value());
  const Rep& m = std::get<Rep>(mad->message);
  EXPECT_EQ(m.local_id, 0xc15cc529u);
  EXPECT_EQ(m.remote_id, 0x7565023cu);
  EXPECT_EQ(m.qpn, Qpn(0x17));
  EXPECT_EQ(m.psn, wire::Psn(0x4dae10));
  EXPECT_EQ(m.responder_resources, 1);
  EXPECT_EQ(m.initiator_depth, 1);
  EXPECT_EQ(m.target_ack_delay, 15);
  EXPECT_EQ(m.rnr_retry_count, 7);
  EXPECT_EQ(m.ca_guid, 0x505400fffe000003u);
}

TEST(Mad, RejectOfLinux) {
  const auto mad = decode(mad_from_hex(kNoListener));
  ASSERT_TRUE(mad.has_value());
  const Rej expected{.remote_id = 0x7165023c, .reason = RejectReason::kInvalidServiceId};
  EXPECT_EQ(std::get<Rej>(mad->message), expected);
}

// Which bits each message keeps: all but the reserved ones, whose number the standard gives.
template <typename M>
class EveryMessage : public testing::Test {};
using AllMessages = testing::Types<Req, Mra, Rej, Rep, Rtu, Dreq, Drep, SidrReq, SidrRep>;
TYPED_TEST_SUITE(EveryMessage, AllMessages);

template <typename M>
int reserved_bits() {
  // REQ: a byte, a word, 6 + 3 + 3 bits in each path.
  if (std::is_same_v<M, Req>) return 8 + 32 + 2 * 12;
  if (std::is_same_v<M, Rep>) return 4;
  if (std::is_same_v<M, Rej>) return 6 + 1;
  if (std::is_same_v<M, Mra>) return 6 + 3;
  if (std::is_same_v<M, Dreq>) return 8;
  if (std::is_same_v<M, SidrReq>) return 16;
  return 0;
}

TYPED_TEST(EveryMessage, KeepsEveryBitThatMeansSomething) {
  int lost = 0;
  for (size_t bit = 0; bit < kBodyBytes * 8; ++bit) {
    std::array<uint8_t, kBodyBytes> bytes{};
    bytes[bit / 8] = static_cast<uint8_t>(0x80 >> (bit % 8));
    std::array<uint8_t, kBodyBytes> again{};
    TypeParam::read(bytes.data()).write(again.data());
    if (again == bytes) continue;
    EXPECT_EQ(again, (std::array<uint8_t, kBodyBytes>{})) << "bit " << bit << " moved";
    ++lost;
  }
  EXPECT_EQ(lost, reserved_bits<TypeParam>());
}

TYPED_TEST(EveryMessage, WritesAllItsBytes) {
  MadBuffer dirty;
  dirty.fill(0xee);
  encode({}, TypeParam{}, dirty);
  MadBuffer clean{};
  encode({}, TypeParam{}, clean);
  EXPECT_EQ(dirty, clean);
}

TEST(Mad, ReasonsToRefuse) {
  std::vector<uint8_t> bytes = mad_from_hex(kRpingReq);
  EXPECT_EQ(decode(std::span(bytes).first(255)).error(), MadError::kLength);
  const auto with = [&](size_t at, uint8_t value) {
    std::vector<uint8_t> changed = bytes;
    changed[at] = value;
    return decode(changed).error();
  };
  EXPECT_EQ(with(0, 2), MadError::kClass);
  EXPECT_EQ(with(1, 3), MadError::kClass);
  EXPECT_EQ(with(2, 1), MadError::kClass);
  EXPECT_EQ(with(3, 0x81), MadError::kMethod);
  EXPECT_EQ(with(17, 0x19), MadError::kAttribute);  // LAP
}

TEST(ServiceId, ThePortSpacesHaveAddresses) {
  EXPECT_EQ(service_id(PortSpace::kTcp, 0x1c06), 0x01061c06u);
  EXPECT_EQ(port_of(0x01061c06), 0x1c06);
  EXPECT_TRUE(has_address_header(service_id(PortSpace::kUdp, 1)));
  EXPECT_TRUE(has_address_header(service_id(PortSpace::kIb, 0xffff)));
  EXPECT_FALSE(has_address_header(0x1000000001061c06));
  EXPECT_FALSE(has_address_header(1));
}

TEST(AddressHeader, BothKindsAndNothingElse) {
  wire::Gid ipv6{};
  ipv6.bytes[0] = 0xfd;
  for (const AddressHeader& header :
       {AddressHeader{7, wire::Gid::from_ipv4(1, 2, 3, 4), wire::Gid::from_ipv4(5, 6, 7, 8)},
        AddressHeader{7, ipv6, ipv6}, AddressHeader{7, wire::Gid{}, ipv6}}) {
    std::array<uint8_t, AddressHeader::kBytes> bytes{};
    header.write(bytes.data());
    EXPECT_EQ(AddressHeader::read(bytes), header);
    EXPECT_FALSE(AddressHeader::read(std::span(bytes).first(35)));
    bytes[0] = 1;
    EXPECT_FALSE(AddressHeader::read(bytes));
    bytes[0] = 0;
    bytes[1] = 0x50;
    EXPECT_FALSE(AddressHeader::read(bytes));
  }
}

template <typename M>
Route route_of(const M& message) {
  MadBuffer bytes;
  encode({}, message, bytes);
  return route(bytes);
}

TEST(Route, RequestsByServiceAnswersBySlot) {
  const Route request = route(mad_from_hex(kRpingReq));
  EXPECT_EQ(request.kind, Route::Kind::kService);
  EXPECT_EQ(request.service_id, service_id(PortSpace::kTcp, 7174));
  EXPECT_EQ(request.address, wire::Gid::from_ipv4(10, 99, 0, 3));

  const Route sidr = route_of(SidrReq{.service_id = 5});
  EXPECT_EQ(sidr.kind, Route::Kind::kService);
  EXPECT_EQ(sidr.service_id, 5u);
  EXPECT_FALSE(sidr.address.has_value());

  Rtu rtu;
  rtu.remote_id = 0x33000001;
  for (const Route& answer :
       {route_of(rtu), route_of(Rep{.remote_id = 0x33000001}),
        route_of(Rej{.remote_id = 0x33000001}), route_of(Mra{.remote_id = 0x33000001}),
        route_of(Dreq{.remote_id = 0x33000001}), route_of(SidrRep{.request_id = 0x33000001})}) {
    EXPECT_EQ(answer.kind, Route::Kind::kSlot);
    EXPECT_EQ(answer.slot, 0x33);
  }
  EXPECT_EQ(route_of(Rej{.local_id = 1}).kind, Route::Kind::kEveryone);
  EXPECT_EQ(route({}).kind, Route::Kind::kNobody);
}

}  // namespace
}  // namespace verbena::cm
