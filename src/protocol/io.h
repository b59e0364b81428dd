// SPDX-License-Identifier: Apache-2.0
// Reads and writes.
//
//   request   | header 32 | id u64 | size u16 | type u8 | extension | payload [size] | CRC u32 |
//
//       type     7 extension   6 segments   5-4 object   3 repeatable   2-0 operation
//
//   extension | oldest u64 | offset u64 | length u64 | object | segments | head CRC u32 |
//
//       object     kind 0: nothing; 1: id u64 u64; 2: name (u16 and bytes)
//       segments   count u8, count x (address u64, rkey u32, length u32)
//
//   response  | header 32 | id u64 | status u8 | extension | payload | CRC u32 |
//
//       status   7 extension   6 data inline   5 read   4-0 status
//
//   extension | object id u64 u64 | offset u64 | length u64 | detail (u16 and bytes) | head CRC u32
//   |
//
// The CRC is that of the user data, whether it is the payload or moves by RDMA. Without an
// extension
// (`plain`) a request is for the default object at id x 4048, and has neither a head CRC nor an
// `oldest`; the response is then plain as well, and of a write ends with the status.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "protocol/message.h"

namespace verbena::protocol {

// Of a client's memory.
struct Segment {
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint32_t length = 0;  // bytes, not 0
  bool operator==(const Segment&) const = default;
};
inline constexpr size_t kMaxSegments = 16;

class SegmentList {
 public:
  SegmentList() = default;
  SegmentList(std::initializer_list<Segment> segments) {
    for (const Segment& segment : segments) (void)add(segment);
  }
  // False if there are kMaxSegments.
  bool add(const Segment& segment) {
    if (count_ == kMaxSegments) return false;
    segments_[count_++] = segment;
    return true;
  }
  [[nodiscard]] std::span<const Segment> all() const { return {segments_.data(), count_}; }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] size_t size() const { return count_; }
  [[nodiscard]] uint64_t bytes() const;
  bool operator==(const SegmentList& other) const;

 private:
  std::array<Segment, kMaxSegments> segments_{};
  size_t count_ = 0;
};

enum class IoKind : uint8_t { kRead = 0, kWrite = 1 };

inline constexpr uint64_t kPlainStride = 4048;    // a plain request's id times this is its offset
inline constexpr size_t kMaxInlineBytes = 61440;  // of any session; fits `size` and a 64 KiB buffer

struct IoResponse {
  static constexpr MessageType kType{102};
  static constexpr const char* kName = "READ_WRITE_ACK";
  IoKind kind = IoKind::kRead;
  bool plain = false;
  bool data_inline = false;  // a read's
  uint64_t id = 0;
  Status status = Status::kOk;
  ObjectId object{};    // of which it was
  uint64_t offset = 0;  // the request's
  uint64_t length = 0;  // bytes read (fewer than asked for at the object's end) or written
  std::string_view detail{};
  uint32_t crc = 0;  // of the data read, or of the data stored
  std::span<const uint8_t> payload{};
};

struct IoRequest {
  static constexpr MessageType kReadType{100};
  static constexpr MessageType kWriteType{101};
  static constexpr const char* kReadName = "OBJ_READ";
  static constexpr const char* kWriteName = "OBJ_WRITE";
  using Response = IoResponse;
  IoKind kind = IoKind::kRead;
  bool plain = false;
  // A write that may be executed again after the server was restarted.
  bool repeatable = false;
  uint64_t id = 0;
  uint64_t oldest = 0;
  ObjectRef object{};
  uint64_t offset = 0;
  uint64_t length = 0;
  SegmentList segments{};  // empty: the data is inline
  uint32_t crc = 0;        // of a write's data
  std::span<const uint8_t> payload{};

  [[nodiscard]] Effect effect() const {
    return kind == IoKind::kWrite && !plain ? Effect::kStore : Effect::kNone;
  }
};

// The payload is copied, unless it already lies at payload_offset() of `room`; if it is the null
// span, the caller fills in that place. (Neither CRC nor tag read the data.)
[[nodiscard]] Decoded<size_t> encode(const IoRequest& request, const Address& address,
                                     const Seal& seal, std::span<uint8_t> room);
[[nodiscard]] Decoded<size_t> encode(const IoResponse& response, const Address& address,
                                     const Seal& seal, std::span<uint8_t> room);
// Where the payload of the message begins, if it has one.
[[nodiscard]] size_t payload_offset(const IoRequest& request);
[[nodiscard]] size_t payload_offset(const IoResponse& response);
// The payload's CRC is not checked: whoever copies the data does it in the same pass.
[[nodiscard]] Decoded<IoRequest> decode_io_request(std::span<const uint8_t> message,
                                                   const Seal& seal);
[[nodiscard]] Decoded<IoResponse> decode_io_response(std::span<const uint8_t> message,
                                                     const Seal& seal);

// Of the longest request or response without its payload.
inline constexpr size_t kMaxIoOverhead = 2048;

}  // namespace verbena::protocol
