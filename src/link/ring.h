// SPDX-License-Identifier: Apache-2.0
// A ring in shared memory: records of one process on their way to another. One writes, one reads,
// neither waits for the other.
//
//   page 0   tail: how far the reader is           wants_room: the writer was refused
//            state: who is to have what is in it
//   data     | record | record | record | 0 ...    mapped twice, one after the other, so that no
//                                                   record has a seam
//
// A record begins on a cache line, with one word that says what it is and how long; it is there as
// soon as that word is not zero. Before the writer stores it, it clears the word behind the record.
// So the reader looks at one line and finds the record in it. Several records can be shown at once:
// the word of the first is stored last. The reader, which looks at that one all the time, then
// takes no line away that the writer is about to write.
//
// The reader treats the other end as hostile: it reads the word once, and believes no length. What
// the record holds may change while it is looked at: headers are copied before they are judged, and
// of a payload nothing is judged.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "base/unique_fd.h"

namespace verbena::link {

enum class RecordKind : uint8_t {
  kFlow = 1,  // addresses of what follows: a RingFlow
  kPacket,    // headers, payload
  kRun,       // a BTH, the payload of several packets
};

struct RecordHead {
  static constexpr uint32_t kBytes = 8;
  uint32_t payload_bytes = 0;
  uint16_t packets = 0;
  uint8_t header_bytes = 0;
  RecordKind kind{};

  // Never zero: no kind is.
  [[nodiscard]] uint64_t word() const {
    return payload_bytes | uint64_t{packets} << 32 | uint64_t{header_bytes} << 48 |
           uint64_t{static_cast<uint8_t>(kind)} << 56;
  }
  [[nodiscard]] static RecordHead of(uint64_t word) {
    return {.payload_bytes = static_cast<uint32_t>(word),
            .packets = static_cast<uint16_t>(word >> 32),
            .header_bytes = static_cast<uint8_t>(word >> 48),
            .kind = static_cast<RecordKind>(word >> 56)};
  }
  // Large payloads begin on a cache line.
  [[nodiscard]] uint32_t payload_at() const {
    constexpr uint32_t kAlignFrom = 512;
    return payload_bytes < kAlignFrom ? kBytes + header_bytes : 64;
  }
};

class Ring {
 public:
  static constexpr uint32_t kLine = 64;
  static constexpr uint32_t kMaxHeaderBytes = kLine - RecordHead::kBytes;
  // Of one record: what a run has at most.
  static constexpr uint32_t kMaxPayloadBytes = 64 * 1024;
  static constexpr uint32_t kMaxRecordBytes = kLine + kMaxPayloadBytes;
  static constexpr uint32_t kLeastBytes = 128 * 1024;
  static constexpr uint32_t kMostBytes = 1024 * 1024;

  Ring() = default;
  Ring(Ring&& other) noexcept { swap(other); }
  Ring& operator=(Ring&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Ring();

  // `bytes`: a power of two within the limits. The descriptor is to be handed on. None: errno.
  struct Made;
  [[nodiscard]] static std::optional<Made> make(uint32_t bytes);
  // What another process handed out, unless it has withdrawn it.
  [[nodiscard]] static std::optional<Ring> adopt(int fd);

  [[nodiscard]] bool valid() const { return shared_ != nullptr; }
  [[nodiscard]] uint32_t bytes() const { return mask_ + 1; }

 protected:
  struct Shared {
    alignas(kLine) std::atomic<uint64_t> tail;
    alignas(kLine) std::atomic<uint32_t> wants_room;
    // Changes once: the reader takes the ring, or the writer withdraws it.
    alignas(kLine) std::atomic<uint32_t> state;
  };
  static constexpr uint32_t kOffered = 0;
  static constexpr uint32_t kTaken = 1;
  static constexpr uint32_t kWithdrawn = 2;
  static constexpr size_t kPage = 65'536;  // a multiple of any

  [[nodiscard]] static std::optional<Ring> map(int fd, uint32_t bytes);
  void swap(Ring& other) noexcept {
    std::swap(shared_, other.shared_);
    std::swap(data_, other.data_);
    std::swap(mask_, other.mask_);
  }
  [[nodiscard]] uint8_t* at(uint64_t position) const { return data_ + (position & mask_); }
  [[nodiscard]] std::atomic_ref<uint64_t> word_at(uint64_t position) const {
    return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at(position)));
  }
  [[nodiscard]] static constexpr uint32_t lines_for(uint32_t bytes) {
    return (bytes + kLine - 1) & ~(kLine - 1);
  }
  [[nodiscard]] static uint32_t length_of(const RecordHead& head) {
    return lines_for(head.payload_at() + head.payload_bytes);
  }

  Shared* shared_ = nullptr;
  uint8_t* data_ = nullptr;
  uint32_t mask_ = 0;
};

struct Ring::Made {
  Ring ring;
  UniqueFd fd;
};

class RingWriter : public Ring {
 public:
  explicit RingWriter(Ring ring) : Ring(std::move(ring)) {}

  // Whether a record with this much payload fits, and `spare` behind it.
  [[nodiscard]] bool has_room(uint32_t payload_bytes, uint32_t spare = 0) {
    return free_for(kLine + lines_for(payload_bytes) + spare) != 0;
  }
  // At least `wanted` if there is room for it; 0 if not.
  [[nodiscard]] uint32_t free_for(uint32_t wanted) {
    if (free() < wanted)
      tail_ = std::clamp(shared_->tail.load(std::memory_order_acquire), tail_, head_);
    return free() < wanted ? 0 : free();
  }
  // The reader is to say when there is room. Ask again afterwards.
  void ask_for_room() { shared_->wants_room.store(1, std::memory_order_seq_cst); }
  [[nodiscard]] bool is_taken() const {
    return shared_->state.load(std::memory_order_relaxed) != kOffered;
  }
  // True: nobody has read anything, and nobody will.
  [[nodiscard]] bool withdraw() {
    uint32_t was = kOffered;
    return shared_->state.compare_exchange_strong(was, kWithdrawn, std::memory_order_acq_rel);
  }
  [[nodiscard]] bool is_read() {
    return head_ == tail_ || shared_->tail.load(std::memory_order_acquire) == head_;
  }

  // A record is written in three steps: its room, which there is; then it is written, and then it
  // is there for the reader, with all that were written since the last.
  struct Room {
    uint8_t* headers;
    uint8_t* payload;
  };
  [[nodiscard]] Room begin(const RecordHead& head) const {
    uint8_t* const start = at(head_);
    return {start + RecordHead::kBytes, start + head.payload_at()};
  }
  void append(const RecordHead& head) {
    if (first_ == head_) {
      first_word_ = head.word();
    } else {
      word_at(head_).store(head.word(), std::memory_order_relaxed);
    }
    head_ += length_of(head);
  }
  void show() {
    if (first_ == head_) return;
    word_at(head_).store(0, std::memory_order_relaxed);
    word_at(first_).store(first_word_, std::memory_order_release);
    first_ = head_;
  }
  void publish(const RecordHead& head) {
    append(head);
    show();
  }
  // Of what was written and not shown.
  [[nodiscard]] uint64_t hidden_bytes() const { return head_ - first_; }
  // How much was, ever.
  [[nodiscard]] uint64_t written() const { return head_; }
  // Memory behind an idle ring goes back to the system. False: it is not read yet.
  [[nodiscard]] bool give_back();

 private:
  // The word behind a record needs its line as well.
  [[nodiscard]] uint32_t free() const {
    return bytes() - kLine - static_cast<uint32_t>(head_ - tail_);
  }

  uint64_t head_ = 0;
  uint64_t first_ = 0;  // of the records that are not shown; head_: there are none
  uint64_t first_word_ = 0;
  uint64_t tail_ = 0;  // as last seen
};

class RingReader : public Ring {
 public:
  explicit RingReader(Ring ring) : Ring(std::move(ring)) {}

  [[nodiscard]] bool is_empty() const {
    return word_at(tail_).load(std::memory_order_relaxed) == 0;
  }
  struct Record {
    RecordHead head;
    std::span<const uint8_t> headers;
    std::span<const uint8_t> payload;
  };
  // The next; none: there is none, or is_broken().
  [[nodiscard]] std::optional<Record> next();
  // Past the record that next() gave.
  void advance(const Record& record) { tail_ += length_of(record.head); }
  // The other end wrote what no writer writes: nothing more can be read.
  [[nodiscard]] bool is_broken() const { return broken_; }
  // What was read is free again. True: the writer waits for room, and there is plenty.
  [[nodiscard]] bool release();

 private:
  uint64_t tail_ = 0;
  uint64_t released_ = 0;
  bool broken_ = false;
};

}  // namespace verbena::link
