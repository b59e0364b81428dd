// SPDX-License-Identifier: Apache-2.0
// What the sender writes into the receiver's slots, in our mode: frames of records.
//
//   frame   | magic u16 | records u16 | fields u32 | data u32 | crc u32 | fields ... | data ... |
//
// `fields` is the length of the records' fields, one after the other, each behind its type; `data`
// that of their data, in the same order. The crc is over the frame's first 12 bytes and all fields;
// each record that has data says its CRC. The sender can write to a slot at any time, so the fields
// are copied before anything is believed of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "protocol/fields.h"
#include "protocol/side_channel.h"

namespace verbena::transfer {

using FileId = uint32_t;  // of the sender; none is used twice in a connection

inline constexpr size_t kFrameHeadBytes = 16;
// Immediate data of an empty write, instead of a slot's number: the sender is still there.
inline constexpr uint32_t kAliveImmediate = UINT32_MAX;
inline constexpr size_t kMaxFieldsBytes = 64 << 10;
// Room that a slot has beside the data of one chunk.
inline constexpr size_t kSlotExtraBytes = kFrameHeadBytes + kMaxFieldsBytes;

// The bits of `mode` that travel.
inline constexpr uint16_t kModeBits = 0777;

struct Attributes {
  uint16_t mode = 0644;
  uint64_t modified_s = 0;  // since 1970, two's complement
  uint32_t modified_ns = 0;
  bool operator==(const Attributes&) const = default;
  static void fields(auto& self, auto& f) { f(self.mode, self.modified_s, self.modified_ns); }
};

// A file in chunks; its data follows, then kClose.
struct Open {
  static constexpr uint8_t kType = 1;
  FileId file = 0;
  uint64_t size = 0;
  Attributes attributes{};
  bool resume = false;  // Have is awaited before any data
  std::span<const uint8_t> path{};
  static void fields(auto& self, auto& f) {
    f(self.file, self.size, self.attributes, self.resume);
    f.bytes16(self.path);
  }
};
struct Data {
  static constexpr uint8_t kType = 2;
  FileId file = 0;
  uint64_t chunk = 0;
  uint32_t length = 0;
  uint32_t crc = 0;
  static void fields(auto& self, auto& f) { f(self.file, self.chunk, self.length, self.crc); }
};
// Chunks that are holes.
struct Hole {
  static constexpr uint8_t kType = 3;
  FileId file = 0;
  uint64_t first = 0;
  uint64_t count = 0;
  static void fields(auto& self, auto& f) { f(self.file, self.first, self.count); }
};
struct Close {
  static constexpr uint8_t kType = 4;
  FileId file = 0;
  uint32_t crc = 0;  // of the whole file
  static void fields(auto& self, auto& f) { f(self.file, self.crc); }
};
// A whole file in one record.
struct Small {
  static constexpr uint8_t kType = 5;
  FileId file = 0;
  Attributes attributes{};
  uint32_t length = 0;
  uint32_t crc = 0;
  std::span<const uint8_t> path{};
  static void fields(auto& self, auto& f) {
    f(self.file, self.attributes, self.length, self.crc);
    f.bytes16(self.path);
  }
};
struct Folder {
  static constexpr uint8_t kType = 6;
  FileId file = 0;
  Attributes attributes{};
  std::span<const uint8_t> path{};
  static void fields(auto& self, auto& f) {
    f(self.file, self.attributes);
    f.bytes16(self.path);
  }
};
// The sender cannot go on with it: it stays incomplete.
struct Abandon {
  static constexpr uint8_t kType = 7;
  FileId file = 0;
  static void fields(auto& self, auto& f) { f(self.file); }
};
// First of all, with a shared secret.
struct Proof {
  static constexpr uint8_t kType = 8;
  protocol::Mac mac{};
  static void fields(auto& self, auto& f) { f(self.mac); }
};

using Record = std::variant<Open, Data, Hole, Close, Small, Folder, Abandon, Proof>;

[[nodiscard]] uint32_t data_bytes(const Record& record);
// UTF-8 or not, as the sender's system has it.
[[nodiscard]] inline std::string_view text_of(std::span<const uint8_t> path) {
  return {reinterpret_cast<const char*>(path.data()), path.size()};
}
[[nodiscard]] inline std::span<const uint8_t> bytes_of(std::string_view path) {
  return {reinterpret_cast<const uint8_t*>(path.data()), path.size()};
}

// Builds a frame in a buffer. Data is put where data() says, after all records were added.
class FrameWriter {
 public:
  explicit FrameWriter(std::span<uint8_t> buffer) : buffer_(buffer) {}
  // False: there is no room for it.
  [[nodiscard]] bool add(const Record& record);
  // Where the data of the records that were added goes, one after the other.
  [[nodiscard]] std::span<uint8_t> data();
  // The whole frame's length.
  [[nodiscard]] size_t finish();
  [[nodiscard]] bool empty() const { return records_ == 0; }

 private:
  std::span<uint8_t> buffer_;
  size_t fields_ = 0;
  size_t data_ = 0;
  uint16_t records_ = 0;
};

struct Frame {
  std::vector<Record> records;
  std::vector<std::span<const uint8_t>> data;  // of each, in the slot
  // What the records' views point to.
  std::vector<uint8_t> fields;
};
[[nodiscard]] protocol::Decoded<Frame> decode_frame(std::span<const uint8_t> slot);

}  // namespace verbena::transfer
