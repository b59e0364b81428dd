// SPDX-License-Identifier: Apache-2.0
// The classic pcap format, on bytes in memory; whoever calls does the file. Read: either byte
// order, microseconds or nanoseconds. Written: big-endian, nanoseconds. Ethernet only.
//
// File header, 24 bytes; fields in the byte order that the magic number stands in:
//  +------------+-------+-------+--------+---------+----------------+-----------+
//  | magic (32) | major | minor | zone   | sigfigs | snapshot bytes | link type |    1 = Ethernet
//  +------------+-------+-------+--------+---------+----------------+-----------+
// Record, 16 bytes and the frame:
//  +--------------+----------------------+-----------------+-----------------+-----------
//  | seconds (32) | nano- or microsec'ds | captured length | original length | bytes ...
//  +--------------+----------------------+-----------------+-----------------+-----------
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace verbena::wire {

enum class PcapError : uint8_t {
  kHeaderCut,     // not even a file header
  kNotPcap,       // unknown magic number; pcapng among them
  kVersion,       // not 2.4
  kLinkType,      // not Ethernet
  kRecordCut,     // the file ends inside a record
  kRecordLength,  // a record larger than any frame
  kRecordTime,    // a fraction of a second that is none
  kCount,
};
[[nodiscard]] const char* to_string(PcapError error);

struct PcapRecord {
  Time time = 0;                   // since 1970
  std::span<const uint8_t> frame;  // into the file's bytes
  uint32_t original_bytes = 0;     // on the wire; larger than the frame's when the capture cut it
};

class PcapReader {
 public:
  // `file` must outlive the reader and what it gives.
  [[nodiscard]] static Result<PcapReader, PcapError> open(std::span<const uint8_t> file);

  // The next record, nothing at the end. After an error the same error again.
  [[nodiscard]] Result<std::optional<PcapRecord>, PcapError> next();

 private:
  PcapReader(std::span<const uint8_t> rest, bool little_endian, bool nanoseconds)
      : rest_(rest), little_endian_(little_endian), nanoseconds_(nanoseconds) {}
  [[nodiscard]] uint32_t field(size_t offset) const;

  std::span<const uint8_t> rest_;
  bool little_endian_;
  bool nanoseconds_;
};

// Appends a capture to a vector: the file header at once, then one record a frame. The caller may
// take the bytes out and clear the vector between two calls, to write as it goes.
class PcapWriter {
 public:
  explicit PcapWriter(std::vector<uint8_t>& out);
  // time >= 0.
  void add(Time time, std::span<const uint8_t> frame);

 private:
  std::vector<uint8_t>& out_;
};

}  // namespace verbena::wire
