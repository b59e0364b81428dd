// SPDX-License-Identifier: Apache-2.0
#include "transport/operation_counter.h"

#include "base/check.h"

namespace verbena::transport {

AttachedCounters::~AttachedCounters() {
  for (OperationCounter* const counter : counters_) {
    if (counter != nullptr) --counter->users;
  }
}

bool AttachedCounters::are_free(uint32_t ops) const {
  for (size_t i = 0; i < kCountedOps; ++i) {
    if ((ops >> i & 1) != 0 && counters_[i] != nullptr) return false;
  }
  return true;
}

void AttachedCounters::attach(OperationCounter& counter, uint32_t ops) {
  VERBENA_CHECK(are_free(ops));
  for (size_t i = 0; i < kCountedOps; ++i) {
    if ((ops >> i & 1) == 0) continue;
    counters_[i] = &counter;
    ++counter.users;
  }
}

void AttachedCounters::count(SendOp op, WcStatus status, uint64_t bytes) {
  switch (op) {
    case SendOp::kSend:
    case SendOp::kSendImm:
    case SendOp::kSendInvalidate: return count(CountedOp::kSend, status, bytes);
    case SendOp::kWrite:
    case SendOp::kWriteImm:       return count(CountedOp::kWrite, status, bytes);
    case SendOp::kRead:           return count(CountedOp::kRead, status, bytes);
    default:                      return;
  }
}

}  // namespace verbena::transport
