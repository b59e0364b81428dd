// SPDX-License-Identifier: Apache-2.0
#include "transport/send_queue.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "base/check.h"

namespace verbena::transport {

SendQueue::SendQueue(const SendQueueCaps& caps, bool datagrams)
    : caps_(caps),
      mask_(std::bit_ceil(std::max<size_t>(caps.max_entries, 1)) - 1),
      wqes_(mask_ + 1),
      sges_((mask_ + 1) * caps.max_sge),
      inline_((mask_ + 1) * caps.max_inline),
      datagrams_(datagrams ? mask_ + 1 : 0) {}

const BindTarget& SendQueue::bind(uint64_t number) const {
  VERBENA_CHECK(!binds_.empty());
  return binds_[slot(number)];
}

const ConfigTarget& SendQueue::config(uint64_t number) const {
  VERBENA_CHECK(!configs_.empty());
  return configs_[slot(number)];
}

const CopyTarget& SendQueue::copy(uint64_t number) const {
  VERBENA_CHECK(!copies_.empty());
  return copies_[slot(number)];
}

bool SendQueue::make_rare_room(std::span<const SendRequest> requests) noexcept {
  try {
    uint64_t number = tail();
    for (const SendRequest& request : requests) {
      switch (request.op) {
        case SendOp::kBindWindow:
          if (binds_.empty()) binds_.resize(mask_ + 1);
          break;
        case SendOp::kConfigureKey:
          if (configs_.empty()) configs_.resize(mask_ + 1);
          configs_[slot(number)].config.blocks.reserve(request.config->blocks.size());
          break;
        case SendOp::kCopy:
          if (copies_.empty()) copies_.resize(mask_ + 1);
          break;
        default: break;
      }
      ++number;
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void SendQueue::push(const SendRequest& request, uint64_t length) {
  VERBENA_CHECK(!full());
  const size_t at = slot(tail());
  // Each field where it stays: a whole one that is made elsewhere and copied is waited for.
  SendWqe& wqe = wqes_[at];
  wqe.wr_id = request.wr_id;
  wqe.length = length;
  wqe.remote_addr = request.remote_addr;
  wqe.compare_add = request.compare_add;
  wqe.swap = request.swap;
  wqe.rkey = request.rkey;
  const bool invalidates =
      request.op == SendOp::kSendInvalidate || request.op == SendOp::kLocalInvalidate;
  wqe.imm_or_invalidate = invalidates ? request.invalidate.value : request.imm;
  wqe.remote_srq = request.remote_srq;
  wqe.flags = request.flags;
  wqe.op = request.op;
  wqe.entries = 0;
  wqe.started = wqe.cancelled = false;
  wqe.local_status = WcStatus::kSuccess;
  wqe.packets = wqe.segment_packets = 0;
  wqe.first_psn = {};
  if ((request.flags & kInline) != 0) {
    uint8_t* to = inline_.data() + at * caps_.max_inline;
    for (const memory::Sge& sge : request.list) {
      // kInline: the address is the caller's own pointer.
      if (sge.length != 0) std::memcpy(to, reinterpret_cast<const void*>(sge.addr), sge.length);
      to += sge.length;
    }
  } else {
    wqe.entries = static_cast<uint8_t>(request.list.size());
    std::ranges::copy(request.list, sges_.begin() + static_cast<ptrdiff_t>(at * caps_.max_sge));
  }
  if (!datagrams_.empty()) {
    datagrams_[at] = {request.path, request.remote_qpn, request.remote_qkey};
  }
  if (request.op == SendOp::kBindWindow) {
    binds_[at] = {request.window, request.bind};
  } else if (request.op == SendOp::kConfigureKey) {
    configs_[at].key = request.key;
    configs_[at].config = *request.config;  // into the room that was made
  } else if (request.op == SendOp::kCopy) {
    copies_[at] = {request.copy_to, request.copy_from};
  }
  ends_.append();
}

}  // namespace verbena::transport
