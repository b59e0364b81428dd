// SPDX-License-Identifier: Apache-2.0
#include "wire/pcap.h"

#include <bit>
#include <iterator>

#include "base/check.h"
#include "base/endian.h"

namespace verbena::wire {
namespace {

constexpr uint32_t kMagicMicroseconds = 0xa1b2c3d4;
constexpr uint32_t kMagicNanoseconds = 0xa1b23c4d;
constexpr size_t kFileHeaderBytes = 24;
constexpr size_t kRecordHeaderBytes = 16;
constexpr uint32_t kMaxFrameBytes = 262'144;  // libpcap's own bound
constexpr uint32_t kLinkTypeEthernet = 1;
constexpr uint32_t kLinkTypeMask = 0xffff;  // above it: whether frames end in an FCS

uint32_t load32(const uint8_t* p, bool little_endian) {
  const uint32_t value = load_be32(p);
  return little_endian ? std::byteswap(value) : value;
}

uint16_t load16(const uint8_t* p, bool little_endian) {
  const uint16_t value = load_be16(p);
  return little_endian ? std::byteswap(value) : value;
}

}  // namespace

const char* to_string(PcapError error) {
  switch (error) {
    case PcapError::kHeaderCut:    return "too short for a pcap file";
    case PcapError::kNotPcap:      return "not a classic pcap file (pcapng: editcap -F nsecpcap)";
    case PcapError::kVersion:      return "pcap version is not 2.4";
    case PcapError::kLinkType:     return "not captured on Ethernet";
    case PcapError::kRecordCut:    return "the file ends inside a record";
    case PcapError::kRecordLength: return "a record longer than any frame";
    case PcapError::kRecordTime:   return "a time stamp that is none";
    case PcapError::kCount:        break;
  }
  return "no such reason";
}

Result<PcapReader, PcapError> PcapReader::open(std::span<const uint8_t> file) {
  if (file.size() < kFileHeaderBytes) return fail(PcapError::kHeaderCut);
  for (const bool little_endian : {false, true}) {
    const uint32_t magic = load32(file.data(), little_endian);
    if (magic != kMagicMicroseconds && magic != kMagicNanoseconds) continue;
    if (load16(file.data() + 4, little_endian) != 2 ||
        load16(file.data() + 6, little_endian) != 4) {
      return fail(PcapError::kVersion);
    }
    if ((load32(file.data() + 20, little_endian) & kLinkTypeMask) != kLinkTypeEthernet) {
      return fail(PcapError::kLinkType);
    }
    return PcapReader(file.subspan(kFileHeaderBytes), little_endian, magic == kMagicNanoseconds);
  }
  return fail(PcapError::kNotPcap);
}

uint32_t PcapReader::field(size_t offset) const {
  return load32(rest_.data() + offset, little_endian_);
}

Result<std::optional<PcapRecord>, PcapError> PcapReader::next() {
  if (rest_.empty()) return std::nullopt;
  if (rest_.size() < kRecordHeaderBytes) return fail(PcapError::kRecordCut);
  const uint32_t fraction = field(4);
  const uint32_t captured = field(8);
  if (fraction >= (nanoseconds_ ? 1'000'000'000u : 1'000'000u)) return fail(PcapError::kRecordTime);
  if (captured > kMaxFrameBytes) return fail(PcapError::kRecordLength);
  if (captured > rest_.size() - kRecordHeaderBytes) return fail(PcapError::kRecordCut);

  PcapRecord record;
  record.time = Time{field(0)} * kSecond + Time{fraction} * (nanoseconds_ ? 1 : kMicrosecond);
  record.frame = rest_.subspan(kRecordHeaderBytes, captured);
  record.original_bytes = field(12);
  rest_ = rest_.subspan(kRecordHeaderBytes + captured);
  return record;
}

PcapWriter::PcapWriter(std::vector<uint8_t>& out) : out_(out) {
  uint8_t header[kFileHeaderBytes] = {};
  store_be32(header, kMagicNanoseconds);
  store_be16(header + 4, 2);
  store_be16(header + 6, 4);
  store_be32(header + 16, kMaxFrameBytes);
  store_be32(header + 20, kLinkTypeEthernet);
  out_.insert(out_.end(), std::begin(header), std::end(header));
}

void PcapWriter::add(Time time, std::span<const uint8_t> frame) {
  VERBENA_CHECK(time >= 0 && frame.size() <= kMaxFrameBytes);
  uint8_t header[kRecordHeaderBytes];
  store_be32(header, static_cast<uint32_t>(time / kSecond));
  store_be32(header + 4, static_cast<uint32_t>(time % kSecond));
  store_be32(header + 8, static_cast<uint32_t>(frame.size()));
  store_be32(header + 12, static_cast<uint32_t>(frame.size()));
  out_.insert(out_.end(), std::begin(header), std::end(header));
  out_.insert(out_.end(), frame.begin(), frame.end());
}

}  // namespace verbena::wire
