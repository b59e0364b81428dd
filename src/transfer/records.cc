// SPDX-License-Identifier: Apache-2.0
#include "transfer/records.h"

#include <array>
#include <cstring>

#include "base/block_sums.h"
#include "base/check.h"
#include "base/endian.h"

namespace verbena::transfer {
namespace {

using protocol::Decoded;
using protocol::Fault;
using protocol::FieldReader;
using protocol::FieldWriter;

constexpr uint16_t kMagic = 0x5646;  // "VF"
constexpr size_t kCrcAt = 12;
constexpr size_t kMaxRecordBytes = 4200;  // the longest path, and the rest

uint32_t crc_of_head(std::span<const uint8_t> head, std::span<const uint8_t> fields) {
  return crc32_finish(crc32_msb_update(crc32_msb_update(kCrc32Start, head), fields));
}

template <size_t I = 0>
Decoded<Record> decode_record(uint8_t type, FieldReader& reader) {
  if constexpr (I == std::variant_size_v<Record>) {
    return fail(Fault::kType);
  } else {
    using R = std::variant_alternative_t<I, Record>;
    if (type != R::kType) return decode_record<I + 1>(type, reader);
    R record{};
    R::fields(record, reader);
    if (!reader.ok()) return fail(reader.fault());
    return record;
  }
}

}  // namespace

uint32_t data_bytes(const Record& record) {
  if (const auto* const data = std::get_if<Data>(&record)) return data->length;
  if (const auto* const small = std::get_if<Small>(&record)) return small->length;
  return 0;
}

bool FrameWriter::add(const Record& record) {
  std::array<uint8_t, kMaxRecordBytes> room;
  FieldWriter writer(room);
  std::visit(
      [&]<typename R>(const R& r) {
        writer(R::kType);
        R::fields(r, writer);
      },
      record);
  VERBENA_CHECK(writer.ok());
  const size_t more = data_bytes(record);
  const size_t fields = fields_ + writer.used();
  if (records_ == UINT16_MAX || fields > kMaxFieldsBytes ||
      kFrameHeadBytes + fields + data_ + more > buffer_.size()) {
    return false;
  }
  std::memcpy(buffer_.data() + kFrameHeadBytes + fields_, room.data(), writer.used());
  fields_ = fields;
  data_ += more;
  ++records_;
  return true;
}

std::span<uint8_t> FrameWriter::data() { return buffer_.subspan(kFrameHeadBytes + fields_, data_); }

size_t FrameWriter::finish() {
  store_be16(buffer_.data(), kMagic);
  store_be16(buffer_.data() + 2, records_);
  store_be32(buffer_.data() + 4, static_cast<uint32_t>(fields_));
  store_be32(buffer_.data() + 8, static_cast<uint32_t>(data_));
  store_be32(buffer_.data() + kCrcAt,
             crc_of_head(buffer_.first(kCrcAt), buffer_.subspan(kFrameHeadBytes, fields_)));
  return kFrameHeadBytes + fields_ + data_;
}

Decoded<Frame> decode_frame(std::span<const uint8_t> slot) {
  if (slot.size() < kFrameHeadBytes) return fail(Fault::kShort);
  std::array<uint8_t, kFrameHeadBytes> head;
  std::memcpy(head.data(), slot.data(), head.size());
  const size_t count = load_be16(&head[2]);
  const size_t fields = load_be32(&head[4]);
  const size_t data = load_be32(&head[8]);
  if (load_be16(head.data()) != kMagic) return fail(Fault::kMagic);
  if (fields > kMaxFieldsBytes || kFrameHeadBytes + fields > slot.size() ||
      data > slot.size() - kFrameHeadBytes - fields) {
    return fail(Fault::kLength);
  }
  Frame frame;
  const auto theirs = slot.subspan(kFrameHeadBytes, fields);
  frame.fields.assign(theirs.begin(), theirs.end());
  if (load_be32(&head[kCrcAt]) != crc_of_head(std::span(head).first(kCrcAt), frame.fields)) {
    return fail(Fault::kHeadCrc);
  }
  FieldReader reader(frame.fields);
  auto rest = slot.subspan(kFrameHeadBytes + fields, data);
  if (count > fields) return fail(Fault::kCount);
  frame.records.reserve(count);
  frame.data.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    uint8_t type = 0;
    reader(type);
    if (!reader.ok()) return fail(reader.fault());
    auto record = decode_record(type, reader);
    if (!record) return fail(record.error());
    const size_t length = data_bytes(*record);
    if (length > rest.size()) return fail(Fault::kLength);
    frame.records.push_back(*record);
    frame.data.push_back(rest.first(length));
    rest = rest.subspan(length);
  }
  if (!reader.rest().empty() || !rest.empty()) return fail(Fault::kLong);
  return frame;
}

}  // namespace verbena::transfer
