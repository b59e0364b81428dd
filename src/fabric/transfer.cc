// SPDX-License-Identifier: Apache-2.0
#include "fabric/transfer.h"

#include <algorithm>

namespace verbena::fabric {

Transfer::Transfer(bool is_read, OperationId operation, std::span<const Local> ours,
                   std::span<const Remote> theirs)
    : is_read_(is_read),
      operation_(operation),
      ours_(ours.begin(), ours.end()),
      theirs_(theirs.begin(), theirs.end()) {}

bool Transfer::is_valid() const {
  uint64_t ours = 0;
  for (const Local& one : ours_) {
    if (one.bytes == 0 || one.count == 0) return false;
    ours += uint64_t{one.bytes} * one.count;
  }
  uint64_t theirs = 0;
  for (const Remote& one : theirs_) {
    if (one.length == 0) return false;
    theirs += one.length;
  }
  return ours == theirs && ours > 0;
}

void Transfer::use_key(size_t index, uint32_t key) {
  Local& local = ours_[index];
  local = {.memory = nullptr, .bytes = local.bytes * local.count};
  keys_[index] = key;
}

ibv_sge Transfer::take(uint64_t most) {
  const Local& from = ours_[our_];
  const auto length = static_cast<uint32_t>(std::min<uint64_t>(most, from.bytes - used_));
  const ibv_sge part{
      .addr = reinterpret_cast<uint64_t>(from.memory) + uint64_t{part_} * from.stride + used_,
      .length = length,
      .lkey = keys_[our_]};
  used_ += length;
  if (used_ < from.bytes) return part;
  used_ = 0;
  if (++part_ == from.count) {
    part_ = 0;
    ++our_;
  }
  return part;
}

Transfer::Step Transfer::next(std::span<ibv_sge> parts) {
  const Remote& to = theirs_[their_];
  Step step{to.address + their_used_, to.rkey, 0};
  while (their_used_ < to.length && step.parts < parts.size()) {
    ibv_sge& part = parts[step.parts++];
    part = take(to.length - their_used_);
    their_used_ += part.length;
  }
  if (their_used_ == to.length) {
    their_used_ = 0;
    ++their_;
  }
  return step;
}

}  // namespace verbena::fabric
