// SPDX-License-Identifier: Apache-2.0
#include "rsocket/flow.h"

#include <algorithm>

namespace verbena::rsocket {

void SendFlow::begin(uint16_t credits, const Entry& first_half) {
  credits_ = limit_ = credits;
  halves_[0] = first_half;
}

uint32_t SendFlow::direct_room() const {
  return can_send_direct() ? std::min(free_bytes_, kMaxTransfer) : 0;
}

uint32_t SendFlow::room() const {
  return can_send() ? std::min(direct_room(), halves_[current_].length) : 0;
}

SendFlow::Target SendFlow::take(uint32_t bytes) {
  Entry& half = halves_[current_];
  const Target target{.address = half.address, .key = half.key};
  half.address += bytes;
  half.length -= bytes;
  if (half.length == 0) current_ = (current_ + 1) % kListEntries;
  ++used_;
  take_direct(bytes);
  return target;
}

void SendFlow::take_direct(uint32_t bytes) {
  ++sent_;
  free_bytes_ -= bytes;
}

void SendFlow::take_mapping() {
  ++used_;
  take_direct(kMappingBytes);
}

void SendFlow::completed(const Message& message) {
  switch (message.op) {
    case Op::kGrant:
    case Op::kControl: --controls_; return;
    case Op::kIomap:   free_bytes_ += kMappingBytes; break;
    default:           free_bytes_ += message.data; break;
  }
  --sent_;
}

bool SendFlow::granted(uint16_t limit, const std::optional<Entry>& half) {
  const auto left_before = static_cast<uint16_t>(limit_ - used_);
  const auto left = static_cast<uint16_t>(limit - used_);
  if (left < left_before || left > credits_) return false;
  if (half) {
    Entry& place = halves_[next_granted_];
    if (place.length != 0 || half->length == 0) return false;
    place = *half;
    next_granted_ = (next_granted_ + 1) % kListEntries;
  }
  limit_ = limit;
  return true;
}

bool ReceiveFlow::arrived(uint32_t bytes) {
  if (bytes == 0 || bytes > expected_ || count_ == lengths_.size()) return false;
  lengths_[(first_ + count_) % lengths_.size()] = bytes;
  ++count_;
  expected_ -= bytes;
  readable_ += bytes;
  return true;
}

bool ReceiveFlow::mapping_arrived() {
  if (count_ == lengths_.size()) return false;
  ++done_;
  return true;
}

ReceiveFlow::Piece ReceiveFlow::piece(uint32_t ahead) const {
  const uint32_t offset = (read_offset_ + ahead) % (2 * half_);
  return {.offset = offset, .bytes = std::min(readable_ - ahead, 2 * half_ - offset)};
}

void ReceiveFlow::read(uint32_t bytes) {
  read_offset_ = (read_offset_ + bytes) % (2 * half_);
  readable_ -= bytes;
  returned_ += bytes;
  while (bytes > 0) {
    const uint32_t taken = std::min(bytes, lengths_[first_]);
    bytes -= taken;
    lengths_[first_] -= taken;
    if (lengths_[first_] != 0) continue;
    first_ = static_cast<uint32_t>((first_ + 1) % lengths_.size());
    --count_;
    ++done_;
  }
}

bool ReceiveFlow::owes_grant() const {
  return returned_ >= half_ || static_cast<int16_t>(done_ - tell_at_) >= 0;
}

ReceiveFlow::Grant ReceiveFlow::grant() {
  Grant grant{.limit = static_cast<uint16_t>(done_ + places_), .half_offset = {}};
  tell_at_ = static_cast<uint16_t>(done_ + places_ / 2);
  if (returned_ >= half_) {
    grant.half_offset = next_half_;
    returned_ -= half_;
    expected_ += half_;
    next_half_ = next_half_ == 0 ? half_ : 0;
  }
  return grant;
}

}  // namespace verbena::rsocket
