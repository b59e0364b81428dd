// SPDX-License-Identifier: Apache-2.0
// Completion counters: how many operations of certain kinds queue pairs have completed, signaled or
// not, and how many failed. Belong to the owner, and outlive the queue pairs they are attached to.
// Programs read and set them from any thread; all else is the endpoint's thread's (the engine's
// lock).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/types.h"

namespace verbena::transport {

// As bits, those of ibv_qp_attach_comp_cntr_op.
enum class CountedOp : uint8_t { kSend, kRecv, kRead, kRemoteRead, kWrite, kRemoteWrite };
inline constexpr size_t kCountedOps = 6;
[[nodiscard]] constexpr uint32_t bit_of(CountedOp op) { return 1u << static_cast<unsigned>(op); }
// A long READ arrives as several requests, which nothing tells from READs of their own.
inline constexpr uint32_t kCountableOps =
    ((1u << kCountedOps) - 1) & ~bit_of(CountedOp::kRemoteRead);

struct OperationCounter {
  bool in_bytes = false;  // of what succeeded; failures are counted one by one
  // Release, after what they count is in memory: pairs with the program's acquire when it reads.
  std::atomic<uint64_t> done{0};
  std::atomic<uint64_t> failed{0};
  // Operations of queue pairs that it is attached for; and whether it may be attached any more.
  uint32_t users = 0;
  bool retired = false;

  void count(WcStatus status, uint64_t bytes) {
    if (status == WcStatus::kSuccess) {
      done.fetch_add(in_bytes ? bytes : 1, std::memory_order_release);
    } else {
      failed.fetch_add(1, std::memory_order_release);
    }
  }
};

// Those of one queue pair, at most one for each kind of operation.
class AttachedCounters {
 public:
  AttachedCounters() = default;
  ~AttachedCounters();
  AttachedCounters(const AttachedCounters&) = delete;
  AttachedCounters& operator=(const AttachedCounters&) = delete;

  // Whether none of `ops` (bits) has one.
  [[nodiscard]] bool are_free(uint32_t ops) const;
  void attach(OperationCounter& counter, uint32_t ops);
  void count(CountedOp op, WcStatus status, uint64_t bytes) {
    OperationCounter* const counter = counters_[static_cast<size_t>(op)];
    if (counter != nullptr) counter->count(status, bytes);
  }
  // A request of the send queue; some kinds are not counted.
  void count(SendOp op, WcStatus status, uint64_t bytes);

 private:
  std::array<OperationCounter*, kCountedOps> counters_{};
};

}  // namespace verbena::transport
