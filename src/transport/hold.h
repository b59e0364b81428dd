// SPDX-License-Identifier: Apache-2.0
// Packets that came early, kept until what is missing before them arrives. The standard's receiver
// drops them and the sender goes back; keeping them changes nothing on the wire, but lets one
// repaired packet acknowledge all that followed it. Bounded per queue pair, and by the pool for all
// of them.
//
// Who forges a packet must guess the PSN that is expected. Any of those that may be early would be
// easier to hit; so they must also come from the UDP port from which packets came in order. A peer
// keeps to one. Ours draw theirs from 16384 at random, more than the PSNs there are; others may
// derive it from queue pair numbers, so of them only what few PSNs ahead is kept
// (kMaxAheadOfOthers). Of two packets with one PSN that differ, one is forged, and neither is held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"
#include "transport/psn_bits.h"
#include "transport/work.h"
#include "wire/psn.h"

namespace verbena::transport {

// Buffers for held packets, shared by an endpoint's queue pairs; memory is only allocated once a
// loss happens, and then kept. Who holds as many as are free takes no more: one queue pair has half
// of all at most, and what others take makes its share smaller (Choudhury and Hahne's dynamic
// threshold), so that one that never repairs its gap leaves room for all others.
class HoldPool {
 public:
  struct Buffer {
    InPacket packet;  // a view of the bytes
    uint8_t bytes[wire::kMaxPacketBytes];
  };
  explicit HoldPool(uint32_t max_buffers) : max_buffers_(max_buffers) {}

  // For who holds so many; nullptr when that is its share.
  [[nodiscard]] Buffer* take(size_t held);
  void give_back(Buffer* buffer) { free_.push_back(buffer); }
  [[nodiscard]] size_t in_use() const { return all_.size() - free_.size(); }

 private:
  uint32_t max_buffers_;
  std::vector<std::unique_ptr<Buffer>> all_;
  std::vector<Buffer*> free_;
};

// The held packets of one direction of one queue pair, by PSN: a ring of 8 bytes for each place,
// 512 bytes at first and 64 KiB at most, and a bit for each.
class Hold {
 public:
  static constexpr size_t kMaxPackets = 8192;
  static constexpr int32_t kMaxAhead = kMaxPackets - 1;  // PSNs beyond the missing one
  // Of peers that go back to what is missing, which have less under way. (Linux rxe: 128.)
  static constexpr int32_t kMaxAheadOfOthers = 256;
  enum class Kept : uint8_t { kNew, kBefore, kNot, kNoLonger };

  // A packet with the PSN that was expected came from this port.
  void set_port(uint16_t source_port) { port_ = source_port; }
  // Keeps a copy unless it is there already (kBefore), too far ahead, early from another port, or
  // there is no room (kNot). If what is there differs, it goes (kNoLonger).
  Kept keep(HoldPool& pool, wire::Psn expected, const InPacket& packet);
  // The packet with exactly this PSN, if held; valid until release_before() or clear().
  [[nodiscard]] const InPacket* find(wire::Psn psn) const {
    return holds(psn) ? &at(psn)->packet : nullptr;
  }
  // Gives back everything before `psn`.
  void release_before(HoldPool& pool, wire::Psn psn);
  // The first PSN at or after `from` that is not held.
  [[nodiscard]] wire::Psn next_missing(wire::Psn from) const {
    return holds(from) ? held_.next_reset(from, end_) : from;
  }
  // Distance from `from` to the first held packet at or after it; `otherwise` if there is none.
  [[nodiscard]] uint32_t gap_after(wire::Psn from, uint32_t otherwise) const;
  void clear(HoldPool& pool) { release_before(pool, end_); }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  // Whether it came from where those in order come from.
  [[nodiscard]] bool is_from_port(const InPacket& packet) const {
    return packet.source_port == port_;
  }
  // None from here on is held. Means nothing if none at all is.
  [[nodiscard]] wire::Psn end() const { return end_; }
  // Which of 32 from `psn` on are held, none of them before what is expected; the highest bit is
  // the first one's.
  [[nodiscard]] uint32_t word_at(wire::Psn psn) const {
    VERBENA_CHECK(!psn.is_before(begin_));
    return held_.word_at(psn, end_);
  }

 private:
  static constexpr size_t kFirstPlaces = 64;

  [[nodiscard]] HoldPool::Buffer*& at(wire::Psn psn) {
    return ring_[psn.value() & (ring_.size() - 1)];
  }
  [[nodiscard]] HoldPool::Buffer* at(wire::Psn psn) const {
    return ring_[psn.value() & (ring_.size() - 1)];
  }
  [[nodiscard]] bool holds(wire::Psn psn) const {
    return !psn.is_before(begin_) && psn.is_before(end_) && held_.test(psn);
  }
  void grow(size_t places);
  void drop(HoldPool& pool, wire::Psn psn);

  // Those held lie in [begin, end), within the size of the ring. What was expected is not before
  // its beginning.
  wire::Psn begin_;
  wire::Psn end_;
  size_t count_ = 0;
  std::vector<HoldPool::Buffer*> ring_;
  PsnBits held_{kFirstPlaces};
  uint16_t port_ = 0;
};

}  // namespace verbena::transport
