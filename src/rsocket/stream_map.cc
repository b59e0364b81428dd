// SPDX-License-Identifier: Apache-2.0
// Buffers of the program's that the peer writes into directly: riomap(), riounmap(), riowrite().
#include <algorithm>
#include <cerrno>

#include <sys/mman.h>

#include "rsocket/stream.h"

namespace verbena::rsocket {

std::optional<uint32_t> Stream::free_index() const {
  for (uint32_t index = 0; index < peer_.iomap_entries; ++index) {
    if (std::ranges::none_of(mapped_, [&](const Mapped& one) { return one.index == index; })) {
      return index;
    }
  }
  return std::nullopt;
}

int64_t Stream::map(void* buffer, size_t length, int protection, int64_t offset) {
  const MutexLock lock(mutex_);
  if (const int error = await_connection(false, std::nullopt); error != 0) return error;
  if ((protection & ~PROT_WRITE) != 0 || length > UINT32_MAX || offset < -1) return -EINVAL;
  Mapped mapped{.mapping = {}, .region = nullptr, .index = {}, .told = true};
  int access = IBV_ACCESS_LOCAL_WRITE;
  if ((protection & PROT_WRITE) != 0) {
    mapped.index = free_index();
    if (!mapped.index) return -ENOMEM;
    mapped.told = false;
    access |= IBV_ACCESS_REMOTE_WRITE;
  }
  mapped_.reserve(mapped_.size() + 1);
  mapped.region = ibv_reg_mr(endpoint_->pd(), buffer, length, access);
  if (mapped.region == nullptr) return -errno;
  if (offset == -1) offset = static_cast<int64_t>(reinterpret_cast<uintptr_t>(buffer));
  mapped.mapping = {.offset = static_cast<uint64_t>(offset),
                    .entry = {.address = reinterpret_cast<uintptr_t>(buffer),
                              .key = mapped.region->rkey,
                              .length = static_cast<uint32_t>(length)}};
  if (!mapped.told) mappings_untold_ = true;
  mapped_.push_back(mapped);
  return offset;
}

int Stream::unmap(void* buffer, size_t length) {
  const MutexLock lock(mutex_);
  const auto place = std::ranges::find_if(mapped_, [&](const Mapped& one) {
    return one.region->addr == buffer && one.region->length == length;
  });
  if (place == mapped_.end()) return -EINVAL;
  (void)ibv_dereg_mr(place->region);
  mapped_.erase(place);
  return 0;
}

void Stream::unmap_all() {
  for (const Mapped& one : mapped_) (void)ibv_dereg_mr(one.region);
  mapped_.clear();
}

// Before the data that follows: the peer may count on a mapping that it heard of before.
int Stream::tell_mappings(bool nonblocking, std::optional<Clock::time_point> until) {
  for (;;) {
    const auto next = std::ranges::find_if(mapped_, [](const Mapped& one) { return !one.told; });
    if (next == mapped_.end()) break;
    if (writable_ && !send_->can_send()) {
      const int error = wait(nonblocking, until, [&] {
        mutex_.assert_held();
        return !writable_ || send_->can_send();
      });
      if (error != 0) return error;
      continue;  // another thread may have changed the list
    }
    if (!writable_) return send_error();
    const uint64_t list_end = peer_.list.address + uint64_t{peer_.list.length} * kEntryBytes;
    const Endpoint::Write write{.message = encode(Op::kIomap, *next->index),
                                .address = list_end + uint64_t{*next->index} * kMappingBytes,
                                .key = peer_.list.key};
    next->told = true;
    send_->take_mapping();
    if (const int error = endpoint_->post_inline(write, encode(next->mapping, peer_.order));
        error != 0) {
      break_off(ECONNRESET);
      return -error;
    }
  }
  mappings_untold_ = false;
  return 0;
}

ssize_t Stream::write_mapped(Pieces& from, int64_t offset, int flags) {
  const MutexLock lock(mutex_);
  const bool nonblocking = is_nonblocking(flags);
  const auto until = deadline_of(send_timeout_);
  if (const int error = await_connection(nonblocking, until); error != 0) return error;
  int error = mappings_untold_ ? tell_mappings(nonblocking, until) : 0;
  uint32_t most = kLowWater;
  const size_t wanted = from.left();
  auto at = static_cast<uint64_t>(offset);
  while (error == 0 && from.left() != 0) {
    if (writable_ && !send_->can_send_direct()) {
      error = wait(nonblocking, until, [&] {
        mutex_.assert_held();
        return !writable_ || send_->can_send_direct();
      });
      if (error != 0) break;
    }
    if (!writable_) {
      error = send_error();
      break;
    }
    const auto mapping = std::ranges::find_if(peer_mappings_, [&](const Mapping& one) {
      return at >= one.offset && at - one.offset < one.entry.length;
    });
    if (mapping == peer_mappings_.end()) break;
    const uint64_t inside = at - mapping->offset;
    const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(
        {from.left(), most, send_->direct_room(), mapping->entry.length - inside}));
    most = std::min(2 * most, kMaxTransfer);
    const uint32_t place = send_->buffer_offset();
    const uint32_t first = std::min(bytes, sizes_.send_bytes - place);
    from.copy_to(endpoint_->send_buffer() + place, first);
    from.copy_to(endpoint_->send_buffer(), bytes - first);
    send_->fill_buffer(bytes);
    send_->take_direct(bytes);
    error = -endpoint_->post_buffer({.message = encode(Op::kDirect, bytes),
                                     .address = mapping->entry.address + inside,
                                     .key = mapping->entry.key,
                                     .told = false},
                                    place, bytes);
    if (error != 0) break_off(ECONNRESET);
    at += bytes;
  }
  const size_t sent = wanted - from.left();
  return sent != 0 || error == 0 ? static_cast<ssize_t>(sent) : error;
}

}  // namespace verbena::rsocket
