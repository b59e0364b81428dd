// SPDX-License-Identifier: Apache-2.0
#include "transport/hold.h"

#include <algorithm>
#include <cstring>
#include <iterator>

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

ptrdiff_t Hold::at_or_after(wire::Psn psn) const {
  const auto place =
      std::ranges::partition_point(psns_, [psn](wire::Psn other) { return other.is_before(psn); });
  return place - psns_.begin();
}

bool Hold::keep(HoldPool& pool, wire::Psn expected, const InPacket& packet) {
  const wire::Psn psn = packet.view.bth.psn;
  if (distance(expected, psn) > kMaxAhead || held_.size() >= kMaxPackets) return false;
  if (psn != expected && packet.source_port != port_) return false;
  const ptrdiff_t place = at_or_after(psn);
  if (place != std::ssize(psns_) && psns_[static_cast<size_t>(place)] == psn) return true;
  HoldPool::Buffer* const buffer = pool.take(held_.size());
  if (buffer == nullptr) return false;

  const size_t header_bytes = packet.view.info->header_bytes;
  const size_t payload_bytes = packet.view.payload.size();
  VERBENA_CHECK(header_bytes + payload_bytes <= sizeof buffer->bytes);
  std::memcpy(buffer->bytes, packet.view.data, header_bytes);
  if (payload_bytes != 0) {
    std::memcpy(buffer->bytes + header_bytes, packet.view.payload.data(), payload_bytes);
  }
  Entry entry{packet, buffer};
  entry.packet.view.data = buffer->bytes;
  entry.packet.view.payload = {buffer->bytes + header_bytes, payload_bytes};
  held_.insert(held_.begin() + place, entry);
  psns_.insert(psns_.begin() + place, psn);
  return true;
}

const InPacket* Hold::find(wire::Psn psn) const {
  const auto place = static_cast<size_t>(at_or_after(psn));
  return place == psns_.size() || psns_[place] != psn ? nullptr : &held_[place].packet;
}

void Hold::release_before(HoldPool& pool, wire::Psn psn) {
  const ptrdiff_t keep_from = at_or_after(psn);
  for (auto it = held_.begin(); it != held_.begin() + keep_from; ++it) pool.give_back(it->buffer);
  held_.erase(held_.begin(), held_.begin() + keep_from);
  psns_.erase(psns_.begin(), psns_.begin() + keep_from);
}

wire::Psn Hold::next_missing(wire::Psn from) const {
  for (auto it = psns_.begin() + at_or_after(from); it != psns_.end(); ++it, from = from.next()) {
    if (*it != from) break;
  }
  return from;
}

uint32_t Hold::gap_after(wire::Psn from, uint32_t otherwise) const {
  const auto place = static_cast<size_t>(at_or_after(from));
  return place == psns_.size() ? otherwise : static_cast<uint32_t>(distance(from, psns_[place]));
}

void Hold::clear(HoldPool& pool) {
  for (const Entry& entry : held_) pool.give_back(entry.buffer);
  held_.clear();
  psns_.clear();
}

}  // namespace verbena::transport
