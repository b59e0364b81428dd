// SPDX-License-Identifier: Apache-2.0
// Requests first, then responses. Each has one function that lists the fields of its extension, for
// reading and writing; the bits of type and status are taken apart and put together beside it.
#include "protocol/io.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/endian.h"

namespace verbena::protocol {
namespace {

constexpr uint8_t kExtended = 0x80;
constexpr uint8_t kHasSegments = 0x40;  // in a request's type
constexpr uint8_t kInlineData = 0x40;   // in a response's status
constexpr uint8_t kIsRead = 0x20;
constexpr unsigned kObjectShift = 4;
constexpr uint8_t kObjectMask = 0x3;
constexpr uint8_t kRepeatable = 0x08;
constexpr uint8_t kOperationMask = 0x07;

constexpr size_t kRequestHeadBytes = 8 + 2 + 1;
constexpr size_t kResponseHeadBytes = 8 + 1;
constexpr size_t kSegmentBytes = 8 + 4 + 4;
static_assert(kHeaderBytes + kRequestHeadBytes + 3 * 8 + 2 + kMaxNameBytes + 1 +
                  kMaxSegments * kSegmentBytes + 2 * kCrcBytes <=
              kMaxIoOverhead);

[[nodiscard]] bool within_64_bits(uint64_t start, uint64_t length) {
  return length <= std::numeric_limits<uint64_t>::max() - start;
}

// --- segments

[[nodiscard]] bool valid_segments(const SegmentList& segments) {
  return std::ranges::all_of(segments.all(), [](const Segment& s) {
    return s.length != 0 && within_64_bits(s.address, s.length);
  });
}

void segment_fields(const SegmentList& segments, FieldWriter& f) {
  f(static_cast<uint8_t>(segments.size()));
  for (const Segment& s : segments.all()) f(s.address, s.rkey, s.length);
}
void segment_fields(SegmentList& segments, FieldReader& f) {
  uint8_t count = 0;
  f(count);
  if (count == 0 || count > kMaxSegments) f.refuse(Fault::kSegments);
  for (; f.ok() && count > 0; --count) {
    Segment s;
    f(s.address, s.rkey, s.length);
    segments.add(s);
  }
}

// --- requests

// How many bytes of payload follow.
[[nodiscard]] uint64_t payload_of(const IoRequest& r) {
  return r.kind == IoKind::kWrite && r.segments.empty() ? r.length : 0;
}

[[nodiscard]] uint8_t type_byte_of(const IoRequest& r) {
  auto type = static_cast<uint8_t>(r.kind);
  if (r.plain) return type;
  type |= kExtended;
  if (!r.segments.empty()) type |= kHasSegments;
  type |= static_cast<uint8_t>(static_cast<unsigned>(r.object.kind) << kObjectShift);
  if (r.repeatable) type |= kRepeatable;
  return type;
}

// What decoding refuses and encoding does not write.
[[nodiscard]] Decoded<void> check_request(const IoRequest& r) {
  if (!is_defined(r.object.kind)) return fail(Fault::kObject);
  if (r.repeatable && (r.kind == IoKind::kRead || r.plain)) return fail(Fault::kTypeByte);
  if (r.kind == IoKind::kRead && r.crc != 0) return fail(Fault::kReserved);
  if (!within_64_bits(r.offset, r.length)) return fail(Fault::kLength);
  if (!valid_segments(r.segments)) return fail(Fault::kSegments);
  if (r.plain && (r.length > kPlainStride || r.id > UINT64_MAX / kPlainStride - 1)) {
    return fail(Fault::kLength);
  }
  if (r.segments.empty()) {
    if (r.length > kMaxInlineBytes) return fail(Fault::kLength);
  } else if (r.kind == IoKind::kWrite ? r.segments.bytes() != r.length
                                      : r.segments.bytes() < r.length) {
    return fail(Fault::kLength);
  }
  return {};
}

template <typename Request, typename Fields>
void extension_fields(Request& r, Fields& f, bool segments) {
  f(r.oldest, r.offset, r.length);
  ObjectRef::target(r.object, f);
  if (segments) segment_fields(r.segments, f);
}

// The type byte into the fields it stands for; whether there are segments.
[[nodiscard]] Decoded<bool> take_type_byte(uint8_t type, IoRequest& r) {
  if ((type & kOperationMask) != static_cast<uint8_t>(r.kind)) return fail(Fault::kTypeByte);
  r.plain = (type & kExtended) == 0;
  if (r.plain) {
    if (type != static_cast<uint8_t>(r.kind)) return fail(Fault::kTypeByte);
    return false;
  }
  r.object.kind = static_cast<ObjectRef::Kind>(type >> kObjectShift & kObjectMask);
  if (!is_defined(r.object.kind)) return fail(Fault::kObject);
  r.repeatable = (type & kRepeatable) != 0;
  return (type & kHasSegments) != 0;
}

// Of a plain request, all that its id and size say.
void complete_plain(IoRequest& r, uint16_t size) {
  r.length = size;
  r.offset = r.id * kPlainStride;
}

// --- both

// Reads the head CRC, of an extended message.
[[nodiscard]] size_t head_end_of(std::span<const uint8_t> message, FieldReader& f) {
  const size_t end = message.size() - f.rest().size();
  uint32_t crc = 0;
  f(crc);
  return end;
}

void write_head_crc(FieldWriter& f, std::span<uint8_t> room, size_t head_end) {
  if (uint8_t* p = f.claim(kCrcBytes); p != nullptr) {
    store_be32(p, head_crc_of({.message = room.first(head_end), .head_end = head_end}));
  }
}

void write_payload(FieldWriter& f, std::span<const uint8_t> payload, uint64_t length) {
  if (payload.data() == nullptr) {
    (void)f.claim(length);
  } else if (payload.size() != length) {
    f.refuse(Fault::kLength);
  } else {
    f.raw(payload);
  }
}

[[nodiscard]] Decoded<size_t> finish(const FieldWriter& f, std::span<uint8_t> room, size_t head_end,
                                     size_t crc_bytes, const Seal& seal) {
  if (!f.ok()) return fail(f.fault());
  const Parts parts{.message = room.first(f.used()), .head_end = head_end, .crc_bytes = crc_bytes};
  store_be64(room.data() + kWordOffset, seal.word_of(parts));
  return f.used();
}

// An authentic message, and undamaged as far as it has a head CRC.
[[nodiscard]] Decoded<void> check_parts(const Parts& parts, bool plain, const Seal& seal) {
  if (!plain) return detail::check_head(parts, seal);
  if (!seal.matches(parts)) return fail(Fault::kKey);
  return {};
}

// --- responses

[[nodiscard]] uint8_t status_byte_of(const IoResponse& r) {
  auto byte = static_cast<uint8_t>(r.status);
  if (!r.plain) byte |= kExtended;
  if (r.data_inline) byte |= kInlineData;
  if (r.kind == IoKind::kRead) byte |= kIsRead;
  return byte;
}
[[nodiscard]] Decoded<void> take_status_byte(uint8_t byte, IoResponse& r) {
  r.plain = (byte & kExtended) == 0;
  r.data_inline = (byte & kInlineData) != 0;
  r.kind = (byte & kIsRead) != 0 ? IoKind::kRead : IoKind::kWrite;
  r.status = static_cast<Status>(byte & kStatusMask);
  if (!is_defined(r.status)) return fail(Fault::kReserved);
  return {};
}

// Only what succeeded has data and their CRC; of plain responses, only reads have.
[[nodiscard]] bool has_crc(const IoResponse& r) {
  return r.status == Status::kOk && (!r.plain || r.kind == IoKind::kRead);
}

[[nodiscard]] Decoded<void> check_response(const IoResponse& r) {
  const bool read_ok = r.kind == IoKind::kRead && r.status == Status::kOk;
  if (r.data_inline && !read_ok) return fail(Fault::kReserved);
  if (r.plain && read_ok && !r.data_inline) return fail(Fault::kReserved);
  if (r.status != Status::kOk && (r.length != 0 || r.crc != 0)) return fail(Fault::kLength);
  if (r.data_inline && r.length > kMaxInlineBytes) return fail(Fault::kLength);
  if (!within_64_bits(r.offset, r.length)) return fail(Fault::kLength);
  return {};
}

template <typename Response, typename Fields>
void response_fields(Response& r, Fields& f) {
  f(r.object, r.offset, r.length);
  f.text(r.detail);
}

}  // namespace

uint64_t SegmentList::bytes() const {
  return std::accumulate(segments_.begin(), segments_.begin() + static_cast<ptrdiff_t>(count_),
                         uint64_t{0},
                         [](uint64_t sum, const Segment& segment) { return sum + segment.length; });
}

bool SegmentList::operator==(const SegmentList& other) const {
  return std::ranges::equal(all(), other.all());
}

size_t payload_offset(const IoRequest& r) {
  size_t at = kHeaderBytes + kRequestHeadBytes;
  if (r.plain) return at;
  at += 3 * sizeof(uint64_t);
  if (r.object.kind == ObjectRef::Kind::kId) at += sizeof(ObjectId);
  if (r.object.kind == ObjectRef::Kind::kName) at += sizeof(uint16_t) + r.object.name.size();
  if (!r.segments.empty()) at += 1 + r.segments.size() * kSegmentBytes;
  return at + kCrcBytes;
}

size_t payload_offset(const IoResponse& r) {
  size_t at = kHeaderBytes + kResponseHeadBytes;
  if (!r.plain) {
    at += sizeof(ObjectId) + 2 * sizeof(uint64_t) + sizeof(uint16_t) + r.detail.size() + kCrcBytes;
  }
  return at;
}

Decoded<size_t> encode(const IoRequest& request, const Address& address, const Seal& seal,
                       std::span<uint8_t> room) {
  if (const auto good = check_request(request); !good) return fail(good.error());
  const bool write = request.kind == IoKind::kWrite;
  const uint64_t payload = payload_of(request);
  const uint64_t size = request.plain ? request.length : payload;
  FieldWriter f(room);
  detail::begin_message(f, write ? IoRequest::kWriteType : IoRequest::kReadType, address);
  f(request.id, static_cast<uint16_t>(size), type_byte_of(request));
  if (!request.plain) extension_fields(request, f, !request.segments.empty());
  const size_t head_end = f.used();
  if (!request.plain) write_head_crc(f, room, head_end);
  write_payload(f, request.payload, payload);
  f(request.crc);
  return finish(f, room, head_end, kCrcBytes, seal);
}

Decoded<IoRequest> decode_io_request(std::span<const uint8_t> message, const Seal& seal) {
  const auto header = decode_header(message);
  if (!header) return fail(header.error());
  IoRequest r;
  if (header->type == IoRequest::kWriteType) {
    r.kind = IoKind::kWrite;
  } else if (header->type != IoRequest::kReadType) {
    return fail(Fault::kUnexpected);
  }
  FieldReader f(message.subspan(kHeaderBytes));
  uint16_t size = 0;
  uint8_t type = 0;
  f(r.id, size, type);
  if (!f.ok()) return fail(f.fault());
  const auto segments = take_type_byte(type, r);
  if (!segments) return fail(segments.error());
  if (!r.plain) extension_fields(r, f, *segments);
  size_t head_end = message.size() - f.rest().size();
  if (r.plain) {
    complete_plain(r, size);
  } else {
    head_end = head_end_of(message, f);
  }
  if (f.ok() && !r.plain && size != payload_of(r)) return fail(Fault::kLength);
  r.payload = f.raw(payload_of(r));
  f(r.crc);
  if (!f.ok()) return fail(f.fault());
  if (!f.rest().empty()) return fail(Fault::kLong);
  const Parts parts{.message = message, .head_end = head_end, .crc_bytes = kCrcBytes};
  if (const auto good = check_parts(parts, r.plain, seal); !good) return fail(good.error());
  if (const auto good = check_request(r); !good) return fail(good.error());
  return r;
}

Decoded<size_t> encode(const IoResponse& response, const Address& address, const Seal& seal,
                       std::span<uint8_t> room) {
  if (const auto good = check_response(response); !good) return fail(good.error());
  FieldWriter f(room);
  detail::begin_message(f, IoResponse::kType, address);
  f(response.id, status_byte_of(response));
  if (!response.plain) response_fields(response, f);
  const size_t head_end = f.used();
  if (!response.plain) write_head_crc(f, room, head_end);
  if (response.data_inline) write_payload(f, response.payload, response.length);
  if (has_crc(response)) f(response.crc);
  return finish(f, room, head_end, has_crc(response) ? kCrcBytes : 0, seal);
}

Decoded<IoResponse> decode_io_response(std::span<const uint8_t> message, const Seal& seal) {
  const auto header = decode_header(message);
  if (!header) return fail(header.error());
  if (header->type != IoResponse::kType) return fail(Fault::kUnexpected);
  IoResponse r;
  FieldReader f(message.subspan(kHeaderBytes));
  uint8_t status = 0;
  f(r.id, status);
  if (!f.ok()) return fail(f.fault());
  if (const auto good = take_status_byte(status, r); !good) return fail(good.error());
  if (!r.plain) response_fields(r, f);
  size_t head_end = message.size() - f.rest().size();
  if (!r.plain) head_end = head_end_of(message, f);
  const size_t crc_bytes = has_crc(r) ? kCrcBytes : 0;
  if (r.plain && r.data_inline && f.rest().size() >= crc_bytes) {
    r.length = f.rest().size() - crc_bytes;
  }
  if (r.data_inline) r.payload = f.raw(r.length);
  if (crc_bytes != 0) f(r.crc);
  if (!f.ok()) return fail(f.fault());
  if (!f.rest().empty()) return fail(Fault::kLong);
  const Parts parts{.message = message, .head_end = head_end, .crc_bytes = crc_bytes};
  if (const auto good = check_parts(parts, r.plain, seal); !good) return fail(good.error());
  if (const auto good = check_response(r); !good) return fail(good.error());
  return r;
}

}  // namespace verbena::protocol
