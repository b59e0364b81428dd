// SPDX-License-Identifier: Apache-2.0
// Buffers for messages, of one size and in one piece of memory. Those that are free are a stack:
// the last one used is the warmest.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <vector>

namespace verbena::fabric {

class MessagePool {
 public:
  MessagePool(uint32_t count, uint32_t bytes)
      : bytes_(bytes),
        stride_((size_t{bytes} + 63) / 64 * 64),
        memory_(static_cast<uint8_t*>(std::aligned_alloc(4096, rounded(count)))),
        size_(rounded(count)) {
    if (memory_ == nullptr) throw std::bad_alloc();
    free_.reserve(count);
    for (uint32_t i = count; i-- > 0;) free_.push_back(i);
  }
  [[nodiscard]] uint8_t* memory() const { return memory_.get(); }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] std::span<uint8_t> buffer(uint32_t index) const {
    return {memory_.get() + index * stride_, bytes_};
  }
  [[nodiscard]] size_t free() const { return free_.size(); }
  [[nodiscard]] std::optional<uint32_t> take() {
    if (free_.empty()) return std::nullopt;
    const uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }
  void give(uint32_t index) { free_.push_back(index); }

 private:
  [[nodiscard]] size_t rounded(uint32_t count) const {
    return (count * stride_ + 4095) / 4096 * 4096;
  }
  struct Free {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };
  const uint32_t bytes_;
  const size_t stride_;  // whole cache lines
  std::unique_ptr<uint8_t, Free> memory_;
  size_t size_;
  std::vector<uint32_t> free_;
};

}  // namespace verbena::fabric
