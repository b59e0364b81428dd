// SPDX-License-Identifier: Apache-2.0
// Every flush and every fence of the engine, by name, so that a test can omit each one and show
// that it is needed.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "medium/backend.h"
#include "store/error.h"

namespace verbena::store {

enum class PersistPoint : uint8_t {
  kData,  // chunks of objects
  kLogA,  // log chunks, both copies
  kLogB,
  kLogFence,     // with which data and log become durable together
  kCheckpointA,  // chunks of a checkpoint, both copies
  kCheckpointB,
  kCheckpointFence,  // before the superblock names them
  kSuperA,
  kSuperB,
  kSuperFirstFence,   // before the other copy is touched
  kSuperSecondFence,  // before what only the old ones named is used again
  kCloseFirstFence,   // log, data and one copy of the superblock, before the other says "closed"
  kCloseSecondFence,  // before closing returns
  kTailSuperA,        // at opening: both superblocks as they are, before one of them is changed
  kTailSuperB,
  kTailSuperFence,
  kMendSuper,  // and one that is damaged or old, before the other is changed
  kMendFence,
  kTailLogA,
  kTailLogB,
  kTailData,  // at opening: what a process that was killed left unflushed
  kCount,
};

class Persist {
 public:
  Persist(medium::Backend& backend, uint32_t omit) : backend_(backend), omit_(omit) {}

  void flush(PersistPoint point, const uint8_t* memory, size_t bytes) {
    if (!omitted(point)) backend_.flush(memory, bytes);
  }
  // At opening: of memory that was not changed since.
  void rewrite(PersistPoint point, uint8_t* memory, size_t bytes) {
    if (!omitted(point)) backend_.rewrite(memory, bytes);
  }
  // After a failure all later calls fail: a retry would report data as durable that the first call
  // has lost.
  [[nodiscard]] Result<void> fence(PersistPoint point) {
    if (const auto good = not_failed(); !good) return good;
    if (omitted(point)) return {};
    if (const auto done = backend_.fence(); !done) {
      failed_.store(true, std::memory_order_relaxed);
      return fail(broken(done.error().what));
    }
    return {};
  }
  // After a failure: what is written now is there to undo what failed, as well as it can be.
  void undo(const uint8_t* memory, size_t bytes) { backend_.flush(memory, bytes); }
  [[nodiscard]] bool undo_fence() { return backend_.fence_after_failure().has_value(); }
  [[nodiscard]] Result<void> not_failed() const {
    return failed() ? fail(broken("an earlier sync failed")) : Result<void>{};
  }
  [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_relaxed); }

 private:
  [[nodiscard]] bool omitted(PersistPoint point) const {
    return (omit_ >> static_cast<unsigned>(point) & 1) != 0;
  }
  [[nodiscard]] static Error broken(const std::string& why) {
    return {Code::kIo,
            "writing to the medium failed: " + why +
                "; the store is read-only now. Check the disk, then open the store again",
            {}};
  }

  medium::Backend& backend_;
  uint32_t omit_;
  std::atomic<bool> failed_{false};
};

}  // namespace verbena::store
