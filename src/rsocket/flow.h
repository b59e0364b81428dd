// SPDX-License-Identifier: Apache-2.0
// How much either direction of a stream may carry now. No I/O: the stream tells what was sent,
// completed, arrived and read, and is told what may go and what is to be granted.
//
// A data message takes a place in the send queue, bytes of the send buffer, one of the peer's
// credits (each a place in its receive queue) and room in the half of its buffer that is current.
// Grants and control messages take none of these but one of four places of their own: the peer's
// receive queue may be full, and the transport tries again until it is not.
//
// A peer that breaks the rules makes a function return false, and its stream ends.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "rsocket/protocol.h"

namespace verbena::rsocket {

inline constexpr uint32_t kControlPlaces = 4;
// So much room makes a stream writable, and is what a transfer begins with.
inline constexpr uint32_t kLowWater = 2048;
inline constexpr uint32_t kMaxTransfer = 65536;

class SendFlow {
 public:
  // `places` of the send queue, control messages included.
  SendFlow(uint32_t buffer_bytes, uint32_t places)
      : buffer_bytes_(buffer_bytes), places_(places), free_bytes_(buffer_bytes) {}

  // What the peer said when it connected.
  void begin(uint16_t credits, const Entry& first_half);

  [[nodiscard]] bool can_send() const {
    return can_send_direct() && used_ != limit_ && halves_[current_].length != 0;
  }
  // Where the memory was agreed on before: no credit, no half is needed.
  [[nodiscard]] bool can_send_direct() const {
    return sent_ < places_ - kControlPlaces && free_bytes_ >= kLowWater;
  }
  // The most that one message can carry; 0 if none can go.
  [[nodiscard]] uint32_t room() const;
  [[nodiscard]] uint32_t direct_room() const;

  // A data message of `bytes`, at most room(): where it goes.
  struct Target {
    uint64_t address;
    uint32_t key;
  };
  [[nodiscard]] Target take(uint32_t bytes);
  void take_direct(uint32_t bytes);
  // The entry of a mapping: a credit, but no room in the peer's buffer.
  void take_mapping();
  [[nodiscard]] bool can_control() const { return controls_ < kControlPlaces; }
  void take_control() { ++controls_; }

  // Messages complete in the order in which they were sent.
  void completed(const Message& message);
  [[nodiscard]] bool idle() const { return sent_ == 0 && controls_ == 0; }

  // The next `bytes` of the send buffer begin here; they may go on at its start.
  [[nodiscard]] uint32_t buffer_offset() const { return buffer_offset_; }
  void fill_buffer(uint32_t bytes) { buffer_offset_ = (buffer_offset_ + bytes) % buffer_bytes_; }

  // A new limit, with half a buffer or without.
  [[nodiscard]] bool granted(uint16_t limit, const std::optional<Entry>& half);

 private:
  const uint32_t buffer_bytes_;
  const uint32_t places_;
  uint32_t free_bytes_;
  uint32_t buffer_offset_ = 0;
  uint32_t sent_ = 0;      // and not completed
  uint32_t controls_ = 0;  // likewise
  uint16_t credits_ = 0;   // the most that may be out at once
  uint16_t used_ = 0;      // counts messages
  uint16_t limit_ = 0;     // `used_` goes so far
  std::array<Entry, kListEntries> halves_{};
  uint32_t current_ = 0;
  uint32_t next_granted_ = 1;
};

class ReceiveFlow {
 public:
  // An even number of bytes; `places` of the receive queue.
  ReceiveFlow(uint32_t buffer_bytes, uint16_t places)
      : half_(buffer_bytes / 2),
        places_(places),
        expected_(half_),
        returned_(half_),
        next_half_(half_),
        tell_at_(static_cast<uint16_t>(places / 2)),
        lengths_(places) {}

  [[nodiscard]] bool arrived(uint32_t bytes);
  // A mapping's entry took a credit, and is done with.
  [[nodiscard]] bool mapping_arrived();

  [[nodiscard]] uint32_t readable() const { return readable_; }
  // What lies at `ahead` bytes from the first unread one, up to the end of the buffer.
  struct Piece {
    uint32_t offset;
    uint32_t bytes;
  };
  [[nodiscard]] Piece piece(uint32_t ahead) const;
  void read(uint32_t bytes);

  struct Grant {
    uint16_t limit;
    std::optional<uint32_t> half_offset;
  };
  [[nodiscard]] bool owes_grant() const;
  // To be sent.
  [[nodiscard]] Grant grant();
  [[nodiscard]] uint32_t half() const { return half_; }

 private:
  const uint32_t half_;
  const uint16_t places_;
  uint32_t expected_;  // what the peer may still write
  uint32_t readable_ = 0;
  uint32_t read_offset_ = 0;
  uint32_t returned_;   // read, and not granted again
  uint32_t next_half_;  // where the next grant begins
  uint16_t done_ = 0;   // counts messages that were read
  uint16_t tell_at_;    // a grant is due when `done_` gets here
  // The lengths of the messages that were not read to their end: of the first what is left of it.
  std::vector<uint32_t> lengths_;
  uint32_t first_ = 0;
  uint32_t count_ = 0;
};

}  // namespace verbena::rsocket
