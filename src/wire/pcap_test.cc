// SPDX-License-Identifier: Apache-2.0
#include "wire/pcap.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "wire/test_packets.h"

namespace verbena::wire {
namespace {

// One record of three bytes at 1.5 s, in each flavour.
const char* const kBigMicroseconds =
    "a1b2c3d4 0002 0004 00000000 00000000 0000ffff 00000001"
    "00000001 0007a120 00000003 00000003 aabbcc";
const char* const kBigNanoseconds =
    "a1b23c4d 0002 0004 00000000 00000000 0000ffff 00000001"
    "00000001 1dcd6500 00000003 00000003 aabbcc";
const char* const kLittleMicroseconds =
    "d4c3b2a1 0200 0400 00000000 00000000 ffff0000 01000000"
    "01000000 20a10700 03000000 03000000 aabbcc";
const char* const kLittleNanoseconds =
    "4d3cb2a1 0200 0400 00000000 00000000 ffff0000 01000000"
    "01000000 0065cd1d 03000000 03000000 aabbcc";

PcapError open_error(const std::vector<uint8_t>& file) {
  const auto reader = PcapReader::open(file);
  return reader ? PcapError::kCount : reader.error();
}

PcapError next_error(const std::vector<uint8_t>& file) {
  auto reader = PcapReader::open(file);
  if (!reader) return PcapError::kCount;
  const auto record = reader->next();
  return record ? PcapError::kCount : record.error();
}

TEST(Pcap, ReadsBothByteOrdersAndBothUnits) {
  for (const char* text :
       {kBigMicroseconds, kBigNanoseconds, kLittleMicroseconds, kLittleNanoseconds}) {
    const auto file = from_hex(text);
    auto reader = PcapReader::open(file);
    ASSERT_TRUE(reader);
    const auto record = reader->next();
    ASSERT_TRUE(record && *record);
    EXPECT_EQ((*record)->time, 1'500'000'000);
    EXPECT_TRUE(std::ranges::equal((*record)->frame, from_hex("aabbcc")));
    EXPECT_EQ((*record)->original_bytes, 3u);
    const auto end = reader->next();
    ASSERT_TRUE(end);
    EXPECT_FALSE(end->has_value());
  }
}

TEST(Pcap, ReadsWhatItWrote) {
  SeededRandom random(1);
  std::vector<uint8_t> file;
  std::vector<std::pair<Time, std::vector<uint8_t>>> frames;
  PcapWriter writer(file);
  for (int i = 0; i < 100; ++i) {
    frames.emplace_back(random.below(uint64_t{kSecond} << 31),
                        random_bytes(random, random.below(300)));
    writer.add(frames.back().first, frames.back().second);
  }
  auto reader = PcapReader::open(file);
  ASSERT_TRUE(reader);
  for (const auto& [time, bytes] : frames) {
    const auto record = reader->next();
    ASSERT_TRUE(record && *record);
    EXPECT_EQ((*record)->time, time);
    EXPECT_TRUE(std::ranges::equal((*record)->frame, bytes));
  }
  EXPECT_FALSE(reader->next()->has_value());
}

TEST(Pcap, AFrameCheckSequenceInTheLinkTypeIsStillEthernet) {
  auto file = from_hex(kBigMicroseconds);
  file[20] = 0x44;
  EXPECT_EQ(open_error(file), PcapError::kCount);
}

TEST(Pcap, HeaderCut) {
  const auto file = from_hex(kBigMicroseconds);
  for (ptrdiff_t length = 0; length < 24; ++length) {
    EXPECT_EQ(open_error({file.begin(), file.begin() + length}), PcapError::kHeaderCut);
  }
}

TEST(Pcap, NotPcap) {
  auto file = from_hex(kBigMicroseconds);
  store_be32(file.data(), 0x0a0d0d0a);  // pcapng
  EXPECT_EQ(open_error(file), PcapError::kNotPcap);
}

TEST(Pcap, Version) {
  auto file = from_hex(kBigMicroseconds);
  file[5] = 3;
  EXPECT_EQ(open_error(file), PcapError::kVersion);
}

TEST(Pcap, LinkType) {
  auto file = from_hex(kBigMicroseconds);
  file[23] = 113;  // Linux cooked
  EXPECT_EQ(open_error(file), PcapError::kLinkType);
}

TEST(Pcap, RecordCut) {
  const auto file = from_hex(kBigMicroseconds);
  for (ptrdiff_t length = 25; length < static_cast<ptrdiff_t>(file.size()); ++length) {
    EXPECT_EQ(next_error({file.begin(), file.begin() + length}), PcapError::kRecordCut);
  }
}

TEST(Pcap, RecordLength) {
  auto file = from_hex(kBigMicroseconds);
  store_be32(file.data() + 24 + 8, 0xffffffff);
  EXPECT_EQ(next_error(file), PcapError::kRecordLength);
}

TEST(Pcap, RecordTime) {
  auto file = from_hex(kBigMicroseconds);
  store_be32(file.data() + 24 + 4, 1'000'000);
  EXPECT_EQ(next_error(file), PcapError::kRecordTime);
  file = from_hex(kBigNanoseconds);
  store_be32(file.data() + 24 + 4, 1'000'000'000);
  EXPECT_EQ(next_error(file), PcapError::kRecordTime);
}

TEST(Pcap, EveryReasonHasItsOwnWords) {
  std::set<std::string> words;
  for (int i = 0; i <= static_cast<int>(PcapError::kCount); ++i) {
    words.insert(to_string(static_cast<PcapError>(i)));
  }
  EXPECT_EQ(words.size(), static_cast<size_t>(PcapError::kCount) + 1);
}

TEST(Pcap, DamagedFilesNeverLeadOutside) {
  SeededRandom random(2);
  for (int round = 0; round < 50'000; ++round) {
    auto file = from_hex(random.below(2) == 0 ? kBigMicroseconds : kLittleNanoseconds);
    for (uint64_t n = 1 + random.below(3); n > 0; --n) {
      file[random.below(file.size())] = static_cast<uint8_t>(random.next());
    }
    file.resize(random.below(file.size() + 1));
    file.shrink_to_fit();
    auto reader = PcapReader::open(file);
    if (!reader) continue;
    for (auto record = reader->next(); record && *record; record = reader->next()) {
      ASSERT_LE((*record)->frame.data() + (*record)->frame.size(), file.data() + file.size());
    }
  }
}

}  // namespace
}  // namespace verbena::wire
