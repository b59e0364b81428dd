// SPDX-License-Identifier: Apache-2.0
#include "transport/hold.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace verbena::transport {

HoldPool::Buffer* HoldPool::take(size_t held) {
  if (in_use() + held >= max_buffers_) return nullptr;
  if (!free_.empty()) {
    Buffer* const buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  all_.push_back(std::make_unique_for_overwrite<Buffer>());
  free_.reserve(all_.size());
  return all_.back().get();
}

void Hold::grow(size_t places) {
  size_t size = std::max(ring_.size(), kFirstPlaces);
  while (size < places) size *= 2;
  if (size == ring_.size()) return;
  std::vector<HoldPool::Buffer*> larger(size);
  PsnBits bits(size);
  for (wire::Psn psn = held_.next_set(begin_, end_); psn != end_;
       psn = held_.next_set(psn.next(), end_)) {
    larger[psn.value() & (size - 1)] = at(psn);
    bits.set(psn);
  }
  ring_ = std::move(larger);
  held_ = std::move(bits);
}

namespace {

// Whether they ask for the same, or answer the same. A copy of a request may ask for an
// acknowledgement where the first did not (BTH). One of a response counts what was done meanwhile
// (AETH), and where only a part of a READ was asked for again it is a First, a Last or an Only
// instead of a Middle.
[[nodiscard]] bool is_copy(const wire::PacketView& a, const wire::PacketView& b) {
  if (a.info->operation != b.info->operation || !std::ranges::equal(a.payload, b.payload)) {
    return false;
  }
  if (a.info->is_response()) {
    return !a.info->has(wire::kAtomicAckEth) ||
           a.atomic_ack_eth().original == b.atomic_ack_eth().original;
  }
  const size_t headers = a.info->header_bytes;
  return a.bth.opcode == b.bth.opcode && a.bth.solicited == b.bth.solicited &&
         std::ranges::equal(std::span(a.data, headers).subspan(wire::Bth::kBytes),
                            std::span(b.data, headers).subspan(wire::Bth::kBytes));
}

}  // namespace

void Hold::drop(HoldPool& pool, wire::Psn psn) {
  pool.give_back(at(psn));
  held_.reset(psn);
  --count_;
}

Hold::Kept Hold::keep(HoldPool& pool, wire::Psn expected, const InPacket& packet) {
  const wire::Psn psn = packet.view.bth.psn;
  if (psn != expected && packet.source_port != port_) return Kept::kNot;
  if (count_ == 0) begin_ = end_ = expected;
  const int32_t ahead = distance(begin_, psn);
  if (ahead < 0 || ahead > kMaxAhead) return Kept::kNot;
  if (holds(psn)) {
    if (is_copy(at(psn)->packet.view, packet.view)) return Kept::kBefore;
    drop(pool, psn);
    return Kept::kNoLonger;
  }
  HoldPool::Buffer* const buffer = pool.take(count_);
  if (buffer == nullptr) return Kept::kNot;

  const size_t header_bytes = packet.view.info->header_bytes;
  const size_t payload_bytes = packet.view.payload.size();
  VERBENA_CHECK(header_bytes + payload_bytes <= sizeof buffer->bytes);
  std::memcpy(buffer->bytes, packet.view.data, header_bytes);
  if (payload_bytes != 0) {
    std::memcpy(buffer->bytes + header_bytes, packet.view.payload.data(), payload_bytes);
  }
  buffer->packet = packet;
  buffer->packet.view.data = buffer->bytes;
  buffer->packet.view.payload = {buffer->bytes + header_bytes, payload_bytes};

  grow(static_cast<size_t>(ahead) + 1);
  at(psn) = buffer;
  held_.set(psn);
  ++count_;
  if (!psn.is_before(end_)) end_ = psn.next();
  return Kept::kNew;
}

void Hold::release_before(HoldPool& pool, wire::Psn psn) {
  if (!psn.is_after(begin_)) return;
  if (psn.is_after(end_)) psn = end_;
  for (wire::Psn each = held_.next_set(begin_, psn); each != psn;
       each = held_.next_set(each.next(), psn)) {
    drop(pool, each);
  }
  begin_ = psn;
}

uint32_t Hold::gap_after(wire::Psn from, uint32_t otherwise) const {
  const wire::Psn first = held_.next_set(from.is_before(begin_) ? begin_ : from, end_);
  return first.is_before(end_) ? static_cast<uint32_t>(distance(from, first)) : otherwise;
}

}  // namespace verbena::transport
