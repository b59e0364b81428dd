// SPDX-License-Identifier: Apache-2.0
// Frames: built, dissected, refused for each reason by name; and any bytes at all.
#include "wire/network.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "wire/test_packets.h"

namespace verbena::wire {
namespace {

constexpr size_t kIp = EthernetHeader::kBytes;
constexpr size_t kUdpIn4 = kIp + Ipv4Header::kBytes;

// corrupt-icrc-write, frame 3.
std::vector<uint8_t> real_frame() {
  return from_hex(
      "525400000102 525400000103 0800"
      "4500003003e440004011 2211 0a620003 0a620002"
      "d0c412b7001c0000"
      "1100ffff 0000003a 00c75ec8 1f000001 13065493");
}

std::vector<uint8_t> frame_for(RandomSource& random, bool ipv4, size_t transport_bytes = 16) {
  return build_frame(random_flow(random, ipv4), 64, 0, random_bytes(random, transport_bytes));
}

DissectError reason(const std::vector<uint8_t>& bytes) {
  const auto frame = dissect(bytes);
  return frame ? DissectError::kCount : frame.error();
}

void fix_checksum(std::vector<uint8_t>& frame) {
  store_be16(frame.data() + kIp + 10, 0);
  store_be16(frame.data() + kIp + 10, ipv4_checksum(frame.data() + kIp));
}

TEST(Dissect, ARealFrame) {
  const auto bytes = real_frame();
  const auto frame = dissect(bytes);
  ASSERT_TRUE(frame);
  EXPECT_TRUE(frame->flow.is_ipv4());
  EXPECT_EQ(frame->flow.source, Gid::from_ipv4(10, 98, 0, 3));
  EXPECT_EQ(frame->flow.destination, Gid::from_ipv4(10, 98, 0, 2));
  EXPECT_EQ(frame->flow.source_port, 0xd0c4);
  EXPECT_EQ(frame->flow.ipv4_id, 0x03e4);
  EXPECT_TRUE(frame->flow.ipv4_dont_fragment);
  EXPECT_EQ(frame->ttl, 64);
  EXPECT_EQ(frame->transport.size(), 20u);
  EXPECT_TRUE(frame->trailer.empty());
  // Ours of the same packet differs in nothing but the MAC addresses.
  const auto built = build_frame(frame->flow, frame->ttl, frame->tos, frame->transport.first(16));
  EXPECT_TRUE(std::ranges::equal(std::span(built).subspan(12), std::span(bytes).subspan(12)));
}

TEST(Dissect, UndoesBuildFrame) {
  SeededRandom random(1);
  for (int round = 0; round < 2000; ++round) {
    const IcrcFlow flow = random_flow(random, round % 2 == 0);
    const auto ttl = static_cast<uint8_t>(random.next());
    const auto tos = static_cast<uint8_t>(random.next());
    const auto packet = random_bytes(random, 12 + 4 * random.below(1030));
    const auto bytes = build_frame(flow, ttl, tos, packet);
    const auto frame = dissect(bytes);
    ASSERT_TRUE(frame) << to_string(frame.error());
    ASSERT_EQ(frame->flow.source, flow.source);
    ASSERT_EQ(frame->flow.destination, flow.destination);
    ASSERT_EQ(frame->flow.source_port, flow.source_port);
    ASSERT_EQ(frame->ttl, ttl);
    ASSERT_EQ(frame->tos, tos);
    if (flow.is_ipv4()) {
      ASSERT_EQ(frame->flow.ipv4_id, flow.ipv4_id);
      ASSERT_EQ(frame->flow.ipv4_dont_fragment, flow.ipv4_dont_fragment);
    }
    ASSERT_TRUE(std::ranges::equal(frame->transport, seal(flow, packet)));
    ASSERT_EQ(icrc_solve(frame->flow, frame->transport), flow.is_ipv4() ? flow.ipv4_id : 0);

    std::vector<uint8_t> again(frame->bytes());
    ASSERT_EQ(write_frame(*frame, again), again.size());
    ASSERT_EQ(again, bytes);
  }
}

TEST(BuildFrame, AsIsKeepsAWrongIcrc) {
  SeededRandom random(2);
  const IcrcFlow flow = random_flow(random, true);
  auto packet = seal(flow, random_bytes(random, 16));
  packet.back() ^= 1;
  const auto bytes = build_frame_as_is(flow, 64, 0, packet);
  const auto frame = dissect(bytes);
  ASSERT_TRUE(frame);
  EXPECT_TRUE(std::ranges::equal(frame->transport, packet));
}

TEST(BuildFrame, MulticastHasItsMacAddresses) {
  IcrcFlow flow{.source = Gid::from_ipv4(10, 0, 0, 1),
                .destination = Gid::from_ipv4(239, 129, 2, 3),
                .destination_port = kRoceUdpPort};
  const std::vector<uint8_t> packet(16);
  EXPECT_EQ(make_frame(flow, 1, 0, packet).ethernet.destination,
            (MacAddress{0x01, 0x00, 0x5e, 0x01, 0x02, 0x03}));
  EXPECT_EQ(make_frame(flow, 1, 0, packet).ethernet.source, (MacAddress{2, 0, 10, 0, 0, 1}));
  flow.source = {{0xfd, 0x99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 3}};
  flow.destination = {{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4}};
  EXPECT_EQ(make_frame(flow, 1, 0, packet).ethernet.destination,
            (MacAddress{0x33, 0x33, 1, 2, 3, 4}));
  EXPECT_EQ(make_frame(flow, 1, 0, packet).ethernet.source, (MacAddress{2, 5, 0, 0, 0, 3}));
}

TEST(Dissect, EthernetPaddingIsNotThePackets) {
  SeededRandom random(3);
  for (const bool ipv4 : {true, false}) {
    auto bytes = frame_for(random, ipv4, 12);
    const auto whole = dissect(bytes);
    ASSERT_TRUE(whole);
    const size_t transport_bytes = whole->transport.size();
    bytes.insert(bytes.end(), 9, 0xee);
    const auto padded = dissect(bytes);
    ASSERT_TRUE(padded);
    EXPECT_EQ(padded->transport.size(), transport_bytes);
    EXPECT_EQ(padded->trailer.size(), 9u);
    std::vector<uint8_t> again(padded->bytes());
    write_frame(*padded, again);
    EXPECT_EQ(again, bytes);
  }
}

TEST(Dissect, OneVlanTagIsTaken) {
  SeededRandom random(4);
  auto bytes = frame_for(random, true);
  const std::vector<uint8_t> tag = {0x81, 0x00, 0x60, 0x2a};
  bytes.insert(bytes.begin() + 12, tag.begin(), tag.end());
  const auto frame = dissect(bytes);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->ethernet.vlan_tag, 0x602a);
  std::vector<uint8_t> again(frame->bytes());
  write_frame(*frame, again);
  EXPECT_EQ(again, bytes);

  bytes.insert(bytes.begin() + 12, tag.begin(), tag.end());
  EXPECT_EQ(reason(bytes), DissectError::kNotIp);
}

TEST(Dissect, EthernetCut) {
  auto bytes = real_frame();
  bytes.resize(13);
  EXPECT_EQ(reason(bytes), DissectError::kEthernetCut);
  EXPECT_EQ(reason({}), DissectError::kEthernetCut);
  bytes = from_hex("525400000102 525400000103 8100 0001 08");
  EXPECT_EQ(reason(bytes), DissectError::kEthernetCut);
}

TEST(Dissect, NotIp) {
  auto bytes = real_frame();
  store_be16(bytes.data() + 12, 0x0806);
  EXPECT_EQ(reason(bytes), DissectError::kNotIp);
}

TEST(Dissect, IpCut) {
  auto bytes = real_frame();
  bytes.resize(kIp + 19);
  EXPECT_EQ(reason(bytes), DissectError::kIpCut);
  SeededRandom random(5);
  bytes = frame_for(random, false);
  bytes.resize(kIp + 39);
  EXPECT_EQ(reason(bytes), DissectError::kIpCut);
}

TEST(Dissect, IpVersion) {
  auto bytes = real_frame();
  bytes[kIp] = 0x65;
  EXPECT_EQ(reason(bytes), DissectError::kIpVersion);
  SeededRandom random(6);
  bytes = frame_for(random, false);
  bytes[kIp] = 0x45;
  EXPECT_EQ(reason(bytes), DissectError::kIpVersion);
}

TEST(Dissect, IpOptions) {
  for (int words = 0; words < 16; ++words) {
    auto bytes = real_frame();
    bytes[kIp] = static_cast<uint8_t>(0x40 | words);
    EXPECT_EQ(reason(bytes), words == 5 ? DissectError::kCount : DissectError::kIpOptions);
  }
}

TEST(Dissect, IpChecksum) {
  auto bytes = real_frame();
  bytes[kIp + 8] ^= 1;  // TTL without the checksum
  EXPECT_EQ(reason(bytes), DissectError::kIpChecksum);
  fix_checksum(bytes);
  EXPECT_EQ(reason(bytes), DissectError::kCount);
}

TEST(Dissect, IpLength) {
  auto bytes = real_frame();
  for (const size_t length : {size_t{0}, size_t{19}, bytes.size() - kIp + 1, size_t{0xffff}}) {
    store_be16(bytes.data() + kIp + 2, static_cast<uint16_t>(length));
    fix_checksum(bytes);
    EXPECT_EQ(reason(bytes), DissectError::kIpLength) << length;
  }
  SeededRandom random(7);
  bytes = frame_for(random, false);
  bytes.pop_back();
  EXPECT_EQ(reason(bytes), DissectError::kIpLength);
}

TEST(Dissect, Fragment) {
  for (const uint16_t flags : std::to_array<uint16_t>({0x2000, 0x6000, 0x0001, 0x1fff, 0x8000})) {
    auto bytes = real_frame();
    store_be16(bytes.data() + kIp + 6, flags);
    fix_checksum(bytes);
    EXPECT_EQ(reason(bytes), DissectError::kFragment) << flags;
  }
}

TEST(Dissect, MappedAddress) {
  SeededRandom random(8);
  for (const size_t offset : {8, 24}) {
    auto bytes = frame_for(random, false);
    std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(kIp + offset), 10, 0);
    std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(kIp + offset + 10), 2, 0xff);
    EXPECT_EQ(reason(bytes), DissectError::kMappedAddress);
  }
}

TEST(Dissect, NotUdp) {
  auto bytes = real_frame();
  bytes[kIp] = 0x46;  // IGMP comes with an option, and is still just not UDP
  bytes[kIp + 9] = 2;
  EXPECT_EQ(reason(bytes), DissectError::kNotUdp);
  SeededRandom random(9);
  bytes = frame_for(random, false);
  bytes[kIp + 6] = 58;
  EXPECT_EQ(reason(bytes), DissectError::kNotUdp);
}

TEST(Dissect, UdpCut) {
  auto bytes = real_frame();
  store_be16(bytes.data() + kIp + 2, 27);
  fix_checksum(bytes);
  EXPECT_EQ(reason(bytes), DissectError::kUdpCut);
}

TEST(Dissect, UdpLength) {
  for (const uint16_t length : std::to_array<uint16_t>({0, 7, 8, 27, 29, 0xffff})) {
    auto bytes = real_frame();
    store_be16(bytes.data() + kUdpIn4 + 4, length);
    EXPECT_EQ(reason(bytes), DissectError::kUdpLength) << length;
  }
}

TEST(Dissect, NotRoce) {
  auto bytes = real_frame();
  store_be16(bytes.data() + kUdpIn4 + 2, 53);
  EXPECT_EQ(reason(bytes), DissectError::kNotRoce);
}

TEST(Dissect, EveryReasonHasItsOwnWords) {
  std::set<std::string> words;
  for (int i = 0; i <= static_cast<int>(DissectError::kCount); ++i) {
    words.insert(to_string(static_cast<DissectError>(i)));
  }
  EXPECT_EQ(words.size(), static_cast<size_t>(DissectError::kCount) + 1);
}

TEST(Ipv4Checksum, OfTheTextbook) {
  const auto bytes = from_hex("4500 0073 0000 4000 4011 b861 c0a8 0001 c0a8 00c7");
  EXPECT_EQ(ipv4_checksum(bytes.data()), 0);
  Ipv4Header header = Ipv4Header::read(bytes.data());
  header.checksum = 0;
  std::array<uint8_t, Ipv4Header::kBytes> without{};
  header.write(without.data());
  EXPECT_EQ(ipv4_checksum(without.data()), 0xb861);
}

// Good frames with some bytes changed or cut off: no read outside, and what is taken writes back.
TEST(Dissect, DamagedFramesNeverLeadOutside) {
  SeededRandom random(10);
  int taken = 0;
  for (int round = 0; round < 20'000; ++round) {
    const size_t length = 12 + random.below(40);
    auto bytes = frame_for(random, random.below(2) == 0, length);
    for (uint64_t n = random.below(4); n > 0; --n) {
      bytes[random.below(bytes.size())] = static_cast<uint8_t>(random.next());
    }
    if (random.below(3) == 0) bytes.resize(random.below(bytes.size() + 1));
    bytes.shrink_to_fit();
    const auto frame = dissect(bytes);
    if (!frame) continue;
    ++taken;
    ASSERT_EQ(frame->bytes(), bytes.size());
    std::vector<uint8_t> again(frame->bytes());
    write_frame(*frame, again);
    ASSERT_EQ(again, bytes);
  }
  EXPECT_GT(taken, 1000);
}

}  // namespace
}  // namespace verbena::wire
