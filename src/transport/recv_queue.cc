// SPDX-License-Identifier: Apache-2.0
#include "transport/recv_queue.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace verbena::transport {

RecvQueue::RecvQueue(uint32_t max_entries, uint32_t max_sge)
    : max_entries_(max_entries),
      max_sge_(max_sge),
      mask_(std::bit_ceil(std::max<size_t>(max_entries, 1)) - 1),
      entries_(mask_ + 1),
      sges_((mask_ + 1) * max_sge) {}

void RecvQueue::push(const RecvRequest& request) {
  VERBENA_CHECK(!full() && request.list.size() <= max_sge_);
  const size_t at = slot(ends_.tail());
  entries_[at] = {request.wr_id, static_cast<uint32_t>(request.list.size())};
  std::ranges::copy(request.list, sges_.begin() + static_cast<ptrdiff_t>(at * max_sge_));
  ends_.append();
}

void RecvQueue::take(TakenReceive& taken) {
  VERBENA_CHECK(!empty() && !taken.present);
  const uint64_t head = ends_.head();
  const auto entries = list(head);
  taken.present = true;
  taken.wr_id = entries_[slot(head)].wr_id;
  taken.list.assign(entries.begin(), entries.end());
  taken.length = memory::total_bytes(entries);
  ends_.take();
}

uint64_t RecvQueue::peek_length() const {
  VERBENA_CHECK(!empty());
  return memory::total_bytes(list(ends_.head()));
}

}  // namespace verbena::transport
