// SPDX-License-Identifier: Apache-2.0
// Memory for whole stripes, which is used again: fresh memory of this size comes from the kernel,
// page by page, and costs more than the copy that it is for. For any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace verbena::backend {

class StripeMemory {
 public:
  // At most `most` pieces are kept when nobody uses them.
  StripeMemory(size_t bytes, size_t most) : bytes_(bytes), most_(most) {}
  StripeMemory(const StripeMemory&) = delete;
  StripeMemory& operator=(const StripeMemory&) = delete;

  // Given back when it ends. Whatever was in it before is in it.
  class Piece {
   public:
    Piece() = default;
    Piece(StripeMemory& owner, std::unique_ptr<uint8_t[]> memory)
        : owner_(&owner), memory_(std::move(memory)) {}
    Piece(Piece&& other) noexcept = default;
    Piece& operator=(Piece&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(memory_, other.memory_);
      return *this;
    }
    ~Piece() {
      if (memory_) owner_->give(std::move(memory_));
    }
    [[nodiscard]] uint8_t* data() { return memory_.get(); }
    [[nodiscard]] const uint8_t* data() const { return memory_.get(); }

   private:
    StripeMemory* owner_ = nullptr;
    std::unique_ptr<uint8_t[]> memory_;
  };

  [[nodiscard]] Piece take() {
    {
      const MutexLock lock(mutex_);
      if (!idle_.empty()) {
        auto memory = std::move(idle_.back());
        idle_.pop_back();
        return {*this, std::move(memory)};
      }
    }
    return {*this, std::make_unique_for_overwrite<uint8_t[]>(bytes_)};
  }

 private:
  void give(std::unique_ptr<uint8_t[]> memory) {
    const MutexLock lock(mutex_);
    if (idle_.size() < most_) idle_.push_back(std::move(memory));
  }
  const size_t bytes_;
  const size_t most_;
  Mutex mutex_;
  std::vector<std::unique_ptr<uint8_t[]>> idle_ VERBENA_GUARDED_BY(mutex_);
};

}  // namespace verbena::backend
